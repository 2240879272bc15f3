// What products do with their sums.
#pragma once
#include "device.h"
enum { STORE_BF16, STORE_F32, ADD_F32, SWIGLU };

// Which tile of a wide product a block takes: 16 tiles of weights go through all
// tokens before the next 16, so that the blocks at work share what lies in the
// L2 cache ("grouped ordering" of Triton's matmul tutorial).
DEV void tile_of(int &weights, int &tokens) {
  int id = BIDY * GDIMX + BIDX, group = id / (16 * GDIMY), first = group * 16, size = min_(16, GDIMX - first);
  id -= first * GDIMY;
  weights = first + id % size;
  tokens = id / size;
}

// A block's sums, [tokens][COLS + 4] in shared memory, go out. Columns behind n
// are zero and are written too: y has room for whole tiles and keeps zeros there.
// row(t) is the row of y that token t of the block goes to.
template <int COLS, int THREADS, class ROW> DEV void emit_at(const float *s, void *y, const float *bias, ROW row, int tokens, int col, int n, int ldy, int mode) {
  int end = cdiv(n, 64) * 64;
  if (mode == SWIGLU) { // a tile is 32 rows of gate and 32 of up, without bias
    for (int i = TIDX; i < tokens * (COLS / 4); i += THREADS) {
      int t = i / (COLS / 4), c = i % (COLS / 4) * 2, g = c / 32 * 64 + c % 32; // two columns of the result
      if (col + g >= end) continue;
      const float *r = s + t * (COLS + 4) + g;
      *(u32 *)((u16 *)y + (u64)row(t) * ldy + col / 2 + c) = pack2(silu(r[0]) * r[32], silu(r[1]) * r[33]);
    }
    return;
  }
  for (int i = TIDX; i < tokens * (COLS / 4); i += THREADS) {
    int t = i / (COLS / 4), c = i % (COLS / 4) * 4;
    if (col + c >= end) continue;
    f32x4 v = *(const f32x4 *)(s + t * (COLS + 4) + c);
    if (bias) {
      UNROLL for (int e = 0; e < 4; e++) if (col + c + e < n) v[e] += bias[col + c + e];
    }
    u64 at = (u64)row(t) * ldy + col + c;
    if (mode == STORE_BF16) *(u32x2 *)((u16 *)y + at) = (u32x2){pack2(v[0], v[1]), pack2(v[2], v[3])};
    else if (mode == STORE_F32) *(f32x4 *)((float *)y + at) = v;
    else *(f32x4 *)((float *)y + at) += v;
  }
}
template <int COLS, int THREADS> DEV void emit(const float *s, void *y, const float *bias, int token, int tokens, int col, int n, int ldy, int mode) {
  emit_at<COLS, THREADS>(s, y, bias, [=](int t) { return token + t; }, tokens, col, n, ldy, mode);
}
