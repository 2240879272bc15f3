// The draw of package sampler, one block per row. Its doc.go defines every
// operation below; sums are of integers and maxima have no order, so threads do
// not show. Nothing is sorted: a filter is a threshold, found by a histogram over
// the distance to the maximum and a radix search in one of its buckets.
#include "log.h"

struct Draw { // the memory of backend.Draw
  u64 seed;
  u32 index;
  float temperature, top_p, min_p;
  i32 top_k, edit_end, mask, allow, target, top;
  u8 logprobs, host, dead;
};
static_assert(sizeof(Draw) == 56, "backend.Draw has changed");
struct Edit {
  i32 token;
  float bias, repeat, minus;
};
struct PickResult {
  i32 token, rank;
  float z, zmax;
  u64 mass;
};
struct PickTop {
  float z;
  i32 token;
};

enum { NO_LOGPROBS, RAW_LOGPROBS, PROCESSED_LOGPROBS };
constexpr int THREADS = 1024, BUCKETS = 2048, MAX_TOP = 1024;
constexpr float MAX_FLOAT = 3.40282346638528859811704183484516925e+38f, INF = __builtin_inff();

// ---- arithmetic: sampler/math.go, every operation rounded on its own ----

constexpr float SHIFT = 12582912.0f;

DEV float exp32(float x) {
  float k = (x * LOG2E + SHIFT) - SHIFT;
  float r = x - k * LN2_HI;
  r -= k * LN2_LO;
  float q = 0.0013814464f * r + 0.008368781f;
  q = q * r + 0.041668393f;
  q = q * r + 0.1666652f;
  q = q * r + 0.49999994f;
  float m = 1.0f + (r + (r * r) * q);
  return as_float(as_u32(m) + ((u32)(i32)k << 23));
}
DEV u64 weight(float x) { return x >= -28.0f ? (u64)(i64)(exp32(x) * 1099511627776.0f) : 0; }
DEV float gumbel(u32 x) {
  float v = (float)x * 0x1p-32f + 0x1p-33f;
  v = min_(v, 1.0f - 0x1p-24f);
  float w = 1.0f - v;
  float e = w >= 0.70710678118654752440f ? -log_sum(-v, 0.0f) : -log32(w);
  return -log32(e);
}
constexpr float GUMBEL_MOST = 22.8752f; // above every variate

// Philox 4x32-10 (Salmon et al., 2011) for the tokens of a group of four.
DEV u32x4 lanes(u32 group, u64 seed, u32 index) {
  u32 c0 = group, c1 = index, c2 = 0, c3 = 0x77656972u, k0 = (u32)seed, k1 = (u32)(seed >> 32);
  UNROLL for (int i = 0; i < 10; i++) {
    u32 h0 = mul_hi(c0, 0xD2511F53u), l0 = c0 * 0xD2511F53u, h1 = mul_hi(c2, 0xCD9E8D57u), l1 = c2 * 0xCD9E8D57u;
    c0 = h1 ^ c1 ^ k0;
    c1 = l1;
    c2 = h0 ^ c3 ^ k1;
    c3 = l0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return (u32x4){c0, c1, c2, c3};
}

DEV u32 order(float z) {
  u32 b = as_u32(z);
  return b << 1 == 0 ? 1u << 31 : b >> 31 ? ~b : b | 1u << 31;
}
DEV float unorder(u32 k) { return as_float(k >> 31 ? k & 0x7fffffffu : ~k); }
// Larger first, ties to the lower id: the greatest key wins.
DEV u64 key_of(float z, u32 id) { return (u64)order(z) << 32 | (u32)~id; }
DEV float key_z(u64 k) { return unorder((u32)(k >> 32)); }
DEV i32 key_id(u64 k) { return (i32)~(u32)k; }

DEV float scaled(float l, float inv) {
  if (!(l >= -MAX_FLOAT)) return -INF;
  return max_(-MAX_FLOAT, min_(MAX_FLOAT, min_(l, MAX_FLOAT) * inv));
}
DEV float edited(float l, const Edit &e) {
  float v = l + e.bias;
  v = v > 0 ? v / e.repeat : v * e.repeat;
  return v - e.minus;
}

// ---- a block's sums and maxima; every thread gets the result ----

SMEM u64 hist[BUCKETS];
SMEM u64 keys[MAX_TOP];
SMEM u64 red[32];
SMEM u64 found[2];
SMEM u32 fill;

struct Sum {
  static constexpr u64 none = 0;
  static DEV_METHOD u64 of(u64 a, u64 b) { return a + b; }
};
struct Max {
  static constexpr u64 none = 0;
  static DEV_METHOD u64 of(u64 a, u64 b) { return a > b ? a : b; }
};
template <class Op> DEV u64 block_reduce(u64 v) {
  for (int m = 16; m; m >>= 1) v = Op::of(v, shfl_xor(v, m));
  sync(); // red may still be read
  if ((TIDX & 31) == 0) red[TIDX >> 5] = v;
  sync();
  v = red[TIDX & 31];
  for (int m = 16; m; m >>= 1) v = Op::of(v, shfl_xor(v, m));
  return v;
}
// The sum of v over the threads before this one; red holds the warps' totals.
DEV u64 block_before(u64 v) {
  int lane = TIDX & 31;
  u64 s = v;
  for (int m = 1; m < 32; m <<= 1) {
    u64 o = (u64)shfl((u32)(s >> 32), lane - m) << 32 | shfl((u32)s, lane - m);
    if (lane >= m) s += o;
  }
  sync();
  if (lane == 31) red[TIDX >> 5] = s;
  sync();
  u64 before = s - v;
  for (int w = 0; w < TIDX >> 5; w++) before += red[w];
  return before;
}

// One row on its way to a token.
struct Row {
  const float *logits;
  float *z, *near;
  int vocab;
};
// Calls f(id, z) for every token; a thread takes four at a time.
template <class F> DEV void each(const Row &r, F f) {
  for (int i = TIDX * 4; i < r.vocab; i += THREADS * 4) {
    f32x4 v = *(const f32x4 *)(r.z + i);
    UNROLL for (int e = 0; e < 4; e++) f(i + e, v[e]); // behind the vocabulary z is -Inf
  }
}

DEV u32 legal_bits(const u32 *mask, int i) { return mask ? mask[i >> 5] >> (i & 31) : ~0u; }

// Writes the scaled row, -Inf where a mask forbids or an edit says so, and
// returns the key of its best token (0: none is legal).
DEV u64 load(const Row &r, float inv, const u32 *mask, const u32 *allow, const Edit *edits, int n) {
  u64 best = 0;
  for (int i = TIDX * 4; i < r.vocab; i += THREADS * 4) {
    f32x4 l = *(const f32x4 *)(r.logits + i);
    u32 bits = legal_bits(mask, i) & legal_bits(allow, i); // four ids never straddle two words
    UNROLL for (int e = 0; e < 4; e++) {
      l[e] = i + e < r.vocab && (bits >> e & 1) ? scaled(l[e], inv) : -INF;
      if (l[e] > -INF) best = Max::of(best, key_of(l[e], i + e));
    }
    *(f32x4 *)(r.z + i) = l;
  }
  if (n > 0) {
    sync();
    for (int i = TIDX; i < n; i += THREADS) {
      Edit e = edits[i];
      if (r.z[e.token] > -INF) r.z[e.token] = scaled(edited(min_(r.logits[e.token], MAX_FLOAT), e), inv);
    }
    sync();
    best = 0;
    each(r, [&](int id, float v) {
      if (v > -INF) best = Max::of(best, key_of(v, id));
    });
  }
  best = block_reduce<Max>(best);
  sync();
  return best;
}

// ---- filters: sampler/filter.go ----

DEV float min_p_floor(float hi, float min_p) {
  u64 need = (u64)(i64)(min_(min_p, 1.0f) * 1099511627776.0f);
  u32 lo = order(-MAX_FLOAT), end = order(hi);
  while (lo < end) {
    u32 mid = lo + (end - lo) / 2;
    if (weight(unorder(mid) - hi) >= need) end = mid;
    else lo = mid + 1;
  }
  return unorder(lo);
}

struct Selection {
  float floor, top, scale;
  bool weighted;
  DEV_METHOD int bucket(float v) const {
    float x = (top - v) * scale;
    return x < BUCKETS - 1 ? (int)x : BUCKETS - 1; // far away, or NaN from 0 * Inf
  }
  DEV_METHOD u64 measure(float v) const { return weighted ? weight(v - top) : 1; }
};

DEV void clear_hist() {
  sync();
  hist[TIDX] = hist[TIDX + THREADS] = 0;
  sync();
}
DEV u64 hist_total() {
  sync();
  return block_reduce<Sum>(hist[TIDX] + hist[TIDX + THREADS]);
}
// The last bucket with a sum before which less than limit lies, and what lies
// before it.
DEV int boundary(u64 above, u64 limit, u64 &before) {
  sync();
  u64 a = hist[TIDX * 2], b = hist[TIDX * 2 + 1], at = above + block_before(a + b);
  u64 mine = 0;
  if (a && at < limit) mine = TIDX * 2 + 1;
  if (b && at + a < limit) mine = TIDX * 2 + 2;
  int bucket = (int)block_reduce<Max>(mine) - 1;
  if (bucket >> 1 == TIDX) found[0] = bucket & 1 ? at + a : at;
  sync();
  before = found[0];
  return bucket;
}
// Fills the histogram with the tokens of s and returns their total.
DEV u64 histogram(const Row &r, const Selection &s) {
  clear_hist();
  each(r, [&](int, float v) {
    if (v >= s.floor && v > -INF) {
      u64 n = s.measure(v);
      if (n) smem_add(&hist[s.bucket(v)], n);
    }
  });
  return hist_total();
}
// The smallest value above which the measure is less than limit, from the
// histogram of the same selection.
DEV float threshold(const Row &r, const Selection &s, u64 limit) {
  u64 above;
  int b = boundary(0, limit, above);
  if (TIDX == 0) fill = 0;
  sync();
  each(r, [&](int, float v) {
    if (v >= s.floor && v > -INF && s.bucket(v) == b) r.near[smem_add(&fill, 1)] = v;
  });
  sync();
  int n = (int)fill;
  u32 prefix = 0;
  UNROLL for (int round = 0; round < 3; round++) { // 11, 11 and 10 bits
    constexpr int SHIFTS[3] = {21, 10, 0};
    const int shift = SHIFTS[round], known = round == 0 ? 32 : SHIFTS[round ? round - 1 : 0];
    clear_hist();
    for (int i = TIDX; i < n; i += THREADS) {
      u32 k = ~order(r.near[i]);
      if (round > 0 && k >> known != prefix) continue;
      u64 m = s.measure(r.near[i]);
      if (m) smem_add(&hist[k >> shift & (round == 2 ? 1023 : 2047)], m);
    }
    u64 before;
    int d = boundary(above, limit, before);
    above = before;
    prefix = prefix << (round == 2 ? 10 : 11) | (u32)d;
  }
  return unorder(~prefix);
}

DEV float filter(const Row &r, const Draw &d, float hi) {
  float floor = -MAX_FLOAT;
  if (d.min_p > 0) floor = min_p_floor(hi, d.min_p);
  if (d.top_k > 0) {
    Selection s{floor, hi, 32.0f * d.temperature, false};
    if (histogram(r, s) > (u64)d.top_k) floor = threshold(r, s, (u64)d.top_k);
  }
  if (d.top_p > 0 && d.top_p < 1) {
    Selection s{max_(floor, hi - 28.01f), hi, (float)(BUCKETS / 28.1), true};
    double want = (double)d.top_p * (double)histogram(r, s);
    u64 limit = (u64)want;
    if ((double)limit < want) limit++;
    floor = threshold(r, s, limit);
  }
  return floor;
}

// The argmax of z + Gumbel over z >= floor. The best token's group goes first:
// then most others cannot win and cost no random number.
DEV i32 draw(const Row &r, float floor, i32 best, u64 seed, u32 index) {
  u64 win = 0;
  float low = floor;
  auto group = [&](int i) {
    f32x4 v = *(const f32x4 *)(r.z + i);
    if (!(v[0] >= low || v[1] >= low || v[2] >= low || v[3] >= low)) return;
    u32x4 x = lanes(i / 4, seed, index);
    UNROLL for (int e = 0; e < 4; e++) {
      if (!(v[e] >= low)) continue;
      float score = v[e] + gumbel(x[e]);
      u64 k = key_of(score, i + e);
      if (k > win) {
        win = k;
        float size = score < 0 ? -score : score;
        low = max_(floor, score - GUMBEL_MOST - (size + GUMBEL_MOST) * 0x1p-20f);
      }
    }
  };
  group(best & ~3);
  for (int i = TIDX * 4; i < r.vocab; i += THREADS * 4) group(i);
  return key_id(block_reduce<Max>(win));
}

// ---- what the row reports: sampler/logprobs.go ----

// The best n tokens of z >= floor, best first.
DEV void report_top(const Row &r, float floor, float hi, int n, PickTop *out) {
  Selection s{floor, hi, 64.0f, false};
  u64 kept = histogram(r, s);
  bool all = kept <= (u64)n;
  float edge = all ? -INF : threshold(r, s, n); // fewer than n are greater
  if (TIDX == 0) fill = 0;
  clear_hist();
  each(r, [&](int id, float v) {
    if (!(v >= floor && v > -INF)) return;
    if (v > edge) keys[smem_add(&fill, 1)] = key_of(v, id);
    else if (v == edge) smem_add(&hist[id >> 10], 1ull);
  });
  sync();
  int m = (int)fill;
  if (!all) { // ties at the edge: the lowest ids, of whole runs of 1024 and then within one
    u64 before;
    int run = boundary(0, (u64)(n - m), before);
    sync();
    each(r, [&](int id, float v) {
      if (v == edge && v >= floor && id >> 10 < run) keys[smem_add(&fill, 1)] = key_of(v, id);
    });
    int id = run * 1024 + TIDX;
    bool tie = id < r.vocab && r.z[id] == edge;
    u64 at = before + block_before(tie);
    if (tie && at < (u64)(n - m)) keys[smem_add(&fill, 1)] = key_of(edge, id);
    sync();
    m = (int)fill;
  }
  for (int i = TIDX; i < n; i += THREADS) {
    if (i >= m) {
      out[i] = PickTop{-INF, -1};
      continue;
    }
    u64 k = keys[i];
    int place = 0;
    for (int o = 0; o < m; o++) place += keys[o] > k;
    out[place] = PickTop{r.z[key_id(k)], key_id(k)};
  }
}

DEV void report(const Row &r, const Draw &d, float floor, float hi, i32 token, PickResult *out, PickTop *tops) {
  float own = token >= 0 && r.z[token] >= floor ? r.z[token] : -INF, weighty = max_(floor, hi - 28.01f);
  u64 mass = 0, rank = 0;
  each(r, [&](int, float v) {
    if (v >= weighty) mass += weight(v - hi);
    rank += v >= floor && v > own;
  });
  mass = block_reduce<Sum>(mass);
  rank = block_reduce<Sum>(rank);
  if (TIDX == 0) {
    out->rank = 1 + (i32)rank;
    out->z = own;
    out->zmax = hi;
    out->mass = mass;
  }
  if (d.top > 0) report_top(r, floor, hi, min_(d.top, MAX_TOP), tops);
}

DEV void pick_row(const Row &r, const Draw &d, const u32 *mask, const u32 *allow, const Edit *edits, int edit_count, i32 *drawn, PickResult *out, PickTop *tops) {
  bool greedy = !(d.temperature > 0);
  i32 token = d.target;
  if (token < 0 || d.logprobs == PROCESSED_LOGPROBS) {
    float inv = greedy ? 1.0f : min_(1.0f / d.temperature, MAX_FLOAT), floor = -MAX_FLOAT;
    u64 best = load(r, inv, mask, allow, edits, edit_count);
    float hi = best ? key_z(best) : -INF;
    if (best && !greedy) floor = filter(r, d, hi);
    if (token < 0) token = !best ? -1 : greedy ? key_id(best) : draw(r, floor, key_id(best), d.seed, d.index);
    if (d.logprobs == PROCESSED_LOGPROBS) report(r, d, floor, hi, token, out, tops);
  }
  if (TIDX == 0) out->token = *drawn = token;
  if (d.logprobs == RAW_LOGPROBS) {
    sync(); // z is written anew
    u64 best = load(r, 1.0f, mask, nullptr, nullptr, 0);
    report(r, d, -MAX_FLOAT, best ? key_z(best) : -INF, token, out, tops);
  }
  if (d.logprobs == NO_LOGPROBS) {
    for (int i = TIDX; i < d.top; i += THREADS) tops[i] = PickTop{-INF, -1};
  }
}

KERNEL(pick, 1024, 1)(i32 *drawn, PickResult *results, PickTop *tops, const float *logits, float *z, float *near, const Draw *rows, const Edit *edits, const u32 *masks, int row0,
                   int vocab, int ldl) {
  int row = row0 + BIDX, words = cdiv(vocab, 32);
  Draw d = rows[row];
  if (d.dead) {
    if (TIDX == 0) results[row].token = drawn[row] = -1;
    return;
  }
  u64 before = 0;
  if (d.top > 0) {
    for (int i = TIDX; i < row; i += THREADS) before += rows[i].top;
    before = block_reduce<Sum>(before);
  }
  int edit0 = row ? rows[row - 1].edit_end : 0;
  Row r{logits + (u64)BIDX * ldl, z + (u64)BIDX * ldl, near + (u64)BIDX * ldl, vocab};
  pick_row(r, d, d.mask >= 0 ? masks + (u64)d.mask * words : nullptr, d.allow >= 0 ? masks + (u64)d.allow * words : nullptr, edits + edit0, d.edit_end - edit0, drawn + row,
           results + row, tops + before);
}
REGISTER(pick)
