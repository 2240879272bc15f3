// The wgmma products: against double precision, and bit for bit against each other.
#include "check.h"
#include "../src/hgemm.cu"
#include "../src/hprobe.cu"
using namespace check;

// A tensor map as the emulator reads it; on a GPU cuTensorMapEncodeTiled makes it.
static TMap map_of(const Memory<u16> &x, int width, int height, int pitch, int box) {
  TMap t{};
  u64 v[6] = {(u64)x.p, (u64)width, (u64)height, (u64)pitch * 2, 64, (u64)box};
  memcpy(t.v, v, sizeof v);
  return t;
}

static void products(int rows, int n, int k, bool with_bias) {
  std::vector<float> m((size_t)n * k);
  for (auto &v : m) v = value(rounded(frand()));
  Memory<u8> w(tile_size(n, k) * 2);
  Memory<u16> tiles16(tile_size(n, k));
  pack(tiles16, m, n, k);
  memcpy(w.p, tiles16.p, w.n);
  Memory<u16> x((size_t)(rows + 3) * ld(k)); // the buffer has more rows than the step
  fill(x, rows, k);
  for (size_t i = (size_t)rows * ld(k); i < x.n; i++) x[i] = 0x7fc0; // NaN there
  Memory<float> bias(n);
  for (int i = 0; i < n; i++) bias[i] = with_bias ? frand() : 0;
  w.keep(), x.keep(), bias.keep();
  std::vector<double> sums((size_t)rows * n);
  for (int r = 0; r < rows; r++)
    for (int i = 0; i < n; i++) {
      double s = bias[i];
      for (int c = 0; c < k; c++) s += (double)value(x[(size_t)r * ld(k) + c]) * m[(size_t)i * k + c];
      sums[(size_t)r * n + i] = s;
    }
  int kt = up(k, 64), want = std::min({8, up(264, up(n, 64)), std::max(1, kt / 4)}), tiles = up(kt, want), splits = up(kt, tiles), l = ld(n);
  std::vector<float> first;
  for (int t : {8, 16, 32, 64, 128, 256}) {
    if (t == 256 && splits > 1) continue;
    std::string name = "gemm_bf16_h" + std::to_string(t);
    test(name + " " + std::to_string(rows) + "x" + std::to_string(n) + "x" + std::to_string(k));
    bool wide = t > 64;
    Memory<float> work(!wide && splits > 1 ? (size_t)splits * up(rows, t) * t * up(n, 64) * 64 : 1), y((size_t)rows * l);
    Memory<u32> counters((size_t)up(n, 64) * up(rows, t));
    Memory<u16> h((size_t)rows * l);
    counters.zero();
    counters.keep();
    TMap map = map_of(x, k, rows + 3, ld(k), t);
    Dim grid = wide ? Dim{up(n, 128), up(rows, t)} : Dim{up(n, 64), splits, up(rows, t)};
    for (int mode : {STORE_F32, STORE_BF16}) {
      std::vector<Slot> slots = {nullptr, mode == STORE_F32 ? (u8 *)y.p : (u8 *)h.p, w, with_bias ? bias.p : (float *)nullptr, work, counters, rows, n, k, l, splits, tiles, mode};
      launch(name.c_str(), grid, slots, &map, 1);
    }
    Error e, eh;
    for (int r = 0; r < rows; r++)
      for (int c = 0; c < l; c++) {
        size_t at = (size_t)r * l + c;
        if (c < n) e.add(y[at], sums[(size_t)r * n + c]), eh.add(value(h[at]), sums[(size_t)r * n + c]);
        else if (y[at] != 0 || h[at] != 0) return wrong("no zero behind row %d", r);
      }
    e.judge(F32 * 3), eh.judge(BF16_LIMIT);
    std::vector<float> got(y.p, y.p + y.n);
    if (first.empty()) first = got;
    else if (memcmp(first.data(), got.data(), got.size() * 4)) wrong("other bits than gemm_bf16_h8");
  }
}

static void probes() {
  test("probes");
  int nk = 5, k = nk * 64;
  Memory<u16> a((size_t)128 * k), b((size_t)128 * k);
  fill(a, 128, k), fill(b, 128, k);
  a.keep(), b.keep();
  TMap maps[2] = {map_of(a, k, 128, k, 128), map_of(b, k, 128, k, 128)};
  auto product = [&](int r, int c, int lo, int hi) {
    double s = 0;
    for (int i = lo; i < hi; i++) s += (double)value(a[(size_t)r * k + i]) * value(b[(size_t)c * k + i]);
    return s;
  };
  Memory<float> d(64 * 128), out((size_t)2 * 128 * 128);
  launch("probe_wgmma", {1}, {nullptr, nullptr, d, 1, 1, 3}, maps, 2);
  Error e, er;
  for (int i = 0; i < 64 * 128; i++) e.add(d[i], product(64 + i / 128, i % 128, 16, 48));
  e.judge(F32);
  launch("probe_ring", {2}, {nullptr, nullptr, out, nk, 4, 3}, maps, 2);
  for (int i = 0; i < 2 * 128 * 128; i++) er.add(out[i], product(i / 128 % 128, i % 128, 0, k));
  er.judge(F32);
}

int main() {
  probes();
  products(1, 64, 64, false);
  products(9, 100, 264, true);
  products(70, 200, 328, true);
  products(140, 130, 720, false);
  products(300, 64, 136, false);
  products(257, 2200, 64, false); // more tiles of weights than one group of tile_of
  return finish("hopper");
}
