// Recurrences against double precision, and bit for bit the same however a sequence is cut into steps.
#include "check.h"
#include "../src/recurrent.cu"
using namespace check;

// Sequences of a step: rows, and slots. Slot 0 is the state of an empty sequence, and stays.
struct Step {
  std::vector<StateRun> runs;
  int rows = 0;
  void add(int n, int in, int out) {
    runs.push_back({rows, rows + n, in, out});
    rows += n;
  }
};

// Columns of rows of float32 or bf16, and the float32 numbers that they are.
struct Columns {
  int rows, ld;
  bool wide;
  Memory<float> full;
  Memory<u16> narrow;
  Columns(int rows, int width, bool wide) : rows(rows), ld(check::ld(width)), wide(wide), full((size_t)rows * ld), narrow((size_t)rows * ld) {
    for (size_t i = 0; i < full.n; i++) {
      narrow[i] = rounded(full[i] = frand());
      if (!wide) full[i] = value(narrow[i]);
    }
  }
  i64 at(int row, int col) { return wide ? (i64)(full.p + (size_t)row * ld + col) : (i64)(narrow.p + (size_t)row * ld + col); }
  double operator()(int row, int col) const { return full[(size_t)row * ld + col]; }
};
struct Result {
  int ld;
  bool wide;
  Memory<float> full;
  Memory<u16> narrow;
  Result(int rows, int width, bool wide) : ld(check::ld(width)), wide(wide), full((size_t)rows * ld), narrow((size_t)rows * ld) {}
  i64 at(int row = 0) { return wide ? (i64)(full.p + (size_t)row * ld) : (i64)(narrow.p + (size_t)row * ld); }
  float operator()(int row, int col) const { return wide ? full[(size_t)row * ld + col] : value(narrow[(size_t)row * ld + col]); }
  double limit() const { return wide ? 2e-5 : BF16_LIMIT; }
};

static const int SLOTS = 6;
// Slots of size numbers, between which others lie that must stay as they are.
struct States {
  int size, at = 5;
  i64 slot;
  Memory<float> p;
  std::vector<float> beside;
  States(int size) : size(size), slot(size + 11), p(SLOTS * slot) {
    for (size_t i = 0; i < p.n; i++) p[i] = i < (size_t)slot ? 0.0f : 7.5f; // what an older sequence left
  }
  float *of(int s) { return &p[s * slot + at]; }
  void intact() {
    for (i64 i = 0; i < (i64)p.n; i++) {
      i64 in = i % slot - at;
      if ((i < slot && p[i] != 0) || (i >= slot && (in < 0 || in >= size) && p[i] != 7.5f)) return wrong("number %lld of the states changed", (long long)i);
    }
  }
};

// Runs a sequence of total rows in one step, then in pieces beside another one; all bits must agree. launch(step, first row, states).
template <class RUN> static void cut(int total, int size, Result &whole, Result &pieces, RUN run) {
  States one(size), many(size);
  Step all;
  all.add(total, 0, 3);
  all.add(0, -1, -1); // fills up a bucket
  run(all, whole, one, 0);
  one.intact();
  int in = 0, first = 0;
  for (int n : {1, 9, 2, total}) {
    n = std::min(n, total - first);
    if (n < 1) break;
    int out = in == 2 ? 2 : in == 0 ? 1 : 2; // in place, and from slot to slot
    Step s;
    s.add(n, in, out);
    s.add(0, -1, -1);
    run(s, pieces, many, first);
    in = out, first += n;
  }
  many.intact();
  if (memcmp(one.of(3), many.of(in), size * sizeof(float))) wrong("cut into pieces, the state has other bits");
  for (int r = 0; r < total; r++)
    for (int c = 0; c < whole.ld; c++)
      if (memcmp(&whole.full.p[(size_t)r * whole.ld + c], &pieces.full.p[(size_t)r * whole.ld + c], 4) || whole.narrow[(size_t)r * whole.ld + c] != pieces.narrow[(size_t)r * whole.ld + c])
        return wrong("cut into pieces, row %d column %d has other bits", r, c);
}

static double silu_(double x) { return x / (1 + exp(-x)); }

static void convs(int total, int columns, int taps, bool with_bias, int types, bool in_place) {
  test("conv " + std::to_string(total) + "x" + std::to_string(columns) + "x" + std::to_string(taps));
  Columns x(total, columns, types & 2);
  Memory<float> w(columns * taps), b(columns);
  for (size_t i = 0; i < w.n; i++) w[i] = frand();
  for (int i = 0; i < columns; i++) b[i] = frand();
  w.keep(), b.keep();
  Result whole(total, columns, types & 1), pieces(total, columns, types & 1);
  cut(total, columns * (taps - 1), whole, pieces, [&](Step &s, Result &y, States &st, int first) {
    Memory<StateRun> runs(s.runs.size());
    for (size_t i = 0; i < runs.n; i++) runs[i] = s.runs[i];
    runs.keep();
    i64 from = x.at(first, 0);
    if (in_place) { // y starts as x
      size_t n = (size_t)s.rows * x.ld;
      if (types & 1) memcpy((void *)y.at(first), (void *)from, n * 4);
      else memcpy((void *)y.at(first), (void *)from, n * 2);
      from = y.at(first);
    }
    launch("conv", {up(columns, 128), (int)runs.n}, {y.at(first), from, w, with_bias ? b.p : (float *)nullptr, st.p, runs, st.slot, st.at, columns, taps, y.ld, x.ld, types, 1, 0.0f, 0.0f, 0.0f, 0.0f});
  });
  Error e;
  for (int r = 0; r < total; r++)
    for (int c = 0; c < columns; c++) {
      double s = with_bias ? b[c] : 0;
      for (int k = 0; k < taps; k++)
        if (int from = r - taps + 1 + k; from >= 0) s += w[c * taps + k] * x(from, c);
      e.add(whole(r, c), silu_(s));
    }
  e.judge(types & 1 ? F32 : BF16_LIMIT);
}

static double softplus_(double x) { return x > 30 ? x : log1p(exp(x)); }

static void deltas(int total, int key_heads, int each, int keys, int values, bool channels, int types, float beta) {
  test("delta " + std::to_string(keys) + "x" + std::to_string(values) + (channels ? " with a decay for each channel" : ""));
  int heads = key_heads * each, decays = channels ? heads * keys : heads, width = 2 * key_heads * keys + heads * values + decays + heads;
  int qa = 0, ka = key_heads * keys, va = 2 * ka, aa = va + heads * values, ba = aa + decays;
  Columns x(total, width, types & 2);
  Memory<float> A(heads), bias(decays);
  for (int i = 0; i < heads; i++) A[i] = -0.05f - fabsf(frand()) * 2;
  for (int i = 0; i < decays; i++) bias[i] = frand() * 4 - 2;
  A.keep(), bias.keep();
  Result whole(total, heads * values, types & 1), pieces(total, heads * values, types & 1);
  float scale = 1 / sqrtf(keys), eps = 1e-6f;
  cut(total, heads * keys * values, whole, pieces, [&](Step &s, Result &y, States &st, int first) {
    Memory<StateRun> runs(s.runs.size());
    for (size_t i = 0; i < runs.n; i++) runs[i] = s.runs[i];
    runs.keep();
    launch(keys <= 128 ? "delta_d128" : "delta_d256", {up(values, 32), heads, (int)runs.n}, {y.at(first), x.at(first, qa), x.at(first, ka), x.at(first, va), x.at(first, aa), x.at(first, ba), A, bias, st.p, runs, st.slot,
           st.at, keys, values, each, (int)channels, y.ld, x.ld, types, scale, eps, beta});
  });
  Error e;
  for (int h = 0; h < heads; h++) {
    std::vector<double> S(keys * values), q(keys), k(keys);
    for (int r = 0; r < total; r++) {
      double qq = eps, kk = eps;
      for (int i = 0; i < keys; i++) {
        q[i] = x(r, qa + h / each * keys + i), k[i] = x(r, ka + h / each * keys + i);
        qq += q[i] * q[i], kk += k[i] * k[i];
      }
      for (int i = 0; i < keys; i++) {
        q[i] *= scale / sqrt(qq), k[i] /= sqrt(kk);
        int d = channels ? h * keys + i : h;
        double decay = exp(A[h] * softplus_(x(r, aa + d) + bias[d]));
        for (int c = 0; c < values; c++) S[i * values + c] *= decay;
      }
      double strength = beta / (1 + exp(-x(r, ba + h)));
      for (int c = 0; c < values; c++) {
        double sum = 0, out = 0;
        for (int i = 0; i < keys; i++) sum += k[i] * S[i * values + c];
        for (int i = 0; i < keys; i++) {
          S[i * values + c] += k[i] * strength * (x(r, va + h * values + c) - sum);
          out += q[i] * S[i * values + c];
        }
        e.add(whole(r, h * values + c), out);
      }
    }
  }
  e.judge(whole.limit());
}

static void scans(int total, int groups, int each, int size, int state, int types, float least, float most) {
  test("scan " + std::to_string(size) + "x" + std::to_string(state));
  int heads = groups * each, width = heads * size + 2 * groups * state + heads, ba = heads * size, ca = ba + groups * state, da = ca + groups * state;
  Columns x(total, width, types & 2);
  Memory<float> A(heads), D(heads), bias(heads);
  for (int i = 0; i < heads; i++) A[i] = -0.1f - fabsf(frand()), D[i] = frand(), bias[i] = frand();
  A.keep(), D.keep(), bias.keep();
  Result whole(total, heads * size, types & 1), pieces(total, heads * size, types & 1);
  cut(total, heads * size * state, whole, pieces, [&](Step &s, Result &y, States &st, int first) {
    Memory<StateRun> runs(s.runs.size());
    for (size_t i = 0; i < runs.n; i++) runs[i] = s.runs[i];
    runs.keep();
    launch(state <= 128 ? "scan_d128" : "scan_d256", {up(size, 32), heads, (int)runs.n}, {y.at(first), x.at(first, 0), x.at(first, ba), x.at(first, ca), x.at(first, da), A, D, bias, st.p, runs, st.slot, st.at, size,
           state, each, y.ld, x.ld, types, least, most});
  });
  Error e;
  for (int h = 0; h < heads; h++)
    for (int p = 0; p < size; p++) {
      std::vector<double> S(state);
      for (int r = 0; r < total; r++) {
        double dt = std::min<double>(std::max<double>(softplus_(x(r, da + h) + bias[h]), least), most), in = x(r, h * size + p), out = D[h] * in;
        for (int i = 0; i < state; i++) {
          S[i] = S[i] * exp(dt * A[h]) + dt * in * x(r, ba + h / each * state + i);
          out += S[i] * x(r, ca + h / each * state + i);
        }
        e.add(whole(r, h * size + p), out);
      }
    }
  e.judge(whole.limit());
}

// Where e^x is small, the sum with 1 must not lose it. x itself is rounded on its way to a power of two.
static void logarithms() {
  test("softplus");
  for (float x = -60; x < 60; x += 0.37f) {
    double want = log1p(exp((double)x)), got = softplus(x);
    if (fabs(got - want) > (1e-6 + 1e-7 * fabs(x)) * want) wrong("%g at %g, not %g", got, x, want);
  }
}

int main() {
  logarithms();
  for (int types = 0; types < 4; types++) convs(21, 70, 4, types & 1, types, false);
  convs(19, 130, 3, true, 3, true), convs(5, 40, 2, false, 0, true), convs(30, 36, 7, true, 3, false), convs(21, 40, 5, false, 0, true), convs(3, 8, 16, true, 2, false);
  deltas(13, 2, 2, 16, 40, false, 3, 1), deltas(13, 1, 1, 36, 32, true, 1, 2), deltas(14, 1, 2, 130, 16, false, 2, 1), deltas(13, 2, 1, 64, 70, true, 0, 1);
  scans(13, 2, 2, 40, 24, 3, 0, INFINITY), scans(14, 1, 3, 16, 128, 1, 0.3f, 0.9f), scans(13, 1, 2, 64, 140, 2, 0, INFINITY);
  return finish("recurrent");
}
