// rope_kv for what it does not have: heads of up to 576 dimensions, values of another size than keys, keys in another
// buffer than queries, layers that store nothing, and queries scaled by their position.
#include "elementwise.cu"
#include "log.h"

constexpr int WIDE_PAIRS = 9; // up to 576 dimensions

// model.Temper: 1 + beta*ln(1 + floor((pos+shift)/by)).
DEV float temper(int pos, float beta, float by, int shift) {
  float x = (float)(pos + shift) / by, steps = (float)(i32)x;
  if (steps > x) steps -= 1.0f;
  return 1.0f + beta * log32(1.0f + steps);
}

KERNEL(rope_kv_x, 128, 4)(u16 *q, const u16 *k, const u16 *v, u16 *kv, const float *rope, const i32 *pos, const i32 *slots, const float *qw, const float *kw, const float *vw,
                       int heads, int kvHeads, int keyDim, int valueDim, int half, int offset, int ldq, int ldk, int ldv, int blockTokens, i64 blockStride,
                       int how, float qeps, float keps, float veps, float beta, float by, int shift) {
  SMEM float buf[4][WIDE_PAIRS * 64];
  int warp = TIDX >> 5, lane = TIDX & 31, t = BIDX, slot = slots[t], krow = cdiv(keyDim, 8) * 8, vrow = cdiv(valueDim, 8) * 8;
  float *b = buf[warp], factor = beta == 0 ? 1.0f : temper(pos[t], beta, by, shift);
  const float *cs = rope + (u64)pos[t] * half * 2;
  u16 *block = kv + (i64)(slot / blockTokens) * blockStride;
  for (int h = BIDY * 4 + warp; h < heads + 2 * kvHeads; h += GDIMY * 4) {
    bool isq = h < heads, isv = h >= heads + kvHeads;
    int hk = isv ? h - heads - kvHeads : h - heads, dim = isv ? valueDim : keyDim, row = isv ? vrow : krow;
    if (!isq && slot < 0) break;
    const u16 *in = isq ? q + (u64)t * ldq + h * keyDim : isv ? v + (u64)t * ldv + hk * valueDim : k + (u64)t * ldk + hk * keyDim;
    u16 *out = isq ? q + (u64)t * ldq + h * keyDim : block + (isv ? (i64)kvHeads * blockTokens * krow : 0) + ((i64)hk * blockTokens + slot % blockTokens) * row;
    f32x2 p[WIDE_PAIRS];
    UNROLL for (int i = 0; i < WIDE_PAIRS; i++) {
      int c = (lane + 32 * i) * 2;
      p[i] = c < dim ? load_pair(in + c) : (f32x2){0, 0};
    }
    const float *w = isq ? qw : isv ? vw : kw;
    if (w && how & NORM_PER_HEAD) w += (isq ? h : hk) * dim;
    bool normed = how & (isq ? NORM_Q : isv ? NORM_V : NORM_K);
    float eps = isq ? qeps : isv ? veps : keps;
    if (normed && !(how & NORM_AFTER)) norm_head(p, lane, dim, w, eps, how & NORM_CENTERED);
    if (!isv && half > 0) {
      sync_warp(); // the head before was read by all
      UNROLL for (int i = 0; i < WIDE_PAIRS; i++) {
        int c = (lane + 32 * i) * 2;
        if (c < dim) *(f32x2 *)(b + c) = p[i];
      }
      sync_warp();
      UNROLL for (int i = 0; i < WIDE_PAIRS; i++) UNROLL for (int j = 0; j < 2; j++) {
        int d = (lane + 32 * i) * 2 + j, e = d - offset; // dimension e of those that turn
        if (e >= 0 && e < 2 * half) {
          bool pairs = how & ROPE_PAIRS, low = pairs ? !(e & 1) : e < half;
          int f = pairs ? e / 2 : low ? e : e - half, apart = pairs ? 1 : half;
          float cosine = cs[f * 2], sine = cs[f * 2 + 1];
          p[i][j] = low ? b[d] * cosine - b[d + apart] * sine : b[d] * cosine + b[d - apart] * sine;
        }
      }
    }
    if (normed && how & NORM_AFTER) norm_head(p, lane, dim, w, eps, how & NORM_CENTERED);
    UNROLL for (int i = 0; i < WIDE_PAIRS; i++) {
      int c = (lane + 32 * i) * 2;
      if (isq) p[i] = (f32x2){p[i][0] * factor, p[i][1] * factor};
      if (c < (isq ? dim : row)) *(u32 *)(out + c) = pack2(p[i][0], p[i][1]);
    }
  }
}
REGISTER(rope_kv_x)
