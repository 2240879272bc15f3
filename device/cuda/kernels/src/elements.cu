// Norms of every kind and functions of single numbers, for rows that are bfloat16 or float32.
// Bits of types say which rows are float32: 1 those of y, 2 those of x, 4 those of g.
#pragma once
#include "device.h"

DEV float load(const u8 *p, i64 i, bool wide) { return wide ? ((const float *)p)[i] : bf(((const u16 *)p)[i]); }
DEV void store(u8 *p, i64 i, bool wide, float v) {
  if (wide) ((float *)p)[i] = v;
  else ((u16 *)p)[i] = to_bf(v);
}

// Activations are numbered as model.ActivationKind.
struct Act {
  int kind;
  float alpha, beta, limit, plus;
};
DEV float sigmoid(float x) { return rcp(1.0f + ex2(-x * LOG2E)); }
// Near 0 the series, because there the difference from 1 would lose the last bits.
DEV float tanh_(float x) {
  float s = x * x;
  if (s < 0.0625f) return x * (1.0f + s * (-1.0f / 3 + s * (2.0f / 15 + s * (-17.0f / 315 + s * (62.0f / 2835)))));
  return 1.0f - 2.0f * rcp(1.0f + ex2(x * (2 * LOG2E)));
}
// The integral of the normal distribution, by Abramowitz and Stegun 7.1.26 (error 1e-7).
DEV float phi(float x) {
  float a = (x < 0 ? -x : x) * 0.70710678f, t = rcp(1.0f + 0.3275911f * a);
  float p = t * (0.254829592f + t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
  p = 0.5f * p * ex2(-a * a * LOG2E);
  return x < 0 ? p : 1.0f - p;
}
DEV float activate(Act a, float x) {
  switch (a.kind) {
  case 1: return x * sigmoid(a.alpha == 0 ? x : a.alpha * x);
  case 2: return x * phi(x);
  case 3: return x * sigmoid(1.5957691f * (x + 0.044715f * x * x * x)); // (1 + tanh(u)) / 2 is sigmoid(2u)
  case 4: return max_(x, 0.0f);
  case 5: return max_(x, 0.0f) * max_(x, 0.0f);
  case 6: return sigmoid(x);
  case 7: return tanh_(x);
  case 8: return x > 0 ? a.alpha * x * x + a.limit * x : (ex2(min_(x, a.plus) * LOG2E) - 1.0f - x) * a.beta + a.limit * x;
  }
  return x;
}

constexpr int ELEMENT_COLS = 1024; // of a block
// y of a number x, of a number g that stands for per columns, and of what y was.
KERNEL(elements, 256, 4)(u8 *y, const u8 *x, const u8 *g, int op, int width, int per, int ldy, int ldx, int ldg, int types, float scale, int kind, float alpha, float beta, float limit, float plus) {
  Act a = {kind, alpha, beta, limit, plus};
  i64 row = BIDX;
  UNROLL for (int i = 0; i < ELEMENT_COLS / 256; i++) {
    int c = BIDY * ELEMENT_COLS + i * 256 + TIDX;
    if (c >= width) continue;
    float v = load(x, row * ldx + c, types & 2);
    switch (op) {
    case 0: v = activate(a, v); break;
    case 1: v *= activate(a, load(g, row * ldg + c / per, types & 4)); break;
    case 2: v = load(y, row * ldy + c, types & 1) + scale * v; break;
    case 3: v *= scale; break;
    case 4: v = limit * tanh_(v * scale / limit); break;
    }
    store(y, row * ldy + c, types & 1, v);
  }
}
REGISTER(elements)

// act_gate is silu_gate for every activation. With apart 0, 32 columns of gate and 32 of up take turns.
KERNEL(act_gate, 256, 4)(u16 *y, const u16 *gu, int width, int ldg, int ldy, int apart, int kind, float alpha, float beta, float limit, float plus) {
  Act a = {kind, alpha, beta, limit, plus};
  i64 row = BIDX;
  UNROLL for (int i = 0; i < ELEMENT_COLS / 256; i++) {
    int c = BIDY * ELEMENT_COLS + i * 256 + TIDX;
    if (c >= width) continue;
    i64 at = row * ldg + (apart ? c : c / 32 * 64 + c % 32);
    float gate = bf(gu[at]), up = bf(gu[at + (apart ? apart : 32)]);
    if (kind != 8) {
      if (limit > 0) gate = min_(gate, limit), up = min_(max_(up, -limit), limit);
      up += plus;
    }
    y[row * ldy + c] = to_bf(activate(a, gate) * up);
  }
}
REGISTER(act_gate)

constexpr int GROUP_THREADS = 256;
// A block norms a group of a row. y may be x or g.
KERNEL(norm_rows, GROUP_THREADS, 4)(u8 *y, const u8 *x, const u8 *g, const float *w, const float *b, int size, int each, int ldy, int ldx, int ldg, int types, int center, int first, float eps, int kind, float alpha, float beta, float limit, float plus) {
  SMEM float red[2][GROUP_THREADS / 32];
  Act a = {kind, alpha, beta, limit, plus};
  int c0 = BIDY * size;
  i64 atx = (i64)BIDX * ldx + c0, atg = (i64)BIDX * ldg + c0, aty = (i64)BIDX * ldy + c0;
  float mean = 0, s = 0;
  if (center) {
    for (int c = TIDX; c < size; c += GROUP_THREADS) {
      float v = load(x, atx + c, types & 2);
      if (g && first) v *= activate(a, load(g, atg + c, types & 4));
      mean += v;
    }
    mean = block_sum<GROUP_THREADS>(mean, red[0]) / (float)size;
  }
  for (int c = TIDX; c < size; c += GROUP_THREADS) {
    float v = load(x, atx + c, types & 2);
    if (g && first) v *= activate(a, load(g, atg + c, types & 4));
    v -= mean;
    s = fma(v, v, s);
  }
  float r = rsqrt_(block_sum<GROUP_THREADS>(s, red[1]) / (float)size + eps);
  int cw = each ? c0 : 0; // weights of each column, or the same for every group
  for (int c = TIDX; c < size; c += GROUP_THREADS) {
    float v = load(x, atx + c, types & 2), gate = g ? activate(a, load(g, atg + c, types & 4)) : 1.0f;
    if (first) v *= gate;
    v = (v - mean) * r;
    if (w) v *= w[cw + c];
    if (b) v += b[cw + c];
    if (!first) v *= gate;
    store(y, aty + c, types & 1, v);
  }
}
REGISTER(norm_rows)
