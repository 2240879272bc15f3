// Matrix products: against double precision, and bit for bit against each other.
#include "check.h"
#include "../src/gemm.cu"
#include "matrix.h"
using namespace check;

static void ranges(int n, int k, int &splits, int &tiles) { // kernels.Splits
  int kt = up(k, 64), want = std::min({8, up(264, up(n, 64)), std::max(1, kt / 4)});
  tiles = up(kt, want);
  splits = up(kt, tiles);
}

struct Product {
  int rows;
  const Matrix &m;
  Memory<u16> x;
  Memory<float> bias;
  std::vector<double> sums; // [rows, n]
  Product(int rows, const Matrix &m, bool with_bias) : rows(rows), m(m), x((size_t)rows * ld(m.k)), bias(m.n), sums((size_t)rows * m.n) {
    fill(x, rows, m.k);
    for (int i = 0; i < m.n; i++) bias[i] = with_bias ? frand() : 0;
    x.keep(), bias.keep();
    for (int r = 0; r < rows; r++)
      for (int i = 0; i < m.n; i++) {
        double s = bias[i];
        for (int c = 0; c < m.k; c++) s += (double)value(x[(size_t)r * ld(m.k) + c]) * m.meaning[(size_t)i * m.k + c];
        sums[(size_t)r * m.n + i] = s;
      }
  }
  void run(const char *tile, void *y, int ldy, int epilogue, bool with_bias) {
    int splits, tiles;
    ranges(m.n, m.k, splits, tiles);
    std::string name = std::string("gemm_") + formats[m.format] + "_" + tile;
    bool wide = !strcmp(tile, "128");
    int t = wide ? 128 : atoi(tile + 1);
    Memory<float> work(!wide && splits > 1 ? (size_t)splits * up(rows, t) * t * up(m.n, 64) * 64 : 1);
    Memory<u32> counters((size_t)up(m.n, 64) * up(rows, t));
    counters.zero();
    counters.keep(); // zero again afterwards
    Dim grid = wide ? Dim{up(m.n, 128), up(rows, 128)} : Dim{up(m.n, 64), splits, up(rows, t)};
    launch(name.c_str(), grid, {(u8 *)y, x, m.w, with_bias ? bias.p : (float *)nullptr, work, counters, rows, m.n, m.k, ld(m.k), ldy, splits, tiles, epilogue});
  }
};
static const char *tiles_all[] = {"n8", "n16", "n32", "n64", "128"};

static void products(int rows, int n, int k, int format, bool with_bias) {
  Matrix m(n, k, format);
  Product p(rows, m, with_bias);
  int l = ld(n);
  std::vector<float> first;
  for (auto tile : tiles_all) {
    test(std::string("gemm_") + formats[format] + "_" + tile + " " + std::to_string(rows) + "x" + std::to_string(n) + "x" + std::to_string(k));
    Memory<float> y((size_t)rows * l);
    p.run(tile, y.p, l, STORE_F32, with_bias);
    Error e;
    for (int r = 0; r < rows; r++)
      for (int c = 0; c < l; c++) {
        if (c < n) e.add(y[(size_t)r * l + c], p.sums[(size_t)r * n + c]);
        else if (y[(size_t)r * l + c] != 0) return wrong("no zero behind row %d", r);
      }
    e.judge(F32 * 3);
    std::vector<float> got(y.p, y.p + y.n);
    if (first.empty()) first = got;
    else if (memcmp(first.data(), got.data(), got.size() * 4)) wrong("other bits than gemm_n8");
  }
  // a row alone has the bits it had among others
  test("one row of " + std::to_string(rows));
  int r = rows - 1;
  Product one(1, m, false);
  memcpy(one.x.p, p.x.p + (size_t)r * ld(k), ld(k) * 2);
  one.x.keep();
  memcpy(one.bias.p, p.bias.p, n * 4);
  one.bias.keep();
  Memory<float> y(l);
  one.run("n8", y.p, l, STORE_F32, with_bias);
  if (memcmp(y.p, first.data() + (size_t)r * l, l * 4)) wrong("other bits");
}

static void epilogues(int rows, int n, int k) {
  Matrix m(n, k, BF16);
  Product p(rows, m, true), plain(rows, m, false);
  int l = ld(n);
  for (auto tile : tiles_all) {
    test(std::string("epilogues of ") + tile);
    Memory<u16> h((size_t)rows * l);
    p.run(tile, h.p, l, STORE_BF16, true);
    Memory<float> y((size_t)rows * l);
    fill(y, rows, n);
    std::vector<float> y0(y.p, y.p + y.n);
    p.run(tile, y.p, l, ADD_F32, true);
    Error eh, ey;
    for (int r = 0; r < rows; r++)
      for (int c = 0; c < n; c++) {
        eh.add(value(h[(size_t)r * l + c]), p.sums[(size_t)r * n + c]);
        ey.add(y[(size_t)r * l + c], y0[(size_t)r * l + c] + p.sums[(size_t)r * n + c]);
      }
    eh.judge(BF16_LIMIT), ey.judge(F32 * 3);
    if (n % 64) continue;
    int l2 = ld(n / 2);
    Memory<u16> g((size_t)rows * l2);
    plain.run(tile, g.p, l2, SWIGLU, false);
    Error e;
    for (int r = 0; r < rows; r++)
      for (int c = 0; c < n / 2; c++) {
        double a = plain.sums[(size_t)r * n + c / 32 * 64 + c % 32], b = plain.sums[(size_t)r * n + c / 32 * 64 + 32 + c % 32];
        e.add(value(g[(size_t)r * l2 + c]), a / (1 + exp(-a)) * b);
      }
    e.judge(BF16_LIMIT);
  }
}

int main() {
  for (int f : {BF16, Q8, Q4, MXFP4}) {
    products(1, 64, 64, f, false);
    products(7, 100, 264, f, true);
    products(70, 66, 800, f, true);
    products(131, 200, 72, f, false);
  }
  products(3, 36, 44, BF16, true);
  products(9, 130, 2050, BF16, false);
  products(130, 2200, 64, BF16, false); // more tiles of weights than one group of tile_of
  epilogues(37, 128, 328), epilogues(5, 90, 64), epilogues(3, 192, 72);
  return finish("gemm");
}
