// The natural logarithm of package sampler (math.go), every operation rounded on its own.
#pragma once
#include "device.h"

constexpr float LN2_HI = 0.693359375f, LN2_LO = -2.121944400546905e-4f;
DEV float log_sum(float f, float e) {
  float p = -0.07621762f * f + 0.12904412f;
  p = p * f + -0.13242984f;
  p = p * f + 0.14181828f;
  p = p * f + -0.16609083f;
  p = p * f + 0.20001973f;
  p = p * f + -0.25001583f;
  p = p * f + 0.33333325f;
  p = p * f + -0.49999988f;
  float y = (f * f) * p + e * LN2_LO;
  return (f + y) + e * LN2_HI;
}
constexpr u32 SQRT_HALF = 0x3f3504f3;
DEV float log32(float x) {
  u32 b = as_u32(x) - SQRT_HALF;
  float f = as_float((b & 0x7fffffu) + SQRT_HALF) - 1.0f;
  return log_sum(f, (float)((i32)b >> 23));
}
