// ln(1 + e^x), exact to a few units in the last place also where it is small.
#pragma once
#include "device.h"

// ln(1+u) for u in [0, 1]: twice the inverse hyperbolic tangent of u/(2+u), whose series ends early.
DEV float log1p_(float u) {
  float s = u / (2.0f + u), q = s * s;
  return 2.0f * s * (1.0f + q * (1.0f / 3 + q * (1.0f / 5 + q * (1.0f / 7 + q * (1.0f / 9 + q * (1.0f / 11 + q * (1.0f / 13)))))));
}
DEV float softplus(float x) { return max_(x, 0.0f) + log1p_(ex2((x < 0 ? x : -x) * LOG2E)); }
