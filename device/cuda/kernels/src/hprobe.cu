// What certifies Hopper's primitives, where the emulator is only our reading of
// the ISA: a product of boxes, and the ring of hgemm.cu under random pauses.
#include "hopper.h"
#ifndef GK_EMU
DEV void pause_ns(u32 ns) { asm volatile("nanosleep.u32 %0;" ::"r"(ns) : "memory"); }
#endif

constexpr int BOX = 128 * 128; // bytes of 128 rows by 64 columns

// d float32 [64, 128] = rows [64 half, 64 half + 64) of a · bᵀ over k-steps
// [k0, k1) of the first box of 128 rows by 64 columns of each map.
KERNEL(probe_wgmma, 128, 1)(TMAP_PARAM a, TMAP_PARAM b, float *out, int half, int k0, int k1) {
  DYN_SMEM(memory);
  u8 *sm = swizzled(memory);
  SMEM u64 bar[1];
  if (TIDX == 0) {
    mbar_init(bar, 1);
    mbar_fence_init();
  }
  sync();
  if (TIDX == 0) {
    mbar_expect(bar, 2 * BOX);
    tma2d(sm, &a, bar, 0, 0);
    tma2d(sm + BOX, &b, bar, 0, 0);
  }
  mbar_wait(bar, 0);
  float d[64];
  UNROLL for (int i = 0; i < 64; i++) d[i] = 0;
  Wgmma<128>::hold(d);
  for (int k = k0; k < k1; k++) {
    wg_fence();
    Wgmma<128>::multiply(d, wg_desc(sm + half * 64 * 128 + k * 32), wg_desc(sm + BOX + k * 32), 1);
    wg_commit();
    wg_wait<0>();
    Wgmma<128>::hold(d);
  }
  int lane = TIDX & 31, warp = TIDX >> 5;
  UNROLL for (int i = 0; i < 64; i++) out[(warp * 16 + (lane >> 2) + (i >> 1 & 1) * 8) * 128 + (i >> 2) * 8 + (lane & 3) * 2 + (i & 1)] = d[i];
}
REGISTER(probe_wgmma)

// A pipeline of two stages over nk boxes along k of maps a and b (128 rows each)
// with pauses before each product. mode 0 to 3: that warp releases a stage for
// its whole warpgroup; 4: every warp for itself, as hgemm.cu does. Every block's
// out, float32 [128, 128], must be a · bᵀ, whatever the pauses. A wait in vain
// ends after some time and leaves 1e30.
KERNEL(probe_ring, 384, 1)(TMAP_PARAM a, TMAP_PARAM b, float *out, int nk, int mode, i32 seed) {
  DYN_SMEM(memory);
  u8 *sm = swizzled(memory);
  SMEM u64 full[2], empty[2];
  int tid = TIDX, wg = tid >> 7, warp = tid >> 5 & 3;
  if (tid == 0) {
    for (int i = 0; i < 2; i++) {
      mbar_init(&full[i], 1);
      mbar_init(&empty[i], mode < 4 ? 2 : 8);
    }
    mbar_fence_init();
  }
  sync();
  auto wait = [](u64 *bar, u32 parity) {
    for (int tries = 0; tries < 20000; tries++)
      if (mbar_try(bar, parity)) return true;
    return false;
  };
  if (wg == 2) {
    if (tid == 256) {
      for (int k = 0; k < nk; k++) {
        int s = k & 1;
        if (!wait(&empty[s], (k >> 1 & 1) ^ 1)) break;
        mbar_expect(&full[s], 2 * BOX);
        tma2d(sm + s * 2 * BOX, &a, &full[s], k * 64, 0);
        tma2d(sm + s * 2 * BOX + BOX, &b, &full[s], k * 64, 0);
      }
    }
    return;
  }
  float d[64];
  UNROLL for (int i = 0; i < 64; i++) d[i] = 0;
  Wgmma<128>::hold(d);
  bool releases = mode == 4 || mode == warp, lost = false;
  for (int k = 0; k < nk; k++) {
    int s = k & 1;
    if (!lost && !wait(&full[s], k >> 1 & 1)) lost = true;
    u32 h = (u32)seed ^ (u32)(BIDX << 12 ^ wg << 11 ^ warp << 9 ^ k);
    h = (h ^ h >> 16) * 0x85ebca6bu;
    h = (h ^ h >> 13) * 0xc2b2ae35u;
    pause_ns(h & 1 ? h >> 8 & (releases ? 127 : 2047) : 0);
    wg_fence();
    UNROLL for (int i = 0; i < 4; i++) Wgmma<128>::multiply(d, wg_desc(sm + s * 2 * BOX + wg * 64 * 128 + i * 32), wg_desc(sm + s * 2 * BOX + BOX + i * 32), 1);
    wg_commit();
    if (k > 0) {
      wg_wait<1>();
      if (releases && !lost && (tid & 31) == 0) mbar_arrive(&empty[(k - 1) & 1]);
    }
  }
  wg_wait<0>();
  Wgmma<128>::hold(d);
  int lane = tid & 31;
  float *o = out + (u64)BIDX * 128 * 128;
  UNROLL for (int i = 0; i < 64; i++)
    o[(wg * 64 + warp * 16 + (lane >> 2) + (i >> 1 & 1) * 8) * 128 + (i >> 2) * 8 + (lane & 3) * 2 + (i & 1)] = lost ? 1e30f : d[i];
}
REGISTER(probe_ring)
