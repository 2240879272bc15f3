// Weight-only formats of 8 and 4 bits: blocks of 32 columns of a row share a
// float16 scale d, a weight is d*q with q in [-127, 127] or d*(q-8) with q in
// [0, 15] (Q8_0 and Q4_0 of ggml). A tile of 64 rows by 64 columns holds, for the
// lanes of mma m16n8k16, what each of them needs in one load:
//
//	Q8: [mi 4][kb 2][lane 32] 16 bytes, q+128: byte 8h + 2r + e is element e of
//	    register r of step h of 16 columns
//	Q4: [mi 4][kb 2][lane 32] 8 bytes: nibble r of word h is element 0 of
//	    register r of step h, nibble r+4 element 1
//	both: then float16 [kb 2][64 rows] of scales
//	MXFP4: as Q4, with codes of E2M1 (a sign, two bits of exponent, one of mantissa) for nibbles, and with
//	    scales that are bfloat16, which holds every power of two of E8M0 (OCP Microscaling Formats, 2023)
//
// mi counts 16 rows, kb 32 columns. Element e of register r of lane l is row
// 16mi + l/4 + 8(r%2), column 32kb + 16h + 2(l%4) + 8(r/2) + e. The order of nibbles
// is that of Marlin (Frantar et al., 2024): one AND and OR yields two weights.
#pragma once
#include "device.h"
enum { BF16, Q8, Q4, MXFP4 };
constexpr int Q8_TILE = 64 * 64 + 256, Q4_TILE = 64 * 64 / 2 + 256;

DEV int q8_at(int mi, int kb, int lane) { return ((mi * 2 + kb) * 32 + lane) * 16; }
DEV int q4_at(int mi, int kb, int lane) { return ((mi * 2 + kb) * 32 + lane) * 8; }

// Four bytes q+128 to two pairs of bf16 q. 0x4b000000 is 2^23: a byte below it
// is a whole number.
DEV void q8_pairs(u32 &a, u32 &b, u32 v) {
  const float magic = 8388608.0f + 128.0f;
  float f[4];
  UNROLL for (int i = 0; i < 4; i++) f[i] = as_float(prmt(v, 0x4b000000u, 0x7440u | i)) - magic;
  a = pack2(f[0], f[1]);
  b = pack2(f[2], f[3]);
}
// Eight nibbles q to four pairs of bf16 q-8: 0x4300 is 128, whose unit is 1.
DEV void q4_pairs(u32 a[4], u32 v) {
  UNROLL for (int i = 0; i < 4; i++) a[i] = fma_bf16x2((v >> 4 * i & 0x000f000fu) | 0x43004300u, 0x3f803f80u, 0xc308c308u); // 1*x - 136
}
// Eight codes of E2M1 to four pairs of bf16. With their three lower bits where the last two bits of a bf16's exponent and the
// first of its mantissa are, they are 2^-126 of what they stand for, also those without exponent, which are subnormal.
DEV void e2m1_pairs(u32 a[4], u32 v) {
  UNROLL for (int i = 0; i < 4; i++) {
    u32 c = v >> 4 * i;
    a[i] = fma_bf16x2((c & 0x00070007u) << 6 | (c & 0x00080008u) << 12, 0x7e807e80u, 0x80008000u); // 2^126*x - 0
  }
}
