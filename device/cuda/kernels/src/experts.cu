// Mixtures of experts. route chooses experts for each row, group_rows lists the rows of each expert and cuts
// the lists into tiles, grouped_* multiply the tiles with the matrices of their experts, and sum_experts
// adds up what a row's experts gave. Nothing of this goes through the host: the grids are as large as the
// number of rows could make them, and blocks without a tile end at once.
//
// An entry is a row and one of the experts that it chose: number row*topk + i, in ascending order of the
// row's experts. Results of products are stored at the entry's number, so that no bit of them and no
// sum depends on where an entry stands in its expert's list.
#pragma once
#include "elements.cu"
#include "gemm.cu"
#include "softplus.h"

constexpr int EXPERTS = 1024, CHOSEN = 32, GROUPS = 64; // the most there may be
constexpr float INFINITE = __builtin_inff();

// A product in float32, for routers: a warp computes one column of up to 4 rows. Each lane sums every 32nd column of the
// row, whatever the number of rows.
constexpr int EXACT_ROWS = 4;
KERNEL(exact, 256, 4)(u8 *y, const u8 *x, const float *w, const float *bias, int rows, int n, int k, int ldx, int ldy, int types) {
  int lane = TIDX & 31, col = BIDX * 8 + (TIDX >> 5), row = BIDY * EXACT_ROWS;
  if (col >= n) return;
  float acc[EXACT_ROWS];
  UNROLL for (int i = 0; i < EXACT_ROWS; i++) acc[i] = 0;
  for (int c = lane; c < k; c += 32) {
    float v = w[(i64)col * k + c];
    UNROLL for (int i = 0; i < EXACT_ROWS; i++) {
      if (row + i < rows) acc[i] = fma(v, load(x, (i64)(row + i) * ldx + c, types & 2), acc[i]);
    }
  }
  UNROLL for (int i = 0; i < EXACT_ROWS; i++) {
    float s = warp_sum(acc[i]);
    if (lane == 0 && row + i < rows) store(y, (i64)(row + i) * ldy + col, types & 1, bias ? s + bias[col] : s);
  }
}
REGISTER(exact)

// Scores are numbered as model.ScoreKind.
enum { SOFTMAX, SOFTMAX_TOP, SIGMOID_SCORE, SQRT_SOFTPLUS, SPARSE_MIXER };

DEV float warp_max(float v) {
  for (int m = 16; m; m >>= 1) v = max_(v, shfl_xor(v, m));
  return v;
}

// A warp's best of key[0, n): the greatest number that comes after (last, at) in descending order of numbers and ascending
// order of places, which is where the last one was found. -1: there is none, because what is left is NaN.
DEV int next_best(const float *key, int n, float last, int at, float &value) {
  int best = -1;
  float top = 0;
  for (int i = TIDX & 31; i < n; i += 32) {
    float v = key[i];
    bool after = v < last || (v == last && i > at);
    if (after && (best < 0 || v > top)) best = i, top = v;
  }
  for (int m = 16; m; m >>= 1) {
    float v = shfl_xor(top, m);
    int i = (int)shfl_xor((u32)best, m);
    if (i >= 0 && (best < 0 || v > top || (v == top && i < best))) best = i, top = v;
  }
  value = top;
  return best;
}

// What a router's rows share.
struct Scores {
  float key[EXPERTS];   // by which experts are chosen
  float score[EXPERTS]; // and their weight
  float group[GROUPS];
  int picked[CHOSEN], sorted[CHOSEN];
  float weight[CHOSEN];
};

// Takes experts of groups that are not considered out of the choice.
DEV void choose_groups(Scores &s, int experts, int groups, int top, int best2) {
  int size = experts / groups;
  for (int g = TIDX; g < groups; g += 32) {
    float best = -INFINITE, second = -INFINITE;
    for (int i = 0; i < size; i++) {
      float v = s.key[g * size + i];
      if (v > best) second = best, best = v;
      else if (v > second) second = v;
    }
    s.group[g] = best2 && size > 1 ? best + second : best;
  }
  sync_warp();
  u64 in = 0;
  float last = INFINITE, value = 0;
  int at = -1;
  for (int i = 0; i < top; i++) {
    at = next_best(s.group, groups, last, at, value);
    if (at < 0) break;
    in |= (u64)1 << at;
    last = value;
  }
  sync_warp();
  for (int i = TIDX; i < experts; i += 32) {
    if (!(in >> (i / size) & 1)) s.key[i] = as_float(0x7fc00000u);
  }
  sync_warp();
}

// The experts with the greatest keys, ties to the lower number.
DEV void choose(Scores &s, int experts, int topk) {
  float last = INFINITE, value = 0;
  int at = -1;
  for (int k = 0; k < topk; k++) {
    int found = next_best(s.key, experts, last, at, value);
    last = found < 0 ? -INFINITE : value, at = found;
    if (found < 0) { // scores that are not numbers: the first expert that is left
      for (bool taken = true; taken;) {
        taken = false;
        found++;
        for (int j = 0; j < k; j++) taken = taken || s.picked[j] == found;
      }
      at = found;
    }
    sync_warp();
    if (TIDX == 0) s.picked[k] = found;
    sync_warp();
  }
}

// Two experts one after the other, each with its part in a softmax over those that are near it.
DEV void sparse_mixer(Scores &s, const float *x, int experts, int topk, float jitter) {
  int taken = -1;
  for (int k = 0; k < topk; k++) {
    for (int i = TIDX; i < experts; i += 32) s.key[i] = i == taken ? as_float(0x7fc00000u) : x[i];
    sync_warp();
    float top = 0, sum = 0;
    int at = max_(next_best(s.key, experts, INFINITE, -1, top), 0);
    for (int i = TIDX; i < experts; i += 32) {
      float v = x[i], by = max_(v < 0 ? -v : v, top);
      if (i != taken && (top - v) / by <= 2 * jitter) sum += ex2((v - top) * LOG2E);
    }
    sum = warp_sum(sum);
    if (TIDX == 0) s.picked[k] = at, s.score[at] = 1.0f / sum;
    taken = at;
    sync_warp();
  }
}

// Weights of the chosen experts, in ascending order of their numbers. There are few, and each lane adds them up in order.
DEV void weigh(Scores &s, int topk, int kind, int renorm, float floor, float add, float factor, const float *scale) {
  int k = TIDX;
  if (k < topk) {
    int rank = 0;
    for (int j = 0; j < topk; j++) rank += s.picked[j] < s.picked[k];
    s.sorted[rank] = s.picked[k];
  }
  sync_warp();
  if (k < topk) s.weight[k] = s.score[s.sorted[k]];
  sync_warp();
  float w = k < topk ? s.weight[k] : 0;
  if (kind == SOFTMAX_TOP) {
    float top = s.weight[0], sum = 0;
    for (int j = 1; j < topk; j++) top = max_(top, s.weight[j]);
    for (int j = 0; j < topk; j++) sum += ex2((s.weight[j] - top) * LOG2E);
    w = ex2((w - top) * LOG2E) / sum;
    sync_warp();
    if (k < topk) s.weight[k] = w;
    sync_warp();
  }
  if (renorm) {
    float sum = 0;
    for (int j = 0; j < topk; j++) sum += s.weight[j];
    w /= max_(sum + add, floor);
    sync_warp(); // all have read the weights
  }
  if (k < topk) {
    w *= factor;
    if (scale) w *= scale[s.sorted[k]];
    s.weight[k] = w;
  }
  sync_warp();
}

// A warp chooses the experts of a row. Rows from live[drawn] on fill up a graph's bucket and choose none.
KERNEL(route, 32, 16)(int *chosen, float *weight, const float *logits, const float *bias, const float *scale, const int *live, int drawn, int experts, int topk, int ld, int kind, int groups, int topgroups,
                      int best2, int renorm, float floor, float add, float jitter, float factor) {
  SMEM Scores s;
  int row = BIDX, lane = TIDX;
  const float *x = logits + (i64)row * ld;
  if (row >= live[drawn]) {
    if (lane < topk) chosen[(i64)row * topk + lane] = -1, weight[(i64)row * topk + lane] = 0;
    return;
  }
  if (kind == SPARSE_MIXER) {
    sparse_mixer(s, x, experts, topk, jitter);
  } else {
    float top = -INFINITE, sum = 0;
    if (kind == SOFTMAX) {
      for (int i = lane; i < experts; i += 32) top = max_(top, x[i]);
      top = warp_max(top);
      for (int i = lane; i < experts; i += 32) sum += ex2((x[i] - top) * LOG2E);
      sum = warp_sum(sum);
    }
    for (int i = lane; i < experts; i += 32) {
      float v = x[i];
      switch (kind) {
      case SOFTMAX: v = ex2((v - top) * LOG2E) / sum; break;
      case SIGMOID_SCORE: v = 1.0f / (1.0f + ex2(-v * LOG2E)); break;
      case SQRT_SOFTPLUS: v = softplus(v), v = v > 0 ? v * rsqrt_(v) : v; break;
      }
      s.score[i] = v;
      s.key[i] = bias ? v + bias[i] : v;
    }
    sync_warp();
    if (groups > 0) choose_groups(s, experts, groups, topgroups, best2);
    choose(s, experts, topk);
  }
  weigh(s, topk, kind, renorm, floor, add, factor, scale);
  if (lane < topk) chosen[(i64)row * topk + lane] = s.sorted[lane], weight[(i64)row * topk + lane] = s.weight[lane];
}
REGISTER(route)

// Rows of an expert that are multiplied together: entries order[first, first+count).
struct ExpertTile {
  int expert, first, count, unused;
};

constexpr int GROUP_BLOCK = 256;
// A sum of what threads have, for the threads before each, and all of it.
DEV int before_me(int v, int *warps, int &all) {
  int lane = TIDX & 31, own = v;
  for (int m = 1; m < 32; m <<= 1) {
    int o = (int)shfl((u32)v, (lane - m) & 31);
    if (lane >= m) v += o;
  }
  sync();
  if (lane == 31) warps[TIDX >> 5] = v;
  sync();
  int before = 0;
  all = 0;
  for (int w = 0; w < GROUP_BLOCK / 32; w++) {
    if (w < TIDX >> 5) before += warps[w];
    all += warps[w];
  }
  return before + v - own;
}

// A block lists the entries of an expert, in ascending order, and its tiles of up to per entries. Every block counts for
// itself what the experts before have, so that they need not wait for each other.
KERNEL(group_rows, GROUP_BLOCK, 4)(int *order, ExpertTile *tiles, int *count, const int *chosen, int entries, int experts, int per) {
  SMEM int hist[EXPERTS];
  SMEM int warps[GROUP_BLOCK / 32];
  int me = BIDX, first = 0, tile = 0, own = 0, unused;
  for (int i = TIDX; i < experts; i += GROUP_BLOCK) hist[i] = 0;
  sync();
  for (int i = TIDX; i < entries; i += GROUP_BLOCK) {
    int e = chosen[i];
    if (e >= 0) smem_add((u32 *)&hist[e], 1u);
  }
  sync();
  int mine = hist[me], myTiles = cdiv(mine, per);
  for (int i = TIDX; i < me; i += GROUP_BLOCK) first += hist[i], tile += cdiv(hist[i], per);
  before_me(first, warps, first);
  before_me(tile, warps, tile);
  if (me == experts - 1 && TIDX == 0) count[0] = tile + myTiles;
  if (mine == 0) return;
  for (int i = TIDX; i < myTiles; i += GROUP_BLOCK) tiles[tile + i] = ExpertTile{me, first + i * per, min_(per, mine - i * per), 0};
  int chunk = cdiv(entries, GROUP_BLOCK), lo = min_(entries, TIDX * chunk), hi = min_(entries, lo + chunk);
  for (int i = lo; i < hi; i++) own += chosen[i] == me;
  int at = first + before_me(own, warps, unused);
  for (int i = lo; i < hi; i++) {
    if (chosen[i] == me) order[at++] = i;
  }
}
REGISTER(group_rows)

// A loaded matrix, in a table that its number indexes.
struct Loaded {
  u64 w, bias;
  int format, unused0;
  u64 unused1;
};

// Products of experts' rows, as few_rows with one range of K. Entry i reads row i/div of x and writes row i of y. The matrix of
// expert e is number base + e*step; a block whose expert's matrix has another format leaves it to another launch.
template <int F, int TOKENS> DEV void grouped_rows(void *y, const u16 *x, const Loaded *loaded, const int *order, const ExpertTile *tiles, const int *count, int base, int step, int div, int n, int k, int ldx, int ldy,
                                                   int mode, u8 *sm) {
  constexpr int NJ = TOKENS / 8, WB = Weights<F>::bytes, STAGE = WB + TOKENS * 128;
  SMEM int rows[TOKENS];
  if (BIDY >= count[0]) return;
  ExpertTile tile = tiles[BIDY];
  const Loaded *matrix = loaded + base + tile.expert * step;
  if (matrix->format != F) return;
  int tid = TIDX, lane = tid & 31, warp = tid >> 5, kt = cdiv(k, 64);
  if (tid < TOKENS) rows[tid] = tid < tile.count ? order[tile.first + tid] : 0;
  sync();
  const u8 *wt = (const u8 *)matrix->w + (u64)BIDX * kt * WB;
  auto fetch = [&](int i) {
    u8 *st = sm + i % FEW_STAGES * STAGE;
    for (int c = tid; c < WB / 16; c += 128) cp_async16(st + c * 16, wt + (u64)i * WB + c * 16, true);
    for (int c = tid; c < TOKENS * 8; c += 128) {
      int r = c >> 3, ch = c & 7;
      cp_async16((u16 *)(st + WB) + swizzled(r, ch), x + (u64)(rows[r] / div) * ldx + i * 64 + ch * 8, r < tile.count);
    }
  };
  float acc[1][NJ][4];
  UNROLL for (int j = 0; j < NJ; j++) UNROLL for (int e = 0; e < 4; e++) acc[0][j][e] = 0;
  for (int s = 0; s < FEW_STAGES - 1; s++) {
    if (s < kt) fetch(s);
    cp_commit();
  }
  for (int i = 0; i < kt; i++) {
    cp_wait<FEW_STAGES - 2>();
    sync(); // stage i is there for all, and all are done with the one that is filled now
    if (i + FEW_STAGES - 1 < kt) fetch(i + FEW_STAGES - 1);
    cp_commit();
    const u8 *st = sm + i % FEW_STAGES * STAGE;
    multiply<F, 1, NJ>(acc, st, (const u16 *)(st + WB), warp);
  }
  cp_wait<0>();
  sync(); // the stages become the place of the sums
  float *s = (float *)sm;
  UNROLL for (int j = 0; j < NJ; j++) UNROLL for (int e = 0; e < 4; e++)
    s[(j * 8 + (lane & 3) * 2 + (e & 1)) * 68 + warp * 16 + (lane >> 2) + (e >> 1) * 8] = acc[0][j][e];
  sync();
  emit_at<64, 128>(s, y, (const float *)matrix->bias, [&](int t) { return rows[t]; }, tile.count, BIDX * 64, n, ldy, mode);
}

#define GROUPED(name, F, tokens) \
  KERNEL(name, 128, tokens == 64 ? 2 : 4)(void *y, const u16 *x, const Loaded *loaded, const int *order, const ExpertTile *tiles, const int *count, int base, int step, int div, int n, int k, int ldx, int ldy, \
                                          int epilogue) { \
    DYN_SMEM(sm); \
    grouped_rows<F, tokens>(y, x, loaded, order, tiles, count, base, step, div, n, k, ldx, ldy, epilogue, sm); \
  } \
  REGISTER(name)
GROUPED(grouped_bf16_n8, BF16, 8)
GROUPED(grouped_bf16_n16, BF16, 16)
GROUPED(grouped_bf16_n32, BF16, 32)
GROUPED(grouped_bf16_n64, BF16, 64)
GROUPED(grouped_q8_n8, Q8, 8)
GROUPED(grouped_q8_n16, Q8, 16)
GROUPED(grouped_q8_n32, Q8, 32)
GROUPED(grouped_q8_n64, Q8, 64)
GROUPED(grouped_q4_n8, Q4, 8)
GROUPED(grouped_q4_n16, Q4, 16)
GROUPED(grouped_q4_n32, Q4, 32)
GROUPED(grouped_q4_n64, Q4, 64)
GROUPED(grouped_mxfp4_n8, MXFP4, 8)
GROUPED(grouped_mxfp4_n16, MXFP4, 16)
GROUPED(grouped_mxfp4_n32, MXFP4, 32)
GROUPED(grouped_mxfp4_n64, MXFP4, 64)

// The sum of a row's entries, which are in ascending order of their experts. With weighted 0 the weights were factors of the input.
KERNEL(sum_experts, 256, 4)(u8 *y, const float *x, const int *chosen, const float *weight, int topk, int width, int ldy, int ldx, int types, int weighted) {
  i64 row = BIDX;
  UNROLL for (int i = 0; i < ELEMENT_COLS / 256; i++) {
    int c = BIDY * ELEMENT_COLS + i * 256 + TIDX;
    if (c >= width) continue;
    float s = 0;
    for (int k = 0; k < topk; k++) {
      i64 entry = row * topk + k;
      if (chosen[entry] >= 0) s = fma(weighted ? weight[entry] : 1.0f, x[entry * ldx + c], s);
    }
    store(y, row * ldy + c, types & 1, s);
  }
}
REGISTER(sum_experts)
