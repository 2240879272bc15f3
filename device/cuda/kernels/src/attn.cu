// Paged attention, after FlashAttention-2 (Dao, 2023) and Flash-Decoding. Keys go
// in tiles of 64 absolute positions; within a part of 512 positions a row keeps a
// running maximum, and parts are merged in order. Both kernels do this with the
// same instructions in the same order, so that a row's bits do not depend on
// which of them computed it, nor on the rows beside it: a tile that a row does
// not see changes nothing, because every factor is then 2^0 and every sum + 0.
#pragma once
#include "device.h"

constexpr int KEYS = 64, PART = 512, SCORE_LD = 68;
constexpr int ALL = 1 << 30; // a window that hides nothing
constexpr float NINF = -__builtin_inff();

struct AttnTile { i32 token, tokens, table, unused; };
struct AttnItem { i32 token, table, part, slot; };
struct AttnMerge { i32 token, slot, slots, unused; };

// The paged cache of a layer as one KV head sees it.
struct Cache {
  const u16 *k; // the head's first row of block 0
  i64 blockStride, values; // from keys to values
  const i32 *table;
  int blockTokens, row;
};
DEV Cache cache_of(const u16 *kv, const i32 *table, int head, int kvHeads, int headDim, int blockTokens, i64 blockStride) {
  int row = cdiv(headDim, 8) * 8;
  return Cache{kv + (i64)head * blockTokens * row, blockStride, (i64)kvHeads * blockTokens * row, table, blockTokens, row};
}

// Chunk ch of row r in shared memory; a row has D elements.
template <int D> DEV int swz(int r, int ch) { return r * D + ((ch ^ (r & 7)) << 3); }

// Starts the copy of the keys and values of positions [first, first + 64); those
// behind last were never written and become zeros: 0 times garbage is not 0.
template <int D> DEV void fetch_kv(u16 *sk, u16 *sv, const Cache &c, int first, int last) {
  constexpr int CH = D / 8;
  for (int i = TIDX; i < KEYS * CH; i += 128) {
    int r = i / CH, ch = i % CH, p = first + r;
    bool in = p <= last && ch * 8 < c.row;
    const u16 *at = c.k;
    if (in) at += c.table[p / c.blockTokens] * c.blockStride + (p % c.blockTokens) * c.row + ch * 8;
    cp_async16(sk + swz<D>(r, ch), at, in);
    cp_async16(sv + swz<D>(r, ch), in ? at + c.values : at, in);
  }
}

// Row r of the queries to shared memory, two elements per thread and step.
template <int D> DEV void load_query(u16 *sq, const u16 *q, int r, int headDim, int lane) {
  for (int c = lane * 2; c < D; c += 64) {
    u32 v = q && c < headDim ? *(const u32 *)(q + c) : 0;
    *(u32 *)(sq + swz<D>(r, c >> 3) + (c & 7)) = v;
  }
}

// s[j] = 16 queries times keys [8j, 8j + 8) for NJ groups from key0 on.
template <int D, int NJ> DEV void scores(float s[NJ][4], const u16 *sq, const u16 *sk, int row0, int key0) {
  int lane = opaque(TIDX & 31);
  UNROLL for (int j = 0; j < NJ; j++) UNROLL for (int e = 0; e < 4; e++) s[j][e] = 0;
  UNROLL for (int d = 0; d < D / 16; d++) {
    u32 a[4];
    ldmatrix4(a, sq + swz<D>(row0 + (lane & 15), d * 2 + (lane >> 4)));
    UNROLL for (int j = 0; j < NJ; j += 2) {
      u32 b[4];
      ldmatrix4(b, sk + swz<D>(key0 + j * 8 + (lane & 7) + (lane >> 4) * 8, d * 2 + (lane >> 3 & 1)));
      mma16816(s[j], a, &b[0]);
      mma16816(s[j + 1], a, &b[2]);
    }
  }
}

// A part's running state of the two rows (g and g + 8) that a lane holds.
struct Rows {
  float top[2], sum[2]; // sum: of this lane's columns
};

// 2^(c(old - top)). The difference comes first, so that it is exactly 1 where the
// maximum did not change: what a row does not see must not touch its bits.
DEV float factor(float old, float top, float c) { return top == NINF ? 1.0f : ex2((old - top) * c); }

// Masks the scores of positions [first, first + 64) to those that row h sees,
// (hi[h] - window, hi[h]], and turns them into weights relative to the new maximum.
// alpha[h] is what the old values must be multiplied by.
DEV void weigh(float s[8][4], Rows &r, float alpha[2], const int hi[2], int window, int first, float c) {
  int t = (TIDX & 3) * 2;
  UNROLL for (int h = 0; h < 2; h++) {
    float top = r.top[h];
    UNROLL for (int j = 0; j < 8; j++) UNROLL for (int e = 0; e < 2; e++) {
      int p = first + j * 8 + t + e;
      float &v = s[j][h * 2 + e];
      if (p > hi[h] || p <= hi[h] - window) v = NINF;
      top = max_(top, v);
    }
    top = max_(top, shfl_xor(top, 1));
    top = max_(top, shfl_xor(top, 2));
    float base = top == NINF ? 0.0f : top * c, sum = 0;
    alpha[h] = factor(r.top[h], top, c);
    UNROLL for (int j = 0; j < 8; j++) UNROLL for (int e = 0; e < 2; e++) {
      float &v = s[j][h * 2 + e];
      v = ex2(fma(v, c, -base));
      sum += v;
    }
    r.top[h] = top;
    r.sum[h] = fma(r.sum[h], alpha[h], sum);
  }
}

// o = o*alpha + weights · values of NO groups of 8 dimensions from dim0 on.
template <int D, int NO> DEV void add_values(float o[NO][4], const float s[8][4], const float alpha[2], const u16 *sv, int dim0) {
  int lane = opaque(TIDX & 31);
  UNROLL for (int j = 0; j < NO; j++) UNROLL for (int e = 0; e < 4; e++) o[j][e] *= alpha[e >> 1];
  UNROLL for (int k = 0; k < 4; k++) {
    u32 a[4] = {pack2(s[2 * k][0], s[2 * k][1]), pack2(s[2 * k][2], s[2 * k][3]), pack2(s[2 * k + 1][0], s[2 * k + 1][1]), pack2(s[2 * k + 1][2], s[2 * k + 1][3])};
    UNROLL for (int j = 0; j < NO; j += 2) {
      u32 b[4];
      ldmatrix4t(b, sv + swz<D>(k * 16 + (lane & 15), dim0 / 8 + j + (lane >> 4)));
      mma16816(o[j], a, &b[0]);
      mma16816(o[j + 1], a, &b[2]);
    }
  }
}

// The factors that merge a part (top, sum) into the total, and the total's new
// maximum and sum: O = O*a + o*b.
DEV void merge_factors(float &total_top, float &total_sum, float top, float sum, float c, float &a, float &b) {
  float m = max_(total_top, top);
  a = factor(total_top, m, c);
  b = factor(top, m, c);
  total_top = m;
  total_sum = fma(total_sum, a, sum * b);
}
DEV float merge_value(float total, float a, float v, float b) { return fma(total, a, v * b); }
// Dimensions d and d + 1 of a head, over the slots of a token, as bf16.
DEV u32 merged_pair(const float *parts, int slot, int slots, int heads, int head, int headDim, int d, float c) {
  float top = NINF, sum = 0, v0 = 0, v1 = 0;
  for (int s = 0; s < slots; s++) {
    const float *p = parts + ((u64)(slot + s) * heads + head) * (headDim + 2);
    f32x2 v = *(const f32x2 *)(p + d), state = *(const f32x2 *)(p + headDim);
    float a, b;
    merge_factors(top, sum, state[0], state[1], c, a, b);
    v0 = merge_value(v0, a, v[0], b);
    v1 = merge_value(v1, a, v[1], b);
  }
  float inv = rcp(sum);
  return pack2(v0 * inv, v1 * inv);
}
DEV float quad_sum(float v) {
  v += shfl_xor(v, 1);
  return v + shfl_xor(v, 2);
}

template <int D> DEV void prefill(u16 *out, const u16 *q, const u16 *kv, const AttnTile *tiles, const i32 *tables, const i32 *pos, int ldo, int ldq, int heads, int kvHeads,
                                  int headDim, int blockTokens, i64 blockStride, float scale, int window, u8 *sm) {
  constexpr int NO = D / 8;
  AttnTile w = tiles[GDIMX - 1 - BIDX]; // the last tiles of a prompt are the longest: they start first
  int group = heads / kvHeads, lane = TIDX & 31, warp = TIDX >> 5, pos0 = pos[w.token], rows = w.tokens * group;
  u16 *sq = (u16 *)sm, *stage = sq + 64 * D;
  Cache c = cache_of(kv, tables + w.table, BIDY, kvHeads, headDim, blockTokens, blockStride);
  for (int r = warp; r < 64; r += 4)
    load_query<D>(sq, r < rows ? q + (u64)(w.token + r / group) * ldq + (BIDY * group + r % group) * headDim : nullptr, r, headDim, lane);
  int hi[2];
  UNROLL for (int h = 0; h < 2; h++) {
    int r = warp * 16 + (lane >> 2) + h * 8;
    hi[h] = r < rows ? pos0 + r / group : -1;
  }
  if (window <= 0) window = ALL;
  int last = pos0 + w.tokens - 1, begin = max_(0, pos0 + 1 - window) / KEYS, end = last / KEYS + 1;
  float o[NO][4], total[NO][4], total_top[2] = {NINF, NINF}, total_sum[2] = {0, 0}, c2 = scale * LOG2E;
  Rows r{{NINF, NINF}, {0, 0}};
  UNROLL for (int j = 0; j < NO; j++) UNROLL for (int e = 0; e < 4; e++) o[j][e] = total[j][e] = 0;
  fetch_kv<D>(stage, stage + KEYS * D, c, begin * KEYS, last);
  cp_commit();
  for (int t = begin; t < end; t++) {
    u16 *now = stage + ((t - begin) & 1) * 2 * KEYS * D, *next = stage + ((t - begin + 1) & 1) * 2 * KEYS * D;
    if (t + 1 < end) fetch_kv<D>(next, next + KEYS * D, c, (t + 1) * KEYS, last);
    cp_commit();
    cp_wait<1>();
    sync();
    float s[8][4], alpha[2];
    scores<D, 8>(s, sq, now, warp * 16, 0);
    weigh(s, r, alpha, hi, window, t * KEYS, c2);
    add_values<D, NO>(o, s, alpha, now + KEYS * D, 0);
    if ((t + 1) % (PART / KEYS) == 0 || t + 1 == end) {
      float a[2], b[2];
      UNROLL for (int h = 0; h < 2; h++) {
        merge_factors(total_top[h], total_sum[h], r.top[h], quad_sum(r.sum[h]), c2, a[h], b[h]);
        r.top[h] = NINF;
        r.sum[h] = 0;
      }
      UNROLL for (int j = 0; j < NO; j++) UNROLL for (int e = 0; e < 4; e++) {
        total[j][e] = merge_value(total[j][e], a[e >> 1], o[j][e], b[e >> 1]);
        o[j][e] = 0;
      }
    }
    sync(); // all are done with the stage that is filled next
  }
  cp_wait<0>();
  UNROLL for (int h = 0; h < 2; h++) {
    int row = warp * 16 + (lane >> 2) + h * 8;
    if (row >= rows) continue;
    float inv = rcp(total_sum[h]);
    u16 *y = out + (u64)(w.token + row / group) * ldo + (BIDY * group + row % group) * headDim;
    UNROLL for (int j = 0; j < NO; j++) {
      int d = j * 8 + (lane & 3) * 2;
      if (d < headDim) *(u32 *)(y + d) = pack2(total[j][h * 2] * inv, total[j][h * 2 + 1] * inv);
    }
  }
}

// One part of one token, for up to 16 heads of a group. Warps share the work by
// keys for the scores and by dimensions for the values; the weights in between
// every warp computes for itself, from scores in shared memory. With counters the
// block that comes last of a token's parts merges them into out.
template <int D> DEV void decode(u16 *out, int ldo, u32 *counters, float *parts, const u16 *q, const u16 *kv, const AttnItem *items, const i32 *count, const i32 *tables, const i32 *pos, int ldq, int heads,
                                 int kvHeads, int headDim, int blockTokens, i64 blockStride, float scale, int window, u8 *sm) {
  constexpr int NO = D / 32;
  if (BIDX >= count[0]) return;
  AttnItem w = items[BIDX];
  int group = heads / kvHeads, lane = TIDX & 31, warp = TIDX >> 5, head0 = BIDY * group + BIDZ * 16, rows = min_(16, group - BIDZ * 16), p = pos[w.token];
  u16 *sq = (u16 *)sm, *stage = sq + 16 * D;
  float *ss = (float *)(stage + 4 * KEYS * D);
  Cache c = cache_of(kv, tables + w.table, BIDY, kvHeads, headDim, blockTokens, blockStride);
  for (int r = warp; r < 16; r += 4) load_query<D>(sq, r < rows ? q + (u64)w.token * ldq + (head0 + r) * headDim : nullptr, r, headDim, lane);
  if (window <= 0) window = ALL;
  int first = max_(w.part * PART, p + 1 - window), last = min_(p, w.part * PART + PART - 1), hi[2];
  UNROLL for (int h = 0; h < 2; h++) hi[h] = (lane >> 2) + h * 8 < rows ? p : -1; // what lies behind the part is no tile of this block
  int begin = first / KEYS, end = last / KEYS + 1;
  float o[NO][4], c2 = scale * LOG2E;
  Rows r{{NINF, NINF}, {0, 0}};
  UNROLL for (int j = 0; j < NO; j++) UNROLL for (int e = 0; e < 4; e++) o[j][e] = 0;
  fetch_kv<D>(stage, stage + KEYS * D, c, begin * KEYS, last);
  cp_commit();
  for (int t = begin; t < end; t++) {
    u16 *now = stage + ((t - begin) & 1) * 2 * KEYS * D, *next = stage + ((t - begin + 1) & 1) * 2 * KEYS * D;
    if (t + 1 < end) fetch_kv<D>(next, next + KEYS * D, c, (t + 1) * KEYS, last);
    cp_commit();
    cp_wait<1>();
    sync();
    float mine[2][4], s[8][4], alpha[2];
    scores<D, 2>(mine, sq, now, 0, warp * 16);
    float *at = ss + (lane >> 2) * SCORE_LD + (lane & 3) * 2;
    UNROLL for (int j = 0; j < 2; j++) UNROLL for (int h = 0; h < 2; h++)
      *(f32x2 *)(at + h * 8 * SCORE_LD + warp * 16 + j * 8) = (f32x2){mine[j][h * 2], mine[j][h * 2 + 1]};
    sync();
    UNROLL for (int j = 0; j < 8; j++) UNROLL for (int h = 0; h < 2; h++) {
      f32x2 v = *(const f32x2 *)(at + h * 8 * SCORE_LD + j * 8);
      s[j][h * 2] = v[0];
      s[j][h * 2 + 1] = v[1];
    }
    weigh(s, r, alpha, hi, window, t * KEYS, c2);
    add_values<D, NO>(o, s, alpha, now + KEYS * D, warp * NO * 8);
    sync(); // all are done with the stage and the scores
  }
  cp_wait<0>();
  UNROLL for (int h = 0; h < 2; h++) {
    int row = (lane >> 2) + h * 8;
    float sum = quad_sum(r.sum[h]);
    if (row >= rows) continue;
    float *y = parts + ((u64)w.slot * heads + head0 + row) * (headDim + 2);
    UNROLL for (int j = 0; j < NO; j++) {
      int d = warp * NO * 8 + j * 8 + (lane & 3) * 2;
      if (d < headDim) *(f32x2 *)(y + d) = (f32x2){o[j][h * 2], o[j][h * 2 + 1]};
    }
    if (warp == 0 && (lane & 3) == 0) *(f32x2 *)(y + headDim) = (f32x2){r.top[h], sum};
  }
  if (!counters) return;
  int part0 = max_(0, p + 1 - window) / PART, slots = p / PART - part0 + 1;
  SMEM u32 done;
  fence();
  sync();
  if (TIDX == 0) {
    u32 *counter = counters + ((u64)w.token * kvHeads + BIDY) * cdiv(group, 16) + BIDZ;
    done = slots == 1 || atomic_add(counter, 1) == (u32)slots - 1;
    if (done && slots > 1) *counter = 0; // for the next launch
  }
  sync();
  if (!done) return;
  fence();
  for (int i = TIDX; i < rows * headDim / 2; i += 128) {
    int row = i / (headDim / 2), d = i % (headDim / 2) * 2;
    *(u32 *)(out + (u64)w.token * ldo + (head0 + row) * headDim + d) = merged_pair(parts, w.slot - w.part + part0, slots, heads, head0 + row, headDim, d, c2);
  }
}

KERNEL(attn_merge, 128, 4)(u16 *out, const float *parts, const AttnMerge *merges, const i32 *count, int ldo, int heads, int headDim, float scale) {
  if (BIDX >= count[0]) return;
  AttnMerge w = merges[BIDX];
  int d = TIDX * 2;
  if (d < headDim) *(u32 *)(out + (u64)w.token * ldo + BIDY * headDim + d) = merged_pair(parts, w.slot, w.slots, heads, BIDY, headDim, d, scale * LOG2E);
}
REGISTER(attn_merge)

#define PREFILL(D) \
  KERNEL(attn_prefill_d##D, 128, 2)(u16 *out, const u16 *q, const u16 *kv, const AttnTile *tiles, const i32 *tables, const i32 *pos, int ldo, int ldq, int heads, int kvHeads, \
                                 int headDim, int blockTokens, i64 blockStride, float scale, int window) { \
    DYN_SMEM(sm); \
    prefill<D>(out, q, kv, tiles, tables, pos, ldo, ldq, heads, kvHeads, headDim, blockTokens, blockStride, scale, window, sm); \
  } \
  REGISTER(attn_prefill_d##D)
#define DECODE_PARAMS \
  const u16 *q, const u16 *kv, const AttnItem *items, const i32 *count, const i32 *tables, const i32 *pos, int ldq, int heads, int kvHeads, int headDim, int blockTokens, \
      i64 blockStride, float scale, int window
#define DECODE(D) \
  KERNEL(attn_decode_d##D, 128, 3)(float *parts, DECODE_PARAMS) { \
    DYN_SMEM(sm); \
    decode<D>(nullptr, 0, nullptr, parts, q, kv, items, count, tables, pos, ldq, heads, kvHeads, headDim, blockTokens, blockStride, scale, window, sm); \
  } \
  REGISTER(attn_decode_d##D) \
  KERNEL(attn_whole_d##D, 128, 3)(u16 *out, int ldo, u32 *counters, float *parts, DECODE_PARAMS) { \
    DYN_SMEM(sm); \
    decode<D>(out, ldo, counters, parts, q, kv, items, count, tables, pos, ldq, heads, kvHeads, headDim, blockTokens, blockStride, scale, window, sm); \
  } \
  REGISTER(attn_whole_d##D)
PREFILL(64)
PREFILL(128)
DECODE(64)
DECODE(128)
