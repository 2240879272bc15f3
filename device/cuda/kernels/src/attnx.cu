// Attention of what attn.cu does not have: heads of more than 128 dimensions or whose keys and
// values differ in size, sinks, bounded scores and chunks. The order of work is that of attn.cu: tiles of
// absolute positions (here KEYS of them, fewer where heads are large, so that two stages fit the
// 99 KiB of shared memory that every GPU has), parts of 512 positions, merged in order. So
// prefill and decoding give the same bits here, too. They are other bits than those of attn.cu.
#include "attn.cu"

// A size of heads: up to DK dimensions of queries and keys and DV of values; rows of a tile of queries;
// warps that share a row's values, each of up to 128 dimensions.
template <int DK_, int DV_, int KEYS_, int ROWS_> struct Size {
  static constexpr int DK = DK_, DV = DV_, KEYS = KEYS_, ROWS = ROWS_, SHARE = DV > 128 ? DV / 128 : 1, THREADS = ROWS / 16 * SHARE * 32;
  static constexpr int STAGE = KEYS * (DK + DV), SCORES = KEYS + 4; // elements of a stage; of a row of scores
};
using X64 = Size<64, 64, 64, 64>;
using X128 = Size<128, 128, 32, 64>;
using X192 = Size<192, 128, 32, 64>;
using X256 = Size<256, 256, 32, 64>;
using X576 = Size<576, 512, 16, 16>;

// What a layer's attention is, beside its rows: model.Attention and the sizes of its heads.
struct Layer {
  int heads, kvHeads, keyDim, valueDim, window, chunk;
  float scale, cap;
  const float *sinks; // [heads], or null

  // The first position that position p sees.
  DEV_METHOD int low(int p) const {
    int lo = window > 0 ? max_(0, p + 1 - window) : 0;
    return chunk > 0 ? max_(lo, p / chunk * chunk) : lo;
  }
  // Scores times this are exponents of 2. Bounded scores are tanh, and what bounds them is in here.
  DEV_METHOD float factor2() const { return (cap > 0 ? cap : scale) * LOG2E; }
  // 1 over the sum of weights relative to 2^top. A sink adds its weight once, after all parts.
  DEV_METHOD float inverse(float sum, float top, int head) const {
    return rcp(sinks ? sum + ex2(sinks[head] * LOG2E - top) : sum);
  }
};

// The cache as one KV head sees it, keys and values by themselves.
struct Caches {
  const u16 *k, *v; // the head's first rows of block 0
  i64 blockStride;
  const i32 *table;
  int blockTokens, krow, vrow;
};
DEV Caches caches_of(const u16 *kv, const i32 *table, int head, const Layer &l, int blockTokens, i64 blockStride) {
  int krow = cdiv(l.keyDim, 8) * 8, vrow = cdiv(l.valueDim, 8) * 8;
  i64 values = (i64)l.kvHeads * blockTokens * krow;
  return Caches{kv + (i64)head * blockTokens * krow, kv + values + (i64)head * blockTokens * vrow, blockStride, table, blockTokens, krow, vrow};
}

// Starts the copy of D dimensions of positions [first, first + KEYS) to shared memory, zeros behind last.
template <int D, int KEYS, int THREADS> DEV void fetch(u16 *to, const u16 *from, int row, const Caches &c, int first, int last) {
  constexpr int CH = D / 8;
  for (int i = TIDX; i < KEYS * CH; i += THREADS) {
    int r = i / CH, ch = i % CH, p = first + r;
    bool in = p <= last && ch * 8 < row;
    const u16 *at = from;
    if (in) at += c.table[p / c.blockTokens] * c.blockStride + (p % c.blockTokens) * row + ch * 8;
    cp_async16(to + swz<D>(r, ch), at, in);
  }
}
template <class S, int THREADS> DEV void fetch_both(u16 *stage, const Caches &c, int first, int last) {
  fetch<S::DK, S::KEYS, THREADS>(stage, c.k, c.krow, c, first, last);
  fetch<S::DV, S::KEYS, THREADS>(stage + S::KEYS * S::DK, c.v, c.vrow, c, first, last);
}

// weigh of attn.cu for NJ groups of 8 positions from first on, of which row h sees [lo[h], hi[h]].
template <int NJ> DEV void weigh_from(float s[NJ][4], Rows &r, float alpha[2], const int lo[2], const int hi[2], int first, const Layer &l, float c) {
  int t = (TIDX & 3) * 2;
  if (l.cap > 0) { // tanh(scale*score/cap); an error of 1e-7 is one of cap times that in the score
    float x = l.scale / l.cap * (2 * LOG2E);
    UNROLL for (int j = 0; j < NJ; j++) UNROLL for (int e = 0; e < 4; e++) s[j][e] = fma(-2.0f, rcp(1.0f + ex2(s[j][e] * x)), 1.0f);
  }
  UNROLL for (int h = 0; h < 2; h++) {
    float top = r.top[h];
    UNROLL for (int j = 0; j < NJ; j++) UNROLL for (int e = 0; e < 2; e++) {
      int p = first + j * 8 + t + e;
      float &v = s[j][h * 2 + e];
      if (p > hi[h] || p < lo[h]) v = NINF;
      top = max_(top, v);
    }
    top = max_(top, shfl_xor(top, 1));
    top = max_(top, shfl_xor(top, 2));
    float base = top == NINF ? 0.0f : top * c, sum = 0;
    alpha[h] = factor(r.top[h], top, c);
    UNROLL for (int j = 0; j < NJ; j++) UNROLL for (int e = 0; e < 2; e++) {
      float &v = s[j][h * 2 + e];
      v = ex2(fma(v, c, -base));
      sum += v;
    }
    r.top[h] = top;
    r.sum[h] = fma(r.sum[h], alpha[h], sum);
  }
}

// add_values of attn.cu for NK groups of 16 positions; rows of values have D elements.
template <int D, int NO, int NK> DEV void add_some_values(float o[NO][4], const float s[NK * 2][4], const float alpha[2], const u16 *sv, int dim0) {
  int lane = opaque(TIDX & 31);
  UNROLL for (int j = 0; j < NO; j++) UNROLL for (int e = 0; e < 4; e++) o[j][e] *= alpha[e >> 1];
  UNROLL for (int k = 0; k < NK; k++) {
    u32 a[4] = {pack2(s[2 * k][0], s[2 * k][1]), pack2(s[2 * k][2], s[2 * k][3]), pack2(s[2 * k + 1][0], s[2 * k + 1][1]), pack2(s[2 * k + 1][2], s[2 * k + 1][3])};
    UNROLL for (int j = 0; j < NO; j += 2) {
      u32 b[4];
      ldmatrix4t(b, sv + swz<D>(k * 16 + (lane & 15), dim0 / 8 + j + (lane >> 4)));
      mma16816(o[j], a, &b[0]);
      mma16816(o[j + 1], a, &b[2]);
    }
  }
}

// A tile has up to ROWS rows: tokens by heads of a group, or ROWS of one token's heads where a group has more.
// Warps that share a row compute all of its scores, and each the values of its own dimensions.
template <class S> DEV void prefill_x(u16 *out, const u16 *q, const u16 *kv, const AttnTile *tiles, const i32 *tables, const i32 *pos, int ldo, int ldq, const Layer &l, int blockTokens,
                                      i64 blockStride, u8 *sm) {
  constexpr int NO = S::DV / S::SHARE / 8, NJ = S::KEYS / 8, WARPS = S::THREADS / 32;
  AttnTile w = tiles[GDIMX - 1 - BIDX];
  int group = l.heads / l.kvHeads, lane = TIDX & 31, warp = TIDX >> 5, first = BIDZ * S::ROWS, here = min_(S::ROWS, group - first), head0 = BIDY * group + first;
  int pos0 = pos[w.token], rows = w.tokens * here, row0 = warp / S::SHARE * 16, dim0 = warp % S::SHARE * NO * 8;
  u16 *sq = (u16 *)sm, *stage = sq + S::ROWS * S::DK;
  Caches c = caches_of(kv, tables + w.table, BIDY, l, blockTokens, blockStride);
  for (int r = warp; r < S::ROWS; r += WARPS)
    load_query<S::DK>(sq, r < rows ? q + (u64)(w.token + r / here) * ldq + (head0 + r % here) * l.keyDim : nullptr, r, l.keyDim, lane);
  int lo[2], hi[2];
  UNROLL for (int h = 0; h < 2; h++) {
    int r = row0 + (lane >> 2) + h * 8, p = pos0 + r / here;
    hi[h] = r < rows ? p : -1;
    lo[h] = l.low(p);
  }
  int last = pos0 + w.tokens - 1, begin = l.low(pos0) / S::KEYS, end = last / S::KEYS + 1;
  float o[NO][4], total[NO][4], total_top[2] = {NINF, NINF}, total_sum[2] = {0, 0}, c2 = l.factor2();
  Rows r{{NINF, NINF}, {0, 0}};
  UNROLL for (int j = 0; j < NO; j++) UNROLL for (int e = 0; e < 4; e++) o[j][e] = total[j][e] = 0;
  fetch_both<S, S::THREADS>(stage, c, begin * S::KEYS, last);
  cp_commit();
  for (int t = begin; t < end; t++) {
    u16 *now = stage + ((t - begin) & 1) * S::STAGE, *next = stage + ((t - begin + 1) & 1) * S::STAGE;
    if (t + 1 < end) fetch_both<S, S::THREADS>(next, c, (t + 1) * S::KEYS, last);
    cp_commit();
    cp_wait<1>();
    sync();
    float s[NJ][4], alpha[2];
    scores<S::DK, NJ>(s, sq, now, row0, 0);
    weigh_from<NJ>(s, r, alpha, lo, hi, t * S::KEYS, l, c2);
    add_some_values<S::DV, NO, S::KEYS / 16>(o, s, alpha, now + S::KEYS * S::DK, dim0);
    if ((t + 1) % (PART / S::KEYS) == 0 || t + 1 == end) {
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
    int row = row0 + (lane >> 2) + h * 8;
    if (row >= rows) continue;
    int head = head0 + row % here;
    float inv = l.inverse(total_sum[h], total_top[h] * c2, head);
    u16 *y = out + (u64)(w.token + row / here) * ldo + head * l.valueDim;
    UNROLL for (int j = 0; j < NO; j++) {
      int d = dim0 + j * 8 + (lane & 3) * 2;
      if (d < l.valueDim) *(u32 *)(y + d) = pack2(total[j][h * 2] * inv, total[j][h * 2 + 1] * inv);
    }
  }
}

// Dimensions d and d + 1 of a head, over the slots of a token, as bf16.
DEV u32 merged_pair_x(const float *parts, int slot, int slots, const Layer &l, int head, int d, float c) {
  float top = NINF, sum = 0, v0 = 0, v1 = 0;
  for (int s = 0; s < slots; s++) {
    const float *p = parts + ((u64)(slot + s) * l.heads + head) * (l.valueDim + 2);
    f32x2 v = *(const f32x2 *)(p + d), state = *(const f32x2 *)(p + l.valueDim);
    float a, b;
    merge_factors(top, sum, state[0], state[1], c, a, b);
    v0 = merge_value(v0, a, v[0], b);
    v1 = merge_value(v1, a, v[1], b);
  }
  float inv = l.inverse(sum, top * c, head);
  return pack2(v0 * inv, v1 * inv);
}

// One part of one token, for up to 16 heads of a group, by four warps, as in attn.cu. The host lists parts by
// the window alone: those before a token's chunk are left out here.
template <class S> DEV void decode_x(u16 *out, int ldo, u32 *counters, float *parts, const u16 *q, const u16 *kv, const AttnItem *items, const i32 *count, const i32 *tables, const i32 *pos,
                                     int ldq, const Layer &l, int blockTokens, i64 blockStride, u8 *sm) {
  constexpr int NO = S::DV / 32, NJ = S::KEYS / 8, LD = S::SCORES;
  if (BIDX >= count[0]) return;
  AttnItem w = items[BIDX];
  int group = l.heads / l.kvHeads, lane = TIDX & 31, warp = TIDX >> 5, head0 = BIDY * group + BIDZ * 16, rows = min_(16, group - BIDZ * 16), p = pos[w.token];
  int low = l.low(p), part0 = low / PART;
  if (w.part < part0) return;
  u16 *sq = (u16 *)sm, *stage = sq + 16 * S::DK;
  float *ss = (float *)(stage + 2 * S::STAGE);
  Caches c = caches_of(kv, tables + w.table, BIDY, l, blockTokens, blockStride);
  for (int r = warp; r < 16; r += 4) load_query<S::DK>(sq, r < rows ? q + (u64)w.token * ldq + (head0 + r) * l.keyDim : nullptr, r, l.keyDim, lane);
  int first = max_(w.part * PART, low), last = min_(p, w.part * PART + PART - 1), lo[2], hi[2];
  UNROLL for (int h = 0; h < 2; h++) lo[h] = low, hi[h] = (lane >> 2) + h * 8 < rows ? p : -1;
  int begin = first / S::KEYS, end = last / S::KEYS + 1;
  float o[NO][4], c2 = l.factor2();
  Rows r{{NINF, NINF}, {0, 0}};
  UNROLL for (int j = 0; j < NO; j++) UNROLL for (int e = 0; e < 4; e++) o[j][e] = 0;
  fetch_both<S, 128>(stage, c, begin * S::KEYS, last);
  cp_commit();
  for (int t = begin; t < end; t++) {
    u16 *now = stage + ((t - begin) & 1) * S::STAGE, *next = stage + ((t - begin + 1) & 1) * S::STAGE;
    if (t + 1 < end) fetch_both<S, 128>(next, c, (t + 1) * S::KEYS, last);
    cp_commit();
    cp_wait<1>();
    sync();
    float *at = ss + (lane >> 2) * LD + (lane & 3) * 2;
    if (warp * 16 < S::KEYS) {
      float mine[2][4];
      scores<S::DK, 2>(mine, sq, now, 0, warp * 16);
      UNROLL for (int j = 0; j < 2; j++) UNROLL for (int h = 0; h < 2; h++)
        *(f32x2 *)(at + h * 8 * LD + warp * 16 + j * 8) = (f32x2){mine[j][h * 2], mine[j][h * 2 + 1]};
    }
    sync();
    float s[NJ][4], alpha[2];
    UNROLL for (int j = 0; j < NJ; j++) UNROLL for (int h = 0; h < 2; h++) {
      f32x2 v = *(const f32x2 *)(at + h * 8 * LD + j * 8);
      s[j][h * 2] = v[0];
      s[j][h * 2 + 1] = v[1];
    }
    weigh_from<NJ>(s, r, alpha, lo, hi, t * S::KEYS, l, c2);
    add_some_values<S::DV, NO, S::KEYS / 16>(o, s, alpha, now + S::KEYS * S::DK, warp * NO * 8);
    sync(); // all are done with the stage and the scores
  }
  cp_wait<0>();
  UNROLL for (int h = 0; h < 2; h++) {
    int row = (lane >> 2) + h * 8;
    float sum = quad_sum(r.sum[h]);
    if (row >= rows) continue;
    float *y = parts + ((u64)w.slot * l.heads + head0 + row) * (l.valueDim + 2);
    UNROLL for (int j = 0; j < NO; j++) {
      int d = warp * NO * 8 + j * 8 + (lane & 3) * 2;
      if (d < l.valueDim) *(f32x2 *)(y + d) = (f32x2){o[j][h * 2], o[j][h * 2 + 1]};
    }
    if (warp == 0 && (lane & 3) == 0) *(f32x2 *)(y + l.valueDim) = (f32x2){r.top[h], sum};
  }
  if (!counters) return;
  int slots = p / PART - part0 + 1;
  SMEM u32 done;
  fence();
  sync();
  if (TIDX == 0) {
    u32 *counter = counters + ((u64)w.token * l.kvHeads + BIDY) * cdiv(group, 16) + BIDZ;
    done = slots == 1 || atomic_add(counter, 1) == (u32)slots - 1;
    if (done && slots > 1) *counter = 0; // for the next launch
  }
  sync();
  if (!done) return;
  fence();
  for (int i = TIDX; i < rows * l.valueDim / 2; i += 128) {
    int row = i / (l.valueDim / 2), d = i % (l.valueDim / 2) * 2;
    *(u32 *)(out + (u64)w.token * ldo + (head0 + row) * l.valueDim + d) = merged_pair_x(parts, w.slot - w.part + part0, slots, l, head0 + row, d, c2);
  }
}

#define LAYER_PARAMS int heads, int kvHeads, int keyDim, int valueDim, int window, int chunk, float scale, float cap, const float *sinks
#define LAYER Layer{heads, kvHeads, keyDim, valueDim, window, chunk, scale, cap, sinks}

// The slots of a token begin with the first part of its window. Those before its chunk hold nothing.
KERNEL(attn_merge_x, 256, 4)(u16 *out, const float *parts, const AttnMerge *merges, const i32 *count, const i32 *pos, int ldo, LAYER_PARAMS) {
  if (BIDX >= count[0]) return;
  AttnMerge w = merges[BIDX];
  Layer l = LAYER;
  int d = TIDX * 2, p = pos[w.token], slots = p / PART - l.low(p) / PART + 1;
  if (d < valueDim) *(u32 *)(out + (u64)w.token * ldo + BIDY * valueDim + d) = merged_pair_x(parts, w.slot + w.slots - slots, slots, l, BIDY, d, l.factor2());
}
REGISTER(attn_merge_x)

#define PREFILL_X(D, BLOCKS) \
  KERNEL(attn_prefill_x##D, X##D::THREADS, BLOCKS)(u16 *out, const u16 *q, const u16 *kv, const AttnTile *tiles, const i32 *tables, const i32 *pos, int ldo, int ldq, int blockTokens, \
                                                   i64 blockStride, LAYER_PARAMS) { \
    DYN_SMEM(sm); \
    prefill_x<X##D>(out, q, kv, tiles, tables, pos, ldo, ldq, LAYER, blockTokens, blockStride, sm); \
  } \
  REGISTER(attn_prefill_x##D)
#define DECODE_X_PARAMS \
  const u16 *q, const u16 *kv, const AttnItem *items, const i32 *count, const i32 *tables, const i32 *pos, int ldq, int blockTokens, i64 blockStride, LAYER_PARAMS
#define DECODE_X(D, BLOCKS) \
  KERNEL(attn_decode_x##D, 128, BLOCKS)(float *parts, DECODE_X_PARAMS) { \
    DYN_SMEM(sm); \
    decode_x<X##D>(nullptr, 0, nullptr, parts, q, kv, items, count, tables, pos, ldq, LAYER, blockTokens, blockStride, sm); \
  } \
  REGISTER(attn_decode_x##D) \
  KERNEL(attn_whole_x##D, 128, BLOCKS)(u16 *out, int ldo, u32 *counters, float *parts, DECODE_X_PARAMS) { \
    DYN_SMEM(sm); \
    decode_x<X##D>(out, ldo, counters, parts, q, kv, items, count, tables, pos, ldq, LAYER, blockTokens, blockStride, sm); \
  } \
  REGISTER(attn_whole_x##D)
PREFILL_X(64, 2)
PREFILL_X(128, 2)
PREFILL_X(192, 2)
PREFILL_X(256, 1)
PREFILL_X(576, 2)
DECODE_X(64, 3)
DECODE_X(128, 3)
DECODE_X(192, 3)
DECODE_X(256, 2)
DECODE_X(576, 2)
