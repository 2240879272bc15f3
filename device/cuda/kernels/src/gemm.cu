// Matrix products y = x·wᵀ with mma.sync m16n8k16. The weights are the m16 side
// and the tokens the n8 side for every number of rows, so that one row costs an
// eighth of the arithmetic it could, not a sixteenth, and an element of y is the
// same chain of mma whatever tile it is computed in (see kernels/abi.go).
#pragma once
#include "device.h"
#include "emit.h"
#include "quant.h"

constexpr int FEW_STAGES = 6, WIDE_STAGES = 3;

// Element (row, chunk of 8) of a tile of 64 columns in shared memory.
DEV int swizzled(int row, int chunk) { return row * 64 + ((chunk ^ (row & 7)) << 3); }

// The A operands of rows [16mi, 16mi+16) and columns [32kb, 32kb+32) of a tile.
template <int F> struct Weights;
template <> struct Weights<BF16> {
  static constexpr int bytes = 64 * 64 * 2;
  static DEV_METHOD float scale(u16) { return 1.0f; }
  static DEV_METHOD void load(u32 a[2][4], const u8 *tile, int mi, int kb) {
    int lane = TIDX & 31;
    UNROLL for (int h = 0; h < 2; h++) ldmatrix4(a[h], (const u16 *)tile + swizzled(mi * 16 + (lane & 15), kb * 4 + h * 2 + (lane >> 4)));
  }
};
template <> struct Weights<Q8> {
  static constexpr int bytes = Q8_TILE;
  static DEV_METHOD float scale(u16 v) { return half_to_float(v); }
  static DEV_METHOD void load(u32 a[2][4], const u8 *tile, int mi, int kb) {
    u32x4 v = *(const u32x4 *)(tile + q8_at(mi, kb, TIDX & 31));
    UNROLL for (int h = 0; h < 2; h++) {
      q8_pairs(a[h][0], a[h][1], v[h * 2]);
      q8_pairs(a[h][2], a[h][3], v[h * 2 + 1]);
    }
  }
};
template <> struct Weights<Q4> {
  static constexpr int bytes = Q4_TILE;
  static DEV_METHOD float scale(u16 v) { return half_to_float(v); }
  static DEV_METHOD void load(u32 a[2][4], const u8 *tile, int mi, int kb) {
    u32x2 v = *(const u32x2 *)(tile + q4_at(mi, kb, TIDX & 31));
    UNROLL for (int h = 0; h < 2; h++) q4_pairs(a[h], v[h]);
  }
};
template <> struct Weights<MXFP4> {
  static constexpr int bytes = Q4_TILE;
  static DEV_METHOD float scale(u16 v) { return bf(v); }
  static DEV_METHOD void load(u32 a[2][4], const u8 *tile, int mi, int kb) {
    u32x2 v = *(const u32x2 *)(tile + q4_at(mi, kb, TIDX & 31));
    UNROLL for (int h = 0; h < 2; h++) e2m1_pairs(a[h], v[h]);
  }
};

// acc[i][j] += rows 16(mi+i).. of the weight tile times rows 8j.. of x, over the
// 32 columns from 32kb on. Quantised weights are whole numbers, exact in bf16; a
// block's sum meets its scale in float32. So are the numbers of MXFP4.
template <int F, int MI, int NJ> DEV void multiply_block(float acc[MI][NJ][4], const u8 *w, const u16 *x, int mi, int kb) {
  int lane = TIDX & 31;
  u32 b[NJ][4]; // two steps of 16 columns
  UNROLL for (int j = 0; j < NJ; j++) ldmatrix4(b[j], x + swizzled(j * 8 + (lane & 7), kb * 4 + (lane >> 3)));
  UNROLL for (int i = 0; i < MI; i++) {
    u32 a[2][4];
    Weights<F>::load(a, w, mi + i, kb);
    if (F == BF16) {
      UNROLL for (int h = 0; h < 2; h++) {
        UNROLL for (int j = 0; j < NJ; j++) mma16816(acc[i][j], a[h], &b[j][h * 2]);
      }
    } else {
      const u16 *scales = (const u16 *)(w + Weights<F>::bytes - 256) + kb * 64 + (mi + i) * 16 + (lane >> 2);
      float s0 = Weights<F>::scale(scales[0]), s1 = Weights<F>::scale(scales[8]);
      UNROLL for (int j = 0; j < NJ; j++) {
        float t[4] = {0, 0, 0, 0};
        mma16816(t, a[0], &b[j][0]);
        mma16816(t, a[1], &b[j][2]);
        acc[i][j][0] = fma(t[0], s0, acc[i][j][0]);
        acc[i][j][1] = fma(t[1], s0, acc[i][j][1]);
        acc[i][j][2] = fma(t[2], s1, acc[i][j][2]);
        acc[i][j][3] = fma(t[3], s1, acc[i][j][3]);
      }
    }
  }
}

// The same over 64 columns. The quantised products of many rows keep the loop:
// with both halves in flight ptxas runs out of registers on sm_100 and sm_120.
template <int F, int MI, int NJ> DEV void multiply(float acc[MI][NJ][4], const u8 *w, const u16 *x, int mi) {
  if (F != BF16 && MI > 1) {
    ROLLED for (int kb = 0; kb < 2; kb++) multiply_block<F, MI, NJ>(acc, w, x, mi, kb);
  } else {
    UNROLL for (int kb = 0; kb < 2; kb++) multiply_block<F, MI, NJ>(acc, w, x, mi, kb);
  }
}

// Few rows: a block has 64 rows of weights and TOKENS tokens, of one range of K.
// A warp has 16 rows of weights. Where K has several ranges the block that comes
// last adds them up in order.
template <int F, int TOKENS> DEV void few_rows(void *y, const u16 *x, const u8 *w, const float *bias, float *work, u32 *counters, int rows, int n, int k, int ldx,
                                              int ldy, int splits, int tiles, int mode, u8 *sm) {
  constexpr int NJ = TOKENS / 8, WB = Weights<F>::bytes, STAGE = WB + TOKENS * 128;
  SMEM u32 last;
  int tid = TIDX, lane = tid & 31, warp = tid >> 5, token = BIDZ * TOKENS, kt = cdiv(k, 64), k0 = BIDY * tiles, nk = min_(tiles, kt - k0);
  const u8 *wt = w + ((u64)BIDX * kt + k0) * WB;
  auto fetch = [&](int i) {
    u8 *st = sm + i % FEW_STAGES * STAGE;
    for (int c = tid; c < WB / 16; c += 128) cp_async16(st + c * 16, wt + (u64)i * WB + c * 16, true);
    for (int c = tid; c < TOKENS * 8; c += 128) {
      int r = c >> 3, ch = c & 7;
      bool in = token + r < rows;
      cp_async16((u16 *)(st + WB) + swizzled(r, ch), x + (in ? (u64)(token + r) * ldx + (k0 + i) * 64 + ch * 8 : 0), in);
    }
  };
  float acc[1][NJ][4];
  UNROLL for (int j = 0; j < NJ; j++) UNROLL for (int e = 0; e < 4; e++) acc[0][j][e] = 0;
  for (int s = 0; s < FEW_STAGES - 1; s++) {
    if (s < nk) fetch(s);
    cp_commit();
  }
  for (int i = 0; i < nk; i++) {
    cp_wait<FEW_STAGES - 2>();
    sync(); // stage i is there for all, and all are done with the one that is filled now
    if (i + FEW_STAGES - 1 < nk) fetch(i + FEW_STAGES - 1);
    cp_commit();
    const u8 *st = sm + i % FEW_STAGES * STAGE;
    multiply<F, 1, NJ>(acc, st, (const u16 *)(st + WB), warp);
  }
  if (splits > 1) {
    u64 part = (u64)GDIMX * 4 * 32 * NJ, at = ((u64)BIDZ * splits * part) + ((u64)BIDX * 4 + warp) * 32 * NJ; // in units of 4 floats
    f32x4 *p = (f32x4 *)work + at + lane;
    UNROLL for (int j = 0; j < NJ; j++) p[BIDY * part + j * 32] = (f32x4){acc[0][j][0], acc[0][j][1], acc[0][j][2], acc[0][j][3]};
    fence();
    sync();
    u32 *counter = counters + BIDZ * GDIMX + BIDX;
    if (tid == 0) {
      last = atomic_add(counter, 1) == (u32)splits - 1;
      if (last) *counter = 0; // for the next launch
    }
    sync();
    if (!last) {
      cp_wait<0>();
      return;
    }
    fence();
    UNROLL for (int j = 0; j < NJ; j++) {
      f32x4 t = {0, 0, 0, 0};
      for (int s = 0; s < splits; s++) t += p[s * part + j * 32];
      UNROLL for (int e = 0; e < 4; e++) acc[0][j][e] = t[e];
    }
  }
  cp_wait<0>();
  sync(); // the stages become the place of the sums
  float *s = (float *)sm;
  UNROLL for (int j = 0; j < NJ; j++) UNROLL for (int e = 0; e < 4; e++)
    s[(j * 8 + (lane & 3) * 2 + (e & 1)) * 68 + warp * 16 + (lane >> 2) + (e >> 1) * 8] = 0.0f + acc[0][j][e]; // 0 + -0 is 0, as in a sum of ranges
  sync();
  emit<64, 128>(s, y, bias, token, min_(TOKENS, rows - token), BIDX * 64, n, ldy, mode);
}

// Many rows: a block has 128 rows of weights and 128 tokens; a warp has 64 by 32.
// It walks through all of K, and at the end of each range adds its sum to the total.
template <int F> DEV void many_rows(void *y, const u16 *x, const u8 *w, const float *bias, int rows, int n, int k, int ldx, int ldy, int tiles, int mode, u8 *sm) {
  constexpr int WB = Weights<F>::bytes, STAGE = 2 * WB + 128 * 128;
  int tid = TIDX, lane = tid & 31, warp = tid >> 5, wm = warp & 1, wn = warp >> 1, nt0, token, kt = cdiv(k, 64), nt = cdiv(n, 64);
  tile_of(nt0, token);
  nt0 *= 2;
  token *= 128;
  auto fetch = [&](int i) {
    u8 *st = sm + i % WIDE_STAGES * STAGE;
    UNROLL for (int h = 0; h < 2; h++) {
      bool in = nt0 + h < nt;
      const u8 *wt = w + ((u64)(in ? nt0 + h : 0) * kt + i) * WB;
      for (int c = tid; c < WB / 16; c += 256) cp_async16(st + h * WB + c * 16, wt + c * 16, in);
    }
    for (int c = tid; c < 128 * 8; c += 256) {
      int r = c >> 3, ch = c & 7;
      bool in = token + r < rows;
      cp_async16((u16 *)(st + 2 * WB) + swizzled(r, ch), x + (in ? (u64)(token + r) * ldx + i * 64 + ch * 8 : 0), in);
    }
  };
  float acc[4][4][4], total[4][4][4];
  UNROLL for (int i = 0; i < 4; i++) UNROLL for (int j = 0; j < 4; j++) UNROLL for (int e = 0; e < 4; e++) acc[i][j][e] = total[i][j][e] = 0;
  for (int s = 0; s < WIDE_STAGES - 1; s++) {
    if (s < kt) fetch(s);
    cp_commit();
  }
  int left = tiles;
  for (int i = 0; i < kt; i++) {
    cp_wait<WIDE_STAGES - 2>();
    sync();
    if (i + WIDE_STAGES - 1 < kt) fetch(i + WIDE_STAGES - 1);
    cp_commit();
    const u8 *st = sm + i % WIDE_STAGES * STAGE;
    multiply<F, 4, 4>(acc, st + wm * WB, (const u16 *)(st + 2 * WB) + wn * 32 * 64, 0);
    if (--left == 0 || i == kt - 1) {
      left = tiles;
      UNROLL for (int a = 0; a < 4; a++) UNROLL for (int j = 0; j < 4; j++) UNROLL for (int e = 0; e < 4; e++) {
        total[a][j][e] += acc[a][j][e];
        acc[a][j][e] = 0;
      }
    }
  }
  cp_wait<0>();
  sync();
  float *s = (float *)sm;
  UNROLL for (int a = 0; a < 4; a++) UNROLL for (int j = 0; j < 4; j++) UNROLL for (int e = 0; e < 4; e++)
    s[(wn * 32 + j * 8 + (lane & 3) * 2 + (e & 1)) * 132 + wm * 64 + a * 16 + (lane >> 2) + (e >> 1) * 8] = total[a][j][e];
  sync();
  emit<128, 256>(s, y, bias, token, min_(128, rows - token), nt0 * 64, n, ldy, mode);
}

#define GEMM_PARAMS \
  void *y, const u16 *x, const u8 *w, const float *bias, float *work, u32 *counters, int rows, int n, int k, int ldx, int ldy, int splits, int tiles, int epilogue
#define FEW(name, F, tokens) \
  KERNEL(name, 128, tokens == 64 ? 2 : 4)(GEMM_PARAMS) { \
    DYN_SMEM(sm); \
    few_rows<F, tokens>(y, x, w, bias, work, counters, rows, n, k, ldx, ldy, splits, tiles, epilogue, sm); \
  } \
  REGISTER(name)
#define MANY(name, F) \
  KERNEL(name, 256, 1)(GEMM_PARAMS) { \
    DYN_SMEM(sm); \
    many_rows<F>(y, x, w, bias, rows, n, k, ldx, ldy, tiles, epilogue, sm); \
  } \
  REGISTER(name)
FEW(gemm_bf16_n8, BF16, 8)
FEW(gemm_bf16_n16, BF16, 16)
FEW(gemm_bf16_n32, BF16, 32)
FEW(gemm_bf16_n64, BF16, 64)
MANY(gemm_bf16_128, BF16)
FEW(gemm_q8_n8, Q8, 8)
FEW(gemm_q8_n16, Q8, 16)
FEW(gemm_q8_n32, Q8, 32)
FEW(gemm_q8_n64, Q8, 64)
MANY(gemm_q8_128, Q8)
FEW(gemm_q4_n8, Q4, 8)
FEW(gemm_q4_n16, Q4, 16)
FEW(gemm_q4_n32, Q4, 32)
FEW(gemm_q4_n64, Q4, 64)
MANY(gemm_q4_128, Q4)
FEW(gemm_mxfp4_n8, MXFP4, 8)
FEW(gemm_mxfp4_n16, MXFP4, 16)
FEW(gemm_mxfp4_n32, MXFP4, 32)
FEW(gemm_mxfp4_n64, MXFP4, 64)
MANY(gemm_mxfp4_128, MXFP4)
