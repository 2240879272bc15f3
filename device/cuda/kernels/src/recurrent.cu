// Recurrences over the tokens of a sequence. Its state lies in a slot, and goes from the slot where the last step left it to the
// one where this step shall. Everything is float32, token by token, so no bit depends on how a sequence was cut into steps.
// Slots are slot float32 numbers apart, and a state begins at number at.
#pragma once
#include "elements.cu"
#include "softplus.h"

// The rows [first, end) of a sequence, and the slots that it comes from and goes to. A run that fills up a graph's bucket is empty.
struct StateRun {
  int first, end, in, out;
};

constexpr int CONV_COLS = 128, CONV_MOST = 16, AHEAD = 8; // AHEAD rows are read before the first of them is written

// A column of a convolution of up to W taps; the last of W is the newest. The state is [taps-1][columns], oldest first.
template <int W> DEV void conv_column(u8 *y, const u8 *x, const float *w, float bias, const float *in, float *out, StateRun run, int c, int columns, int taps, int ldy, int ldx, int types, Act a) {
  float h[W], f[W]; // h[W-1] is the row's own number
  int skip = W - taps;
  UNROLL for (int j = 0; j < W; j++) {
    h[j] = j >= skip && j < W - 1 ? in[(j - skip) * columns + c] : 0.0f;
    f[j] = j >= skip ? w[c * taps + j - skip] : 0.0f;
  }
  for (int r = run.first; r < run.end; r += AHEAD) {
    float v[AHEAD];
    UNROLL for (int i = 0; i < AHEAD; i++) v[i] = r + i < run.end ? load(x, (i64)(r + i) * ldx + c, types & 2) : 0.0f;
    UNROLL for (int i = 0; i < AHEAD; i++) {
      if (r + i >= run.end) break;
      h[W - 1] = v[i];
      float s = bias;
      UNROLL for (int j = 0; j < W; j++) {
        if (j >= skip) s = fma(f[j], h[j], s);
      }
      store(y, (i64)(r + i) * ldy + c, types & 1, activate(a, s));
      UNROLL for (int j = 0; j < W - 1; j++) h[j] = h[j + 1];
    }
  }
  UNROLL for (int j = 0; j < W - 1; j++) {
    if (j >= skip) out[(j - skip) * columns + c] = h[j];
  }
}

// A causal convolution along each column. y may be x.
KERNEL(conv, CONV_COLS, 4)(u8 *y, const u8 *x, const float *w, const float *b, float *states, const StateRun *runs, i64 slot, int at, int columns, int taps, int ldy, int ldx, int types, int kind, float alpha,
                           float beta, float limit, float plus) {
  Act a = {kind, alpha, beta, limit, plus};
  StateRun run = runs[BIDY];
  int c = BIDX * CONV_COLS + TIDX;
  if (run.first >= run.end || c >= columns) return;
  const float *in = states + run.in * slot + at;
  float *out = states + run.out * slot + at, bias = b ? b[c] : 0.0f;
  if (taps <= 4) conv_column<4>(y, x, w, bias, in, out, run, c, columns, taps, ldy, ldx, types, a);
  else conv_column<CONV_MOST>(y, x, w, bias, in, out, run, c, columns, taps, ldy, ldx, types, a);
}
REGISTER(conv)

// A warp has 32 columns of the state of a head, [rows][columns], in shared memory.
DEV void take_state(float *s, const float *in, int rows, int columns, int col) {
  for (int i = 0; i < rows; i++) s[i * 32 + TIDX] = col < columns ? in[i * columns + col] : 0.0f;
}
DEV void leave_state(float *out, const float *s, int rows, int columns, int col) {
  if (col >= columns) return;
  for (int i = 0; i < rows; i++) out[i * columns + col] = s[i * 32 + TIDX];
}

// The gated delta rule. q, k, v, a and b are columns of rows of ld numbers; bits of types say which are float32: 1 y, 2 the others.
// A block has 32 columns of the state of a value head, [keys][32], and its sums run over the keys in ascending order.
template <int KEYS> DEV void delta_rule(u8 *y, const u8 *q, const u8 *k, const u8 *v, const u8 *a, const u8 *b, const float *decay, const float *bias, float *states, const StateRun *runs, i64 slot, int at,
                                        int keys, int values, int each, int channels, int ldy, int ld, int types, float scale, float eps, float beta, float *s) {
  StateRun run = runs[BIDZ];
  int lane = TIDX, col = BIDX * 32 + lane, h = BIDY, wide = types & 2;
  if (run.first >= run.end) return;
  float *qs = s + KEYS * 32, *ks = qs + KEYS, *ds = ks + KEYS, A = decay[h];
  i64 state = at + (i64)h * keys * values;
  take_state(s, states + run.in * slot + state, keys, values, col);
  for (int r = run.first; r < run.end; r++) {
    i64 row = (i64)r * ld, head = row + (i64)(h / each) * keys;
    float qq = 0, kk = 0, d = 0;
    for (int i = lane; i < keys; i += 32) {
      float x = load(q, head + i, wide), z = load(k, head + i, wide);
      qs[i] = x, ks[i] = z;
      qq = fma(x, x, qq), kk = fma(z, z, kk);
    }
    qq = rsqrt_(warp_sum(qq) + eps) * scale;
    kk = rsqrt_(warp_sum(kk) + eps);
    if (!channels) d = ex2(A * softplus(load(a, row + h, wide) + bias[h]) * LOG2E);
    for (int i = lane; i < keys; i += 32) {
      qs[i] *= qq, ks[i] *= kk;
      ds[i] = channels ? ex2(A * softplus(load(a, row + h * keys + i, wide) + bias[h * keys + i]) * LOG2E) : d;
    }
    float strength = beta * sigmoid(load(b, row + h, wide)), sum = 0, out = 0;
    sync_warp();
    for (int i = 0; i < keys; i++) {
      float x = s[i * 32 + lane] * ds[i];
      s[i * 32 + lane] = x;
      sum = fma(ks[i], x, sum);
    }
    sum = ((col < values ? load(v, row + h * values + col, wide) : 0.0f) - sum) * strength;
    for (int i = 0; i < keys; i++) {
      float x = fma(ks[i], sum, s[i * 32 + lane]);
      s[i * 32 + lane] = x;
      out = fma(qs[i], x, out);
    }
    if (col < values) store(y, (i64)r * ldy + h * values + col, types & 1, out);
    sync_warp(); // qs, ks and ds are for the next token
  }
  leave_state(states + run.out * slot + state, s, keys, values, col);
}

// The recurrence of Mamba 2, with the state of a head as [state][32]. x, b, c and dt are columns of rows of ld numbers.
template <int STATE> DEV void scan_head(u8 *y, const u8 *x, const u8 *b, const u8 *c, const u8 *dt, const float *decay, const float *skip, const float *bias, float *states, const StateRun *runs, i64 slot, int at,
                                        int size, int state, int each, int ldy, int ld, int types, float least, float most, float *s) {
  StateRun run = runs[BIDZ];
  int lane = TIDX, col = BIDX * 32 + lane, h = BIDY, wide = types & 2;
  if (run.first >= run.end) return;
  float *bs = s + STATE * 32, *cs = bs + STATE;
  i64 from = at + (i64)h * state * size;
  take_state(s, states + run.in * slot + from, state, size, col);
  for (int r = run.first; r < run.end; r++) {
    i64 row = (i64)r * ld, group = row + (i64)(h / each) * state;
    float step = min_(max_(softplus(load(dt, row + h, wide) + bias[h]), least), most), d = ex2(step * decay[h] * LOG2E);
    for (int i = lane; i < state; i += 32) {
      bs[i] = load(b, group + i, wide) * step;
      cs[i] = load(c, group + i, wide);
    }
    float in = col < size ? load(x, row + h * size + col, wide) : 0.0f, out = in * skip[h];
    sync_warp();
    for (int i = 0; i < state; i++) {
      float v = fma(bs[i], in, s[i * 32 + lane] * d);
      s[i * 32 + lane] = v;
      out = fma(cs[i], v, out);
    }
    if (col < size) store(y, (i64)r * ldy + h * size + col, types & 1, out);
    sync_warp(); // bs and cs are for the next token
  }
  leave_state(states + run.out * slot + from, s, state, size, col);
}

#define DELTA(name, most, blocks) \
  KERNEL(name, 32, blocks)(u8 *y, const u8 *q, const u8 *k, const u8 *v, const u8 *a, const u8 *b, const float *decay, const float *bias, float *states, const StateRun *runs, i64 slot, int at, int keys, \
                           int values, int each, int channels, int ldy, int ld, int types, float scale, float eps, float beta) { \
    DYN_SMEM(sm); \
    delta_rule<most>(y, q, k, v, a, b, decay, bias, states, runs, slot, at, keys, values, each, channels, ldy, ld, types, scale, eps, beta, (float *)sm); \
  } \
  REGISTER(name)
#define SCAN(name, most, blocks) \
  KERNEL(name, 32, blocks)(u8 *y, const u8 *x, const u8 *b, const u8 *c, const u8 *dt, const float *decay, const float *skip, const float *bias, float *states, const StateRun *runs, i64 slot, int at, int size, \
                           int state, int each, int ldy, int ld, int types, float least, float most_) { \
    DYN_SMEM(sm); \
    scan_head<most>(y, x, b, c, dt, decay, skip, bias, states, runs, slot, at, size, state, each, ldy, ld, types, least, most_, (float *)sm); \
  } \
  REGISTER(name)
DELTA(delta_d128, 128, 8)
DELTA(delta_d256, 256, 4)
SCAN(scan_d128, 128, 8)
SCAN(scan_d256, 256, 4)
