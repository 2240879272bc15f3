// Attention of src/attnx.cu and the store of src/ropex.cu: against double precision, and prefill against decode bit for bit.
#include "check.h"
#include "../src/attnx.cu"
#include "../src/ropex.cu"
using namespace check;

struct Case {
  int heads, kvHeads, keyDim, valueDim, bt, window, chunk;
  float cap;
  bool sunk;
  std::vector<std::pair<int, int>> runs; // positions [first, end) that are queries

  int low(int p) const {
    int lo = window ? std::max(0, p + 1 - window) : 0;
    return chunk ? std::max(lo, p / chunk * chunk) : lo;
  }
};
static int size_of(const Case &c) {
  for (auto s : {std::pair<int, int>{64, 64}, {128, 128}, {192, 128}, {256, 256}, {576, 512}})
    if (c.keyDim <= s.first && c.valueDim <= s.second) return s.first;
  return 0;
}

struct Work {
  std::vector<AttnTile> tiles;
  std::vector<AttnItem> items;
  std::vector<AttnMerge> merges;
};

static void attention(const Case &c) {
  int group = c.heads / c.kvHeads, krow = up(c.keyDim, 8) * 8, vrow = up(c.valueDim, 8) * 8, T = 0, blocks = 1;
  int width = c.heads * c.keyDim, lq = ld(width) + 64, lo = ld(c.heads * c.valueDim), size = size_of(c), rows = size == 576 ? 16 : 64;
  std::string x = "x" + std::to_string(size), what = std::to_string(c.heads) + "/" + std::to_string(c.kvHeads) + " heads of " + std::to_string(c.keyDim) + "/" + std::to_string(c.valueDim) + ", window " +
                  std::to_string(c.window) + ", chunk " + std::to_string(c.chunk) + ", cap " + std::to_string(c.cap) + ", to position " + std::to_string(c.runs.back().second);
  for (auto &r : c.runs) T += r.second - r.first, blocks += up(r.second, c.bt);
  i64 keys = (i64)c.kvHeads * c.bt * krow, one = keys + (i64)c.kvHeads * c.bt * vrow, stride = one + 256;
  Memory<u16> q((size_t)T * lq), kv(stride * blocks), out((size_t)T * lo), out2((size_t)T * lo), out3((size_t)T * lo);
  for (size_t i = 0; i < q.n; i++) q[i] = rounded(frand() * (c.cap ? 4 : 2));
  Memory<i32> tables(blocks), pos(T), count(1), none(1);
  Memory<float> sinks(c.heads);
  for (int h = 0; h < c.heads; h++) sinks[h] = h % 3 == 2 ? 90 : frand() * 2; // a great one leaves nothing of the values
  std::vector<int> ids(blocks - 1);
  for (int i = 0; i < blocks - 1; i++) ids[i] = i + 1;
  std::shuffle(ids.begin(), ids.end(), rng);
  Work w;
  int t = 0, table = 0, slot = 0;
  for (auto &r : c.runs) { // kernels/plan.go
    int n = r.second - r.first, step = std::max(1, rows / group);
    for (int i = 0; i < n; i++) pos[t + i] = r.first + i;
    for (int i = 0; i < n; i += step) w.tiles.push_back({t + i, std::min(step, n - i), table, 0});
    for (int i = 0; i < n; i++) {
      int p = r.first + i, low = c.window ? std::max(0, p + 1 - c.window) : 0; // chunks are not listed
      w.merges.push_back({t + i, slot, p / 512 - low / 512 + 1, 0});
      for (int k = low / 512; k <= p / 512; k++) w.items.push_back({t + i, table, k, slot++});
    }
    for (int p = 0; p < r.second; p++) { // written positions; the rest of a block stays NaN
      int b = tables[table + p / c.bt] = ids[table + p / c.bt];
      for (int h = 0; h < c.kvHeads; h++) {
        for (int d = 0; d < krow; d++) kv[b * stride + ((size_t)h * c.bt + p % c.bt) * krow + d] = d < c.keyDim ? rounded(frand()) : 0;
        for (int d = 0; d < vrow; d++) kv[b * stride + keys + ((size_t)h * c.bt + p % c.bt) * vrow + d] = d < c.valueDim ? rounded(frand()) : 0;
      }
    }
    t += n;
    table += up(r.second, c.bt);
  }
  tables[blocks - 1] = 0;
  Memory<AttnTile> tiles(w.tiles.size());
  Memory<AttnItem> items(w.items.size() + 2); // launched for more than there are
  Memory<AttnMerge> merges(w.merges.size() + 2);
  memcpy(tiles.p, w.tiles.data(), w.tiles.size() * 16);
  memcpy(items.p, w.items.data(), w.items.size() * 16);
  memcpy(merges.p, w.merges.data(), w.merges.size() * 16);
  Memory<float> parts((size_t)slot * c.heads * (c.valueDim + 2)), parts2(parts.n);
  count[0] = w.items.size(), none[0] = w.merges.size();
  q.keep(), kv.keep(), tables.keep(), pos.keep(), tiles.keep(), items.keep(), merges.keep(), count.keep(), none.keep(), sinks.keep();
  float scale = 1 / sqrtf(c.keyDim);
  std::vector<Slot> layer = {c.heads, c.kvHeads, c.keyDim, c.valueDim, c.window, c.chunk, scale, c.cap, c.sunk ? sinks.p : (float *)nullptr};
  auto with = [&](std::vector<Slot> p) {
    p.insert(p.end(), layer.begin(), layer.end());
    return p;
  };

  test("attn_prefill_" + x + " " + what);
  launch(("attn_prefill_" + x).c_str(), {(int)w.tiles.size(), c.kvHeads, up(group, rows)}, with({out, q.p + 2, kv, tiles, tables, pos, lo, lq, c.bt, stride}));
  Error e;
  int run = 0, at = 0;
  table = 0;
  for (int i = 0; i < T; i++) {
    if (i - at == c.runs[run].second - c.runs[run].first) at = i, table += up(c.runs[run].second, c.bt), run++;
    int p = pos[i], low = c.low(p);
    for (int h = 0; h < c.heads; h++) {
      std::vector<double> s(p + 1 - low);
      double top = c.sunk ? sinks[h] : -1e300, sum = 0;
      auto block = [&](int x) { return (i64)tables[table + x / c.bt] * stride; };
      for (int x = low; x <= p; x++) {
        const u16 *key = &kv[block(x) + ((size_t)(h / group) * c.bt + x % c.bt) * krow];
        double v = 0;
        for (int d = 0; d < c.keyDim; d++) v += (double)value(q[2 + (size_t)i * lq + h * c.keyDim + d]) * value(key[d]);
        v *= scale;
        if (c.cap) v = c.cap * tanh(v / c.cap);
        s[x - low] = v;
        top = std::max(top, v);
      }
      for (auto &v : s) sum += v = exp(v - top);
      if (c.sunk) sum += exp(sinks[h] - top);
      for (int d = 0; d < c.valueDim; d++) {
        double o = 0;
        for (int x = low; x <= p; x++) o += s[x - low] / sum * value(kv[block(x) + keys + ((size_t)(h / group) * c.bt + x % c.bt) * vrow + d]);
        e.add(value(out[(size_t)i * lo + h * c.valueDim + d]), o);
      }
    }
  }
  e.judge(BF16_LIMIT);

  test("attn_decode_" + x + " " + what);
  Dim grid = {(int)w.items.size() + 2, c.kvHeads, up(group, 16)};
  launch(("attn_decode_" + x).c_str(), grid, with({parts, q.p + 2, kv, items, count, tables, pos, lq, c.bt, stride}));
  launch("attn_merge_x", {(int)w.merges.size() + 2, c.heads}, with({out2, parts, merges, none, pos, lo}));
  for (size_t i = 0; i < out.n; i++)
    if (out[i] != out2[i]) return wrong("element %zu of prefill and decode: %g and %g", i, value(out[i]), value(out2[i]));

  test("attn_whole_" + x + " " + what);
  Memory<u32> counters((size_t)T * c.kvHeads * up(group, 16));
  counters.zero();
  counters.keep();
  launch(("attn_whole_" + x).c_str(), grid, with({out3, lo, counters, parts2, q.p + 2, kv, items, count, tables, pos, lq, c.bt, stride}));
  for (size_t i = 0; i < out.n; i++)
    if (out[i] != out3[i]) return wrong("element %zu of prefill and decode in one: %g and %g", i, value(out[i]), value(out3[i]));
}

struct Heads {
  int heads, kvHeads, keyDim, valueDim, half, offset, how;
  bool apart, weights; // keys and values in a buffer of their own
  float beta, by;
  int shift;
};

static void rope(const Heads &c) {
  test("rope_kv_x " + std::to_string(c.heads) + "/" + std::to_string(c.kvHeads) + " heads of " + std::to_string(c.keyDim) + "/" + std::to_string(c.valueDim) + " how " + std::to_string(c.how));
  int T = 5, blocks = 6, bt = 16, positions = 400, layers = 2, krow = up(c.keyDim, 8) * 8, vrow = up(c.valueDim, 8) * 8;
  int qw = c.heads * c.keyDim, kw = c.kvHeads * c.keyDim, vw = c.kvHeads * c.valueDim, wide = c.apart ? qw : qw + kw + vw, l = ld(wide), l2 = c.apart ? ld(kw + vw) : l;
  i64 keys = (i64)c.kvHeads * bt * krow, one = keys + (i64)c.kvHeads * bt * vrow, stride = one * layers;
  Memory<u16> q((size_t)T * l), other((size_t)T * ld(kw + vw + 2)), kv(stride * blocks + 8);
  fill(q, T, wide);
  fill(other, T, kw + vw);
  Memory<float> table((size_t)positions * std::max(1, c.half) * 2), wq(qw), wk(kw + 2), wv(vw + 2);
  for (size_t i = 0; i < table.n / 2; i++) {
    double a = (double)(i / std::max(1, c.half)) * pow(100, -(double)(i % std::max(1, c.half)) / std::max(1, c.half));
    table[i * 2] = cos(a), table[i * 2 + 1] = sin(a);
  }
  for (size_t i = 0; i < wq.n; i++) wq[i] = frand();
  for (size_t i = 0; i < wk.n; i++) wk[i] = frand();
  for (size_t i = 0; i < wv.n; i++) wv[i] = frand();
  Memory<i32> pos(T), slots(T);
  for (int t = 0; t < T; t++) pos[t] = t < 2 ? t * 31 : irand(0, positions - 1), slots[t] = t * bt + irand(0, bt - 1) + bt;
  slots[3] = -1;
  table.keep(), wq.keep(), wk.keep(), wv.keep(), pos.keep(), slots.keep(), other.keep();
  std::vector<u16> in(q.p, q.p + q.n), seen(kv.p, kv.p + kv.n);
  u16 *k = c.apart ? other.p : q.p + qw, *v = k + kw;
  auto null = [&](const Memory<float> &m) { return c.weights ? m.p : (float *)nullptr; };
  launch("rope_kv_x", {T, up(c.heads + 2 * c.kvHeads, 12)}, {q.p, k, v, kv.p + one, table, pos, slots, null(wq), null(wk), null(wv), c.heads, c.kvHeads, c.keyDim, c.valueDim, c.half, c.offset,
                                                            l, l2, l2, bt, stride, c.how, 1e-6f, 0.1f, 0.2f, c.beta, c.by, c.shift});
  Error e;
  for (int t = 0; t < T; t++)
    for (int h = 0; h < c.heads + 2 * c.kvHeads; h++) {
      bool isq = h < c.heads, isv = h >= c.heads + c.kvHeads;
      int hk = isv ? h - c.heads - c.kvHeads : isq ? h : h - c.heads, dim = isv ? c.valueDim : c.keyDim, row = isv ? vrow : krow;
      const u16 *src = isq ? &in[(size_t)t * l + h * c.keyDim] : (c.apart ? other.p : in.data() + qw) + (size_t)t * l2 + (isv ? kw : 0) + hk * dim;
      std::vector<double> x(dim), o(row, 0);
      const Memory<float> &w = isq ? wq : isv ? wv : wk;
      auto norm_head = [&](std::vector<double> &x) {
        double s = 0, mean = 0;
        for (int d = 0; d < dim; d++) mean += x[d] / dim;
        for (int d = 0; d < dim; d++) x[d] -= c.how & 8 ? mean : 0, s += x[d] * x[d];
        int own = c.how & 32 ? hk * dim : 0;
        for (int d = 0; d < dim; d++) x[d] = x[d] / sqrt(s / dim + (isq ? 1e-6 : isv ? 0.2f : 0.1f)) * (c.weights ? w[own + d] : 1);
      };
      for (int d = 0; d < dim; d++) x[d] = value(src[d]);
      bool normed = c.how & (isq ? 1 : isv ? 4 : 2);
      if (normed && !(c.how & 16)) norm_head(x);
      for (int d = 0; d < dim; d++) o[d] = x[d];
      for (int i = 0; i < c.half && !isv; i++) {
        int a = c.offset + (c.how & 64 ? 2 * i : i), b = a + (c.how & 64 ? 1 : c.half);
        double co = table[((size_t)pos[t] * c.half + i) * 2], sn = table[((size_t)pos[t] * c.half + i) * 2 + 1];
        o[a] = x[a] * co - x[b] * sn, o[b] = x[b] * co + x[a] * sn;
      }
      if (normed && c.how & 16) norm_head(o);
      double factor = c.beta ? 1 + c.beta * log(1 + floor((float)(pos[t] + c.shift) / c.by)) : 1;
      if (isq) {
        for (int d = 0; d < dim; d++) e.add(value(q[(size_t)t * l + h * dim + d]), o[d] * factor);
        continue;
      }
      if (slots[t] < 0) continue;
      size_t at = (size_t)(slots[t] / bt) * stride + one + (isv ? keys : 0) + ((size_t)hk * bt + slots[t] % bt) * row;
      for (int d = 0; d < row; d++) {
        if (d < dim) e.add(value(kv[at + d]), o[d]);
        else if (kv[at + d]) return wrong("no zero behind a row of the cache");
        seen[at + d] = kv[at + d];
      }
    }
  e.judge(BF16_LIMIT);
  if (memcmp(seen.data(), kv.p, kv.n * 2)) wrong("the cache changed elsewhere");
  for (int t = 0; t < T; t++)
    for (int x = qw; x < l; x++)
      if (q[(size_t)t * l + x] != in[(size_t)t * l + x]) return wrong("behind the queries");
}

int main() {
  // Sizes: the largest of each, and some that do not fill them.
  attention({4, 2, 64, 64, 16, 0, 0, 0, true, {{0, 5}, {70, 71}, {30, 60}}});
  attention({3, 1, 18, 12, 16, 0, 0, 0, false, {{0, 1}, {13, 40}}});
  attention({4, 2, 128, 128, 32, 0, 0, 50, false, {{500, 530}, {0, 1}}});
  attention({4, 2, 112, 80, 16, 0, 0, 0, true, {{1021, 1027}}});
  attention({4, 1, 192, 128, 16, 40, 0, 0, true, {{0, 50}}});
  attention({2, 1, 256, 256, 16, 0, 0, 0, false, {{500, 520}}});
  attention({2, 2, 256, 256, 32, 30, 0, 20, false, {{0, 3}, {60, 75}}});
  attention({3, 1, 200, 144, 16, 0, 0, 0, false, {{10, 40}}});
  attention({2, 1, 512, 512, 16, 0, 0, 0, false, {{0, 20}, {510, 515}}});
  attention({20, 1, 576, 512, 16, 0, 0, 0, false, {{30, 33}}}); // more heads than rows of a tile
  attention({72, 1, 32, 32, 16, 0, 0, 0, true, {{30, 33}, {0, 1}}});
  // Chunks that begin within a tile of positions and within a part, and after whole parts.
  attention({4, 2, 32, 32, 16, 0, 7, 0, false, {{0, 30}}});
  attention({2, 1, 64, 64, 16, 0, 600, 0, false, {{595, 605}, {1199, 1203}, {1300, 1301}}});
  attention({2, 1, 128, 128, 16, 100, 600, 0, true, {{1230, 1240}}});
  rope({4, 2, 64, 64, 32, 0, 3, false, true, 0, 0, 0});
  rope({3, 1, 18, 12, 9, 0, 7, false, true, 0.1f, 30, 0});
  rope({2, 1, 576, 512, 32, 512, 64, true, true, 0.3f, 7, 1});
  rope({2, 2, 256, 256, 128, 0, 3 + 16, false, true, 0.1f, 1, 1});
  rope({6, 0, 64, 64, 16, 0, 1 + 8 + 32, false, true, 0, 0, 0}); // a layer that stores nothing
  rope({2, 1, 512, 512, 0, 0, 7, true, false, 0.1f, 16, 0});
  return finish("attention of other kinds");
}
