// Matrix products with wgmma: the weights are the m64 operand, the tokens the n
// operand, for every number of rows. A warp of its own (a warpgroup of its own
// for many rows) keeps the copy engine busy; warpgroups multiply. Weight tiles
// lie in memory as shared memory wants them, so a tile is one contiguous copy;
// the tokens come through a tensor map of [rows, k], boxes of 64 columns by the
// tile's tokens. After fast.cu (pranjalssh, 2024) and CUTLASS' warp-specialised
// pipelines.
#include "emit.h"
#include "hopper.h"

constexpr int TILE_BYTES = 64 * 64 * 2;

// One pipeline: full[s] counts the bytes of stage s, empty[s] the warps that have
// read it. A warp releases a stage for itself alone: whether one thread may speak
// for its warpgroup after wgmma.wait_group is not said by the ISA.
template <int STAGES, int STAGE> struct Ring {
  u8 *base;
  u64 *full, *empty;
  DEV_METHOD u8 *stage(int i) const { return base + i % STAGES * STAGE; }
  DEV_METHOD void init(int warps) const {
    for (int i = 0; i < STAGES; i++) {
      mbar_init(&full[i], 1);
      mbar_init(&empty[i], warps);
    }
    mbar_fence_init();
  }
  // The producer's turn to fill stage i with bytes; it starts the copies then.
  DEV_METHOD u64 *acquire(int i, u32 bytes) const {
    mbar_wait(&empty[i % STAGES], (i / STAGES & 1) ^ 1);
    mbar_expect(&full[i % STAGES], bytes);
    return &full[i % STAGES];
  }
  DEV_METHOD void ready(int i) const { mbar_wait(&full[i % STAGES], i / STAGES & 1); }
  DEV_METHOD void release(int i) const {
    if ((TIDX & 31) == 0) mbar_arrive(&empty[i % STAGES]);
  }
};

// Multiplies stages [i0, i1) of 64 columns into d, 64 rows of weights by N tokens.
// On return all of them have been released.
template <int N, class R> DEV void consume(float *d, const R &ring, int i0, int i1, int weights, int tokens) {
  Wgmma<N>::hold(d); // what d was is not written below this
  for (int i = i0; i < i1; i++) {
    ring.ready(i);
    const u8 *w = ring.stage(i) + weights, *x = ring.stage(i) + tokens;
    wg_fence();
    UNROLL for (int k = 0; k < 4; k++) Wgmma<N>::multiply(d, wg_desc(w + k * 32), wg_desc(x + k * 32), i > i0 || k > 0);
    wg_commit();
    if (i > i0) {
      wg_wait<1>();
      ring.release(i - 1);
    }
  }
  wg_wait<0>();
  Wgmma<N>::hold(d);
  ring.release(i1 - 1);
}

// The sums of a warpgroup to shared memory, [tokens][COLS + 4]; its rows of
// weights start at column col.
template <int N, int COLS> DEV void stage_sums(float *s, const float *d, int col) {
  int lane = TIDX & 31, warp = TIDX >> 5 & 3;
  UNROLL for (int j = 0; j < N / 8; j++) UNROLL for (int e = 0; e < 4; e++)
    s[(j * 8 + (lane & 3) * 2 + (e & 1)) * (COLS + 4) + col + warp * 16 + (lane >> 2) + (e >> 1) * 8] = d[j * 4 + e];
}

constexpr int FEW_RING = 6;

template <int N> DEV void hopper_few(const TMap *x, void *y, const u8 *w, const float *bias, float *work, u32 *counters, int rows, int n, int k, int ldy, int splits, int tiles, int mode,
                                   u8 *sm) {
  SMEM u64 full[FEW_RING], empty[FEW_RING];
  SMEM u32 last;
  constexpr int STAGE = TILE_BYTES + N * 128;
  Ring<FEW_RING, STAGE> ring{sm, full, empty};
  int tid = TIDX, lane = tid & 31, warp = tid >> 5, token = BIDZ * N, kt = cdiv(k, 64), k0 = BIDY * tiles, nk = min_(tiles, kt - k0);
  if (tid == 0) ring.init(4);
  sync();
  float d[N / 2];
  UNROLL for (int i = 0; i < N / 2; i++) d[i] = 0;
  if (warp == 4) {
    if (lane == 0) {
      const u8 *wt = w + ((u64)BIDX * kt + k0) * TILE_BYTES;
      for (int i = 0; i < nk; i++) {
        u64 *bar = ring.acquire(i, STAGE);
        bulk_copy(ring.stage(i), wt + (u64)i * TILE_BYTES, TILE_BYTES, bar);
        tma2d(ring.stage(i) + TILE_BYTES, x, bar, (k0 + i) * 64, token);
      }
    }
  } else {
    consume<N>(d, ring, 0, nk, 0, TILE_BYTES);
  }
  if (splits > 1) { // as in gemm.cu: the block that comes last adds the ranges up in order
    u64 part = (u64)GDIMX * 128 * (N / 8), at = (u64)BIDZ * splits * part + ((u64)BIDX * 4 + warp) * 32 * (N / 8);
    f32x4 *p = (f32x4 *)work + at + lane;
    if (warp < 4) {
      UNROLL for (int j = 0; j < N / 8; j++) p[BIDY * part + j * 32] = (f32x4){d[j * 4], d[j * 4 + 1], d[j * 4 + 2], d[j * 4 + 3]};
    }
    fence();
    sync();
    u32 *counter = counters + BIDZ * GDIMX + BIDX;
    if (tid == 0) {
      last = atomic_add(counter, 1) == (u32)splits - 1;
      if (last) *counter = 0;
    }
    sync();
    if (!last) return;
    fence();
    if (warp < 4) {
      UNROLL for (int j = 0; j < N / 8; j++) {
        f32x4 t = {0, 0, 0, 0};
        for (int s = 0; s < splits; s++) t += p[s * part + j * 32];
        UNROLL for (int e = 0; e < 4; e++) d[j * 4 + e] = t[e];
      }
    }
  }
  UNROLL for (int i = 0; i < N / 2; i++) d[i] += 0.0f; // -0 becomes 0, as in a sum of ranges
  sync(); // all stages have been read
  if (warp < 4) stage_sums<N, 64>((float *)sm, d, 0);
  sync();
  if (warp < 4) emit<64, 128>((float *)sm, y, bias, token, min_(N, rows - token), BIDX * 64, n, ldy, mode);
}

// Many rows: two warpgroups of 64 rows of weights each, N tokens. RANGES: K has
// several ranges, whose sums meet in a second set of registers.
template <int N, int STAGES, bool RANGES> DEV void hopper_many(const TMap *x, void *y, const u8 *w, const float *bias, int rows, int n, int k, int ldy, int tiles, int mode, u8 *sm) {
  SMEM u64 full[STAGES], empty[STAGES];
  constexpr int STAGE = 2 * TILE_BYTES + N * 128;
  Ring<STAGES, STAGE> ring{sm, full, empty};
  int tid = TIDX, wg = tid >> 7, nt0, token, kt = cdiv(k, 64), nt = cdiv(n, 64);
  tile_of(nt0, token);
  nt0 *= 2;
  token *= N;
  if (tid == 0) ring.init(8);
  sync();
  if (wg == 2) {
    reg_dec<40>();
    if (tid == 256) {
      int second = min_(nt0 + 1, nt - 1); // an odd last tile is multiplied twice, and dropped once
      for (int i = 0; i < kt; i++) {
        u64 *bar = ring.acquire(i, STAGE);
        bulk_copy(ring.stage(i), w + ((u64)nt0 * kt + i) * TILE_BYTES, TILE_BYTES, bar);
        bulk_copy(ring.stage(i) + TILE_BYTES, w + ((u64)second * kt + i) * TILE_BYTES, TILE_BYTES, bar);
        tma2d(ring.stage(i) + 2 * TILE_BYTES, x, bar, i * 64, token);
      }
    }
    sync();
    sync();
    return;
  }
  reg_inc<232>();
  float d[N / 2], total[RANGES ? N / 2 : 1];
  UNROLL for (int i = 0; i < N / 2; i++) d[i] = 0;
  if (RANGES) {
    UNROLL for (int i = 0; i < N / 2; i++) total[i] = 0;
    for (int i = 0; i < kt; i += tiles) {
      consume<N>(d, ring, i, min_(i + tiles, kt), wg * TILE_BYTES, 2 * TILE_BYTES);
      UNROLL for (int e = 0; e < N / 2; e++) total[e] += d[e];
    }
    UNROLL for (int i = 0; i < N / 2; i++) d[i] = total[i];
  } else {
    consume<N>(d, ring, 0, kt, wg * TILE_BYTES, 2 * TILE_BYTES);
    UNROLL for (int i = 0; i < N / 2; i++) d[i] += 0.0f;
  }
  sync();
  stage_sums<N, 128>((float *)sm, d, wg * 64);
  sync();
  emit<128, 256>((float *)sm, y, bias, token, min_(N, rows - token), nt0 * 64, n, ldy, mode);
}

#define HGEMM_PARAMS \
  TMAP_PARAM x, void *y, const u8 *w, const float *bias, float *work, u32 *counters, int rows, int n, int k, int ldy, int splits, int tiles, int epilogue
#define HFEW(N) \
  KERNEL(gemm_bf16_h##N, 160, 2)(HGEMM_PARAMS) { \
    DYN_SMEM(sm); \
    hopper_few<N>(&x, y, w, bias, work, counters, rows, n, k, ldy, splits, tiles, epilogue, swizzled(sm)); \
  } \
  REGISTER(gemm_bf16_h##N)
#define HMANY(N, stages, ranges) \
  KERNEL(gemm_bf16_h##N, 384, 1)(HGEMM_PARAMS) { \
    DYN_SMEM(sm); \
    hopper_many<N, stages, ranges>(&x, y, w, bias, rows, n, k, ldy, tiles, epilogue, swizzled(sm)); \
  } \
  REGISTER(gemm_bf16_h##N)
HFEW(8)
HFEW(16)
HFEW(32)
HFEW(64)
HMANY(128, 4, true)
HMANY(256, 4, false)
