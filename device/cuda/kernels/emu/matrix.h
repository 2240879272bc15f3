// A matrix in tiles of any format, for the tests of products.
#pragma once
#include "check.h"
#include "../src/quant.h"
using namespace check;

static const char *formats[] = {"bf16", "q8", "q4", "mxfp4"};

// A matrix as a kernel reads it, and what it means.
struct Matrix {
  int n, k, format;
  Memory<u8> w;
  std::vector<float> meaning; // [n, k]
  static size_t bytes(int format) { return format == BF16 ? 8192 : format == Q8 ? Q8_TILE : Q4_TILE; }
  Matrix(int n, int k, int format) : n(n), k(k), format(format), w(bytes(format) * up(n, 64) * up(k, 64)), meaning((size_t)n * k) {
    w.zero();
    if (format == Q8 || format == Q4) // a weight of zero is q+128 and q+8
      for (size_t i = 0; i < w.n; i++)
        if (i % bytes(format) < bytes(format) - 256) w[i] = format == Q8 ? 128 : 0x88;
    for (int r = 0; r < n; r++)
      for (int b = 0; b < k; b += 32) block(r, b);
    w.keep();
  }
  void block(int r, int b) {
    static const float e2m1[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    float d = format == MXFP4 ? ldexpf(1, irand(-9, -4)) : half_to_float(float_to_half(0.01f + 0.02f * fabsf(frand())));
    for (int c = b; c < std::min(b + 32, k); c++) {
      float &v = meaning[(size_t)r * k + c];
      if (format == BF16) {
        u16 h = rounded(frand());
        v = value(h);
        memcpy(&w[tile_at(r, c, k) * 2], &h, 2);
        continue;
      }
      int q = format == Q8 ? irand(-127, 127) : irand(-8, 7);
      v = format == MXFP4 ? d * e2m1[(q + 8) & 7] * (q < 0 ? 1 : -1) : d * q; // q + 8 is the code
      u8 *tile = &w[((size_t)(r / 64) * up(k, 64) + c / 64) * bytes(format)];
      int rr = r % 64, cc = c % 64, mi = rr / 16, kb = cc / 32, h = cc % 32 / 16, reg = rr % 16 / 8 + cc % 16 / 8 * 2, lane = rr % 8 * 4 + cc % 8 / 2, e = cc % 2;
      if (format == Q8) {
        tile[((mi * 2 + kb) * 32 + lane) * 16 + h * 8 + reg * 2 + e] = (u8)(q + 128);
      } else {
        int nibble = reg + 4 * e;
        u8 &at = tile[((mi * 2 + kb) * 32 + lane) * 8 + h * 4 + nibble / 2];
        at = nibble % 2 ? (at & 15) | (q + 8) << 4 : (at & 0xf0) | (q + 8);
      }
      u16 scale = format == MXFP4 ? rounded(d) : float_to_half(d);
      memcpy(tile + bytes(format) - 256 + (kb * 64 + rr) * 2, &scale, 2);
    }
  }
};
