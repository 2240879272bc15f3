// Weights from rows of a checkpoint into tiles.
#include "device.h"
#include "quant.h"

// dtype 0 bf16, 1 float16, 2 float32
DEV float source(const void *src, u64 i, int dtype) {
  return dtype == 2 ? ((const float *)src)[i] : dtype == 1 ? half_to_float(((const u16 *)src)[i]) : bf(((const u16 *)src)[i]);
}

KERNEL(pack_bf16, 256, 4)(u16 *w, const void *src, int rows, int k, int row0, int n, int dtype, int interleave, int part) {
  int kt = cdiv(k, 64), r = BIDX * 64 + (TIDX >> 2);
  if (r >= rows) return;
  int to = row0 + r;
  if (interleave) to = to / 32 * 64 + part * 32 + to % 32;
  if (to >= cdiv(n, 64) * 64) return;
  for (int i = 0; i < 16; i++) {
    int c = BIDY * 64 + (TIDX & 3) * 16 + i;
    if (c < k) w[((u64)(to / 64) * kt + c / 64) * 4096 + to % 64 * 64 + ((((c % 64) >> 3) ^ (to & 7)) << 3) + (c & 7)] = to_bf(source(src, (u64)r * k + c, dtype));
  }
}
REGISTER(pack_bf16)

// A whole number, half to even, for |v| < 2^22.
DEV int nearest(float v) { return (i32)(as_u32(v + 12582912.0f) - as_u32(12582912.0f)); }

// The scale of a warp's 32 weights and this lane's weight in units of it, by the
// rules of device/cpu/quant.go: 8 bits take the least float16 that keeps the
// greatest weight within 127.49 units; 4 bits make the first weight of the
// greatest magnitude -8 units, so that the range is used up whatever its sign.
template <int F> DEV int quantize(float v, u16 &scale) {
  u32 size = as_u32(v) & 0x7fffffffu, top = size;
  for (int m = 16; m; m >>= 1) {
    u32 o = shfl_xor(top, m);
    top = o > top ? o : top;
  }
  if (F == Q8) {
    if (top == 0) {
      scale = 0;
      return 0;
    }
    scale = float_to_half(as_float(top) / 127.0f);
    if (half_to_float(scale) * 127.49f < as_float(top)) scale++;
    return nearest(v * (1.0f / half_to_float(scale)));
  }
  u32 first = size == top ? TIDX & 31 : 32; // the lowest lane that holds it
  for (int m = 16; m; m >>= 1) {
    u32 o = shfl_xor(first, m);
    first = o < first ? o : first;
  }
  scale = float_to_half(as_float(shfl(as_u32(v), first)) / -8.0f);
  float d = half_to_float(scale);
  if (d == 0) {
    scale = 0;
    return 0;
  }
  return max_(-8, min_(7, nearest(v * (1.0f / d))));
}

// A warp takes rows r and r + 8 of a tile together, since with 4 bits they share
// bytes, and 32 columns.
template <int F> DEV void pack_quantized(u8 *w, const void *src, int rows, int k, int row0, int n, int dtype, int interleave, int part) {
  constexpr int BYTES = F == Q8 ? Q8_TILE : Q4_TILE;
  int lane = TIDX & 31, kt = cdiv(k, 64), per = interleave ? 32 : 64, nt = row0 / per + BIDX;
  u8 *tile = w + ((u64)nt * kt + BIDY) * BYTES;
  if (nt >= cdiv(n, 64)) return;
  for (int u = TIDX >> 5; u < 64; u += 8) {
    int kb = u & 1, mi = u >> 4, r = u >> 1 & 7, c = BIDY * 64 + kb * 32 + lane;
    for (int h = 0; h < 2; h++) {
      int in = mi * 16 + h * 8 + r; // of the tile
      int row = (interleave ? nt * 32 + in % 32 : nt * 64 + in) - row0;
      if (row < 0 || row >= rows || (interleave && in / 32 != part)) continue;
      u16 scale;
      int q = quantize<F>(c < k ? source(src, (u64)row * k + c, dtype) : 0.0f, scale);
      int reader = r * 4 + lane % 8 / 2, step = lane / 16, upper = lane % 16 / 8; // who reads it: lane, step of 16 columns, register/2
      if (F == Q8) {
        tile[q8_at(mi, kb, reader) + step * 8 + (h + 2 * upper) * 2 + (lane & 1)] = (u8)(q + 128);
      } else {
        u8 *at = tile + q4_at(mi, kb, reader) + step * 4 + upper + 2 * (lane & 1);
        *at = h ? (*at & 15) | (q + 8) << 4 : (*at & 0xf0) | (q + 8);
      }
      if (lane == 0) ((u16 *)(tile + BYTES - 256))[kb * 64 + in] = scale;
    }
  }
}
KERNEL(pack_q8, 256, 2)(u8 *w, const void *src, int rows, int k, int row0, int n, int dtype, int interleave, int part) {
  pack_quantized<Q8>(w, src, rows, k, row0, n, dtype, interleave, part);
}
REGISTER(pack_q8)
KERNEL(pack_q4, 256, 2)(u8 *w, const void *src, int rows, int k, int row0, int n, int dtype, int interleave, int part) {
  pack_quantized<Q4>(w, src, rows, k, row0, n, dtype, interleave, part);
}
REGISTER(pack_q4)
