// What measures and certifies a GPU: rates of memory, the approximate functions,
// data from a hash so that big operands need no copy.
#include "device.h"

// Number i of a stream of 32-bit hashes (the finaliser of MurmurHash3).
DEV u32 hash_at(u64 i, u32 seed) {
  u32 h = (u32)i * 0x9e3779b9u + (u32)(i >> 32) * 0x7f4a7c15u + seed;
  h ^= h >> 16;
  h *= 0x85ebca6bu;
  h ^= h >> 13;
  h *= 0xc2b2ae35u;
  return h ^ h >> 16;
}
KERNEL(fill_bf16, 256, 4)(u16 *p, i64 n, i32 seed) {
  for (i64 i = (i64)BIDX * 256 + TIDX; i < n; i += (i64)GDIMX * 256) p[i] = to_bf((float)((i32)(hash_at(i, seed) & 255) * 2 - 255) * 0.00390625f);
}
REGISTER(fill_bf16)
KERNEL(stream_read, 512, 2)(u32 *out, const u32x4 *p, i64 n) {
  u32 s = 0;
  i64 i = (i64)BIDX * 512 + TIDX, step = (i64)GDIMX * 512;
  for (; i + 7 * step < n; i += 8 * step) {
    u32x4 v[8];
    UNROLL for (int k = 0; k < 8; k++) v[k] = p[i + k * step];
    UNROLL for (int k = 0; k < 8; k++) s ^= v[k][0] ^ v[k][1] ^ v[k][2] ^ v[k][3];
  }
  for (; i < n; i += step) s ^= p[i][0] ^ p[i][1] ^ p[i][2] ^ p[i][3];
  out[(i64)BIDX * 512 + TIDX] = s;
}
REGISTER(stream_read)
KERNEL(stream_copy, 512, 2)(u32x4 *q, const u32x4 *p, i64 n) {
  i64 i = (i64)BIDX * 512 + TIDX, step = (i64)GDIMX * 512;
  for (; i + 3 * step < n; i += 4 * step) {
    u32x4 v[4];
    UNROLL for (int k = 0; k < 4; k++) v[k] = p[i + k * step];
    UNROLL for (int k = 0; k < 4; k++) q[i + k * step] = v[k];
  }
  for (; i < n; i += step) q[i] = p[i];
}
REGISTER(stream_copy)
KERNEL(approx, 256, 4)(float *y, const float *x, int n, int which) {
  int i = BIDX * 256 + TIDX;
  if (i < n) y[i] = which == 0 ? ex2(x[i]) : which == 1 ? rsqrt_(x[i]) : rcp(x[i]);
}
REGISTER(approx)
