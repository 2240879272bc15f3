// Norms of every kind and functions of single numbers, against double precision.
#include "check.h"
#include "../src/elements.cu"
using namespace check;

// Rows of bf16 or float32, with a view in them.
struct Rows {
  int T, ld, off, width;
  bool wide;
  Memory<u16> narrow;
  Memory<float> full;
  std::vector<double> before;
  Rows(int T, int width, bool wide, double scale = 1) : T(T), ld(check::ld(width + 6)), off(6), width(width), wide(wide), narrow((size_t)T * ld), full((size_t)T * ld) {
    for (size_t i = 0; i < full.n; i++) {
      narrow[i] = rounded(full[i] = frand() * scale);
      before.push_back(wide ? full[i] : value(narrow[i]));
    }
  }
  i64 at() { return wide ? (i64)(full.p + off) : (i64)(narrow.p + off); }
  double was(int t, int c) const { return before[(size_t)t * ld + off + c]; }
  double now(int t, int c) const {
    size_t i = (size_t)t * ld + off + c;
    return wide ? full[i] : value(narrow[i]);
  }
  void beside() { // nothing but the view changed
    for (int t = 0; t < T; t++)
      for (int c = -off; c < ld - off; c++)
        if ((c < 0 || c >= width) && was(t, c) != now(t, c)) return wrong("row %d column %d beside the view changed", t, c);
  }
};

struct Function {
  int kind;
  float alpha, beta, limit, plus;
  double operator()(double x) const {
    switch (kind) {
    case 1: return x / (1 + exp(-(alpha ? alpha : 1) * x));
    case 2: return x * erfc(-x / sqrt(2)) / 2;
    case 3: return x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))) / 2;
    case 4: return std::max(x, 0.0);
    case 5: return std::max(x, 0.0) * std::max(x, 0.0);
    case 6: return 1 / (1 + exp(-x));
    case 7: return tanh(x);
    case 8: return x > 0 ? alpha * x * x + limit * x : (expm1(std::min<double>(x, plus)) - x) * beta + limit * x;
    }
    return x;
  }
};
static const Function functions[] = {{0, 0, 0, 0, 0}, {1, 0, 0, 0, 0}, {1, 1.702f, 0, 7, 1}, {2, 0, 0, 0, 0}, {3, 0, 0, 0, 0}, {4, 0, 0, 0, 0}, {5, 0, 0, 0, 0}, {6, 0, 0, 0, 0}, {7, 0, 0, 0, 0}, {8, 0.8f, 0.7f, 0.5f, -1e-6f}};

static void elements_(int op, Function f, int T, int width, int per, int types, float scale, bool same) {
  test("elements op " + std::to_string(op) + " kind " + std::to_string(f.kind) + " width " + std::to_string(width) + " types " + std::to_string(types));
  Rows y(T, width, types & 1, 3), x(T, width, types & 2, op == 4 ? 40 : 3), g(T, width / per, types & 4, 3);
  Rows &from = same ? y : x;
  launch("elements", {T, up(width, 1024)}, {y.at(), from.at(), g.at(), op, width, per, y.ld, from.ld, g.ld, types, scale, f.kind, f.alpha, f.beta, f.limit, f.plus});
  Error e;
  for (int t = 0; t < T; t++)
    for (int c = 0; c < width; c++) {
      double v = from.was(t, c), want = 0;
      switch (op) {
      case 0: want = f(v); break;
      case 1: want = v * f(g.was(t, c / per)); break;
      case 2: want = y.was(t, c) + scale * v; break;
      case 3: want = scale * v; break;
      case 4: want = f.limit * tanh(scale * v / f.limit); break;
      }
      e.add(y.now(t, c), want);
    }
  e.judge(types & 1 ? F32 : BF16_LIMIT);
  y.beside();
}

static void gates(Function f, int T, int width, bool apart) {
  test("act_gate kind " + std::to_string(f.kind) + " width " + std::to_string(width));
  int half = apart ? width : up(width, 32) * 32, ldg = ld(2 * half), ldy = ld(width);
  Memory<u16> gu((size_t)T * ldg), y((size_t)T * ldy);
  for (size_t i = 0; i < gu.n; i++) gu[i] = rounded(frand() * 5);
  gu.keep(), y.zero();
  launch("act_gate", {T, up(width, 1024)}, {y, gu, width, ldg, ldy, apart ? width : 0, f.kind, f.alpha, f.beta, f.limit, f.plus});
  Error e;
  for (int t = 0; t < T; t++)
    for (int c = 0; c < ldy; c++) {
      if (c >= width) {
        if (y[(size_t)t * ldy + c]) wrong("behind the row");
        continue;
      }
      const u16 *row = &gu[(size_t)t * ldg];
      double gate = value(apart ? row[c] : row[c / 32 * 64 + c % 32]), upper = value(apart ? row[width + c] : row[c / 32 * 64 + 32 + c % 32]);
      if (f.kind != 8 && f.limit > 0) gate = std::min<double>(gate, f.limit), upper = std::min<double>(std::max<double>(upper, -f.limit), f.limit);
      if (f.kind != 8) upper += f.plus;
      e.add(value(y[(size_t)t * ldy + c]), f(gate) * upper);
    }
  e.judge(BF16_LIMIT);
}

static void norms(int T, int groups, int size, bool weights, bool bias, bool each, bool center, int gated, int types, bool same) { // gated: 1 after, 2 before the norm
  test("norm_rows " + std::to_string(groups) + "x" + std::to_string(size) + " types " + std::to_string(types) + (gated ? " gated" : ""));
  int width = groups * size;
  Function f = functions[gated == 2 ? 1 : 7];
  Rows y(T, width, types & 1), x(T, width, types & 2), g(T, width, types & 4);
  Rows &from = same ? y : x;
  Memory<float> w(each ? width : size), b(w.n);
  for (size_t i = 0; i < w.n; i++) w[i] = frand(), b[i] = frand();
  w.keep(), b.keep();
  launch("norm_rows", {T, groups}, {y.at(), from.at(), gated ? g.at() : (i64)0, weights ? w.p : (float *)nullptr, bias ? b.p : (float *)nullptr, size, (int)each, y.ld, from.ld, g.ld, types, (int)center, (int)(gated == 2), 1e-5f,
                                    f.kind, f.alpha, f.beta, f.limit, f.plus});
  Error e;
  for (int t = 0; t < T; t++)
    for (int at = 0; at < width; at += size) {
      std::vector<double> v(size);
      double mean = 0, s = 0;
      for (int c = 0; c < size; c++) mean += (v[c] = from.was(t, at + c) * (gated == 2 ? f(g.was(t, at + c)) : 1)) / size;
      for (double &d : v) d -= center ? mean : 0, s += d * d;
      for (int c = 0; c < size; c++) {
        double want = v[c] / sqrt(s / size + 1e-5);
        int i = each ? at + c : c;
        if (weights) want *= w[i];
        if (bias) want += b[i];
        e.add(y.now(t, at + c), want * (gated == 1 ? f(g.was(t, at + c)) : 1));
      }
    }
  e.judge(types & 1 ? F32 : BF16_LIMIT);
  y.beside();
}

int main() {
  for (Function f : functions) {
    elements_(0, f, 2, 44, 1, 3, 1, false), elements_(0, f, 2, 1030, 1, 0, 1, true);
    elements_(1, f, 3, 96, 8, 7, 1, false), elements_(1, f, 2, 96, 96, 0, 1, true);
    gates(f, 2, 44, true), gates(f, 2, 64, false), gates(f, 1, 1100, false);
  }
  for (int types = 0; types < 4; types++) elements_(2, {}, 3, 70, 1, types, 0.37f, false), elements_(3, {}, 2, 2050, 1, types, 1.7f, false);
  elements_(3, {}, 2, 40, 1, 3, 45.25f, true), elements_(4, {0, 0, 0, 30, 0}, 2, 1500, 1, 3, 0.5f, true);
  elements_(4, {0, 0, 0, 30, 0}, 2, 1500, 1, 3, 0.12f, true); // where the series is taken
  for (int types : {1, 2, 4}) elements_(1, functions[7], 2, 96, 4, types, 1, false);
  for (int size : {2, 36, 256, 1030}) {
    norms(2, 1, size, true, false, false, false, 0, 0, false), norms(2, 1, size, true, true, false, true, 0, 2, false);
    norms(2, 3, size, true, false, true, false, 1, 7, false), norms(2, 3, size, true, true, true, true, 2, 0, true);
    norms(2, 2, size, false, false, false, false, 0, 3, true), norms(1, 4, size, true, false, false, false, 1, 2, false);
  }
  return finish("elements");
}
