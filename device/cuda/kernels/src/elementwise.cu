// Everything that goes row by row: embedding, norms, rotary embedding, gate, copies.
#pragma once
#include "device.h"
#include "quant.h"

constexpr int TILE = 64; // rows and columns of a weight tile
// Where element (r, c) of a matrix in tiles lies; kt tiles to a row of tiles.
DEV u64 tile_at(int r, int c, int kt) {
  return ((u64)(r / TILE) * kt + c / TILE) * (TILE * TILE) + (r % TILE) * TILE + ((((c % TILE) >> 3) ^ (r & 7)) << 3) + (c & 7);
}

KERNEL(embed, 128, 4)(float *x, const u16 *w, const i32 *tokens, const i32 *drawn, int dim, int ldx, int vocab) {
  int t = tokens[BIDX], kt = cdiv(dim, TILE);
  if (t < 0) t = drawn[~t];
  if ((u32)t >= (u32)vocab) t = 0;
  for (int c = TIDX * 8; c < dim; c += 128 * 8) { // behind dim a tile holds zeros, as x must
    u32x4 v = *(const u32x4 *)(w + tile_at(t, c, kt));
    f32x4 *o = (f32x4 *)(x + (u64)BIDX * ldx + c);
    o[0] = (f32x4){lo_bf(v[0]), hi_bf(v[0]), lo_bf(v[1]), hi_bf(v[1])};
    o[1] = (f32x4){lo_bf(v[2]), hi_bf(v[2]), lo_bf(v[3]), hi_bf(v[3])};
  }
}
REGISTER(embed)

// The same from tiles of blocks: scale times whole number, rounded once to float32.
template <int F> DEV void embed_blocks(float *x, const u8 *w, const i32 *tokens, const i32 *drawn, int dim, int ldx, int vocab) {
  constexpr int BYTES = F == Q8 ? Q8_TILE : Q4_TILE;
  int t = tokens[BIDX], kt = cdiv(dim, TILE);
  if (t < 0) t = drawn[~t];
  if ((u32)t >= (u32)vocab) t = 0;
  int in = t % TILE, mi = in / 16, h = in % 16 / 8;
  for (int c = TIDX; c < dim; c += 128) {
    const u8 *tile = w + ((u64)(t / TILE) * kt + c / TILE) * BYTES;
    int kb = c % TILE / 32, lane = c % 32, reader = in % 8 * 4 + lane % 8 / 2, step = lane / 16, upper = lane % 16 / 8; // as pack_quantized has them
    int q;
    if (F == Q8) {
      q = tile[q8_at(mi, kb, reader) + step * 8 + (h + 2 * upper) * 2 + (lane & 1)] - 128;
    } else {
      q = (tile[q4_at(mi, kb, reader) + step * 4 + upper + 2 * (lane & 1)] >> 4 * h & 15) - 8;
    }
    x[(u64)BIDX * ldx + c] = half_to_float(((const u16 *)(tile + BYTES - 256))[kb * 64 + in]) * (float)q;
  }
}
KERNEL(embed_q8, 128, 4)(float *x, const u8 *w, const i32 *tokens, const i32 *drawn, int dim, int ldx, int vocab) {
  embed_blocks<Q8>(x, w, tokens, drawn, dim, ldx, vocab);
}
REGISTER(embed_q8)
KERNEL(embed_q4, 128, 4)(float *x, const u8 *w, const i32 *tokens, const i32 *drawn, int dim, int ldx, int vocab) {
  embed_blocks<Q4>(x, w, tokens, drawn, dim, ldx, vocab);
}
REGISTER(embed_q4)

constexpr int NORM_THREADS = 512;
// Rows come in steps of 4 columns; what lies behind dim is zero and stays so.
KERNEL(rmsnorm, NORM_THREADS, 2)(u16 *y, const float *x, const float *w, int dim, int ldx, int ldy, float eps) {
  SMEM float red[NORM_THREADS / 32];
  x += (u64)BIDX * ldx;
  y += (u64)BIDX * ldy;
  float s = 0;
  for (int c = TIDX * 4; c < dim; c += NORM_THREADS * 4) {
    f32x4 v = *(const f32x4 *)(x + c);
    UNROLL for (int i = 0; i < 4; i++) s = fma(v[i], v[i], s);
  }
  s = block_sum<NORM_THREADS>(s, red);
  float r = rsqrt_(s / (float)dim + eps);
  for (int c = TIDX * 4; c < dim; c += NORM_THREADS * 4) {
    f32x4 v = *(const f32x4 *)(x + c);
    float g[4];
    UNROLL for (int i = 0; i < 4; i++) g[i] = c + i < dim ? w[c + i] : 0.0f;
    *(u32x2 *)(y + c) = (u32x2){pack2(v[0] * r * g[0], v[1] * r * g[1]), pack2(v[2] * r * g[2], v[3] * r * g[3])};
  }
}
REGISTER(rmsnorm)

KERNEL(add, 256, 4)(float *x, const u16 *h, int dim, int ldx, int ldh) {
  for (int c = TIDX * 4; c < dim; c += 256 * 4) {
    f32x4 *p = (f32x4 *)(x + (u64)BIDX * ldx + c);
    u32x2 a = *(const u32x2 *)(h + (u64)BIDX * ldh + c);
    *p += (f32x4){lo_bf(a[0]), hi_bf(a[0]), lo_bf(a[1]), hi_bf(a[1])};
  }
}
REGISTER(add)

constexpr int HEAD_PAIRS = 4; // a lane holds the pairs lane + 32i of a head: up to 256 dimensions
// 1/rms of a head of n pairs, for its warp.
template <int N> DEV float head_scale(const f32x2 (&v)[N], int dim, float eps) {
  float s = 0;
  UNROLL for (int i = 0; i < N; i++) s = fma(v[i][0], v[i][0], fma(v[i][1], v[i][1], s));
  return rsqrt_(warp_sum(s) / (float)dim + eps);
}
// What is done to the heads of rope_kv: bits of how.
constexpr int NORM_Q = 1, NORM_K = 2, NORM_V = 4, NORM_CENTERED = 8, NORM_AFTER = 16, NORM_PER_HEAD = 32, ROPE_PAIRS = 64;
// A head of n dimensions without its mean, if it is centered, divided by its root mean square and times w, if there are weights.
template <int N> DEV void norm_head(f32x2 (&v)[N], int lane, int dim, const float *w, float eps, bool centered) {
  if (centered) {
    float s = 0;
    UNROLL for (int i = 0; i < N; i++) s += v[i][0] + v[i][1];
    s = warp_sum(s) / (float)dim;
    UNROLL for (int i = 0; i < N; i++)
      if ((lane + 32 * i) * 2 < dim) v[i] = (f32x2){v[i][0] - s, v[i][1] - s};
  }
  float r = head_scale(v, dim, eps);
  UNROLL for (int i = 0; i < N; i++) {
    int c = (lane + 32 * i) * 2;
    if (c < dim) v[i] = w ? (f32x2){v[i][0] * r * w[c], v[i][1] * r * w[c + 1]} : (f32x2){v[i][0] * r, v[i][1] * r};
  }
}
DEV f32x2 load_pair(const u16 *p) {
  u32 v = *(const u32 *)p;
  return (f32x2){lo_bf(v), hi_bf(v)};
}

KERNEL(norm_heads, 128, 4)(u16 *y, const u16 *x, const float *w, int heads, int headDim, int ldx, int ldy, float eps) {
  int h = BIDY * 4 + (TIDX >> 5), lane = TIDX & 31;
  if (h >= heads) return;
  const u16 *in = x + (u64)BIDX * ldx + h * headDim;
  u16 *out = y + (u64)BIDX * ldy + h * headDim;
  f32x2 v[HEAD_PAIRS];
  UNROLL for (int i = 0; i < HEAD_PAIRS; i++) {
    int c = (lane + 32 * i) * 2;
    v[i] = c < headDim ? load_pair(in + c) : (f32x2){0, 0};
  }
  float r = head_scale(v, headDim, eps);
  UNROLL for (int i = 0; i < HEAD_PAIRS; i++) {
    int c = (lane + 32 * i) * 2;
    if (c < headDim) *(u32 *)(out + c) = pack2(v[i][0] * r * w[c], v[i][1] * r * w[c + 1]);
  }
}
REGISTER(norm_heads)

// A warp takes a head (more where the grid is smaller): q heads in place, then k and v heads into the cache. A
// head goes through shared memory in float32, because a dimension turns with one
// that another lane holds.
KERNEL(rope_kv, 128, 4)(u16 *q, const u16 *k, const u16 *v, u16 *kv, const float *rope, const i32 *pos, const i32 *slots, const float *qw, const float *kw, const float *vw,
                     int heads, int kvHeads, int headDim, int half, int offset, int ld, int blockTokens, i64 blockStride, int how, float qeps, float keps, float veps) {
  SMEM float buf[4][256];
  int warp = TIDX >> 5, lane = TIDX & 31, t = BIDX, slot = slots[t], row = cdiv(headDim, 8) * 8;
  float *b = buf[warp];
  const float *cs = rope + (u64)pos[t] * half * 2;
  u16 *block = kv + (i64)(slot / blockTokens) * blockStride;
  for (int h = BIDY * 4 + warp; h < heads + 2 * kvHeads; h += GDIMY * 4) {
    bool isq = h < heads, isv = h >= heads + kvHeads;
    int hk = isv ? h - heads - kvHeads : h - heads; // of the cache
    if (!isq && slot < 0) break;
    const u16 *in = isq ? q + h * headDim : isv ? v + hk * headDim : k + hk * headDim;
    in += (u64)t * ld;
    u16 *out = isq ? q + (u64)t * ld + h * headDim : block + ((u64)(isv ? kvHeads + hk : hk) * blockTokens + slot % blockTokens) * row;
    f32x2 p[HEAD_PAIRS];
    UNROLL for (int i = 0; i < HEAD_PAIRS; i++) {
      int c = (lane + 32 * i) * 2;
      p[i] = c < headDim ? load_pair(in + c) : (f32x2){0, 0};
    }
    const float *w = isq ? qw : isv ? vw : kw;
    if (w && how & NORM_PER_HEAD) w += (isq ? h : hk) * headDim;
    bool normed = how & (isq ? NORM_Q : isv ? NORM_V : NORM_K);
    float eps = isq ? qeps : isv ? veps : keps;
    if (normed && !(how & NORM_AFTER)) norm_head(p, lane, headDim, w, eps, how & NORM_CENTERED);
    sync_warp(); // the head before was read by all
    UNROLL for (int i = 0; i < HEAD_PAIRS; i++) {
      int c = (lane + 32 * i) * 2;
      if (c < headDim) *(f32x2 *)(b + c) = p[i];
    }
    sync_warp();
    UNROLL for (int i = 0; i < HEAD_PAIRS; i++) {
      int c = (lane + 32 * i) * 2;
      UNROLL for (int j = 0; j < 2; j++) {
        int d = c + j, e = d - offset; // dimension e of those that turn
        float o = d < headDim ? b[d] : 0.0f;
        if (!isv && e >= 0 && e < 2 * half) {
          bool pairs = how & ROPE_PAIRS, low = pairs ? !(e & 1) : e < half;
          int f = pairs ? e / 2 : low ? e : e - half, apart = pairs ? 1 : half;
          float cosine = cs[f * 2], sine = cs[f * 2 + 1];
          o = low ? b[d] * cosine - b[d + apart] * sine : b[d] * cosine + b[d - apart] * sine;
        }
        p[i][j] = o;
      }
    }
    if (normed && how & NORM_AFTER) norm_head(p, lane, headDim, w, eps, how & NORM_CENTERED);
    UNROLL for (int i = 0; i < HEAD_PAIRS; i++) {
      int c = (lane + 32 * i) * 2;
      if (c < (isq ? headDim : row)) *(u32 *)(out + c) = pack2(p[i][0], p[i][1]);
    }
  }
}
REGISTER(rope_kv)

KERNEL(silu_gate, 256, 4)(u16 *y, const u16 *gu, int width, int ldg, int ldy) {
  const u16 *g = gu + (u64)BIDX * ldg, *u = g + width;
  u16 *o = y + (u64)BIDX * ldy;
  UNROLL for (int i = 0; i < 4; i++) {
    int c = BIDY * 2048 + (i * 256 + TIDX) * 2;
    if (c < width) {
      f32x2 a = load_pair(g + c), b = load_pair(u + c);
      *(u32 *)(o + c) = pack2(silu(a[0]) * b[0], silu(a[1]) * b[1]);
    }
  }
}
REGISTER(silu_gate)

KERNEL(gather, 128, 4)(u8 *dst, const u8 *src, const i32 *at, int bytes, i64 dstStride, i64 srcStride) {
  const u32x4 *in = (const u32x4 *)(src + at[BIDX] * srcStride);
  u32x4 *out = (u32x4 *)(dst + BIDX * dstStride);
  for (int i = TIDX; i < bytes / 16; i += 128) out[i] = in[i];
}
REGISTER(gather)

KERNEL(tick, 32, 1)(u32 *p) {
  if (TIDX == 0) p[0] += 1;
}
REGISTER(tick)
KERNEL(set_flag, 32, 1)(u32 *flag, u32 value) {
  if (TIDX == 0) st_sys(flag, value);
}
REGISTER(set_flag)
