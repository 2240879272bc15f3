// Paged attention: against double precision, and prefill against decode bit for bit.
#include "check.h"
#include "../src/attn.cu"
using namespace check;

struct Case {
  int heads, kvHeads, headDim, bt, window;
  std::vector<std::pair<int, int>> runs; // positions [first, end) that are queries
};

struct Work {
  std::vector<AttnTile> tiles;
  std::vector<AttnItem> items;
  std::vector<AttnMerge> merges;
};

static void attention(const Case &c) {
  int group = c.heads / c.kvHeads, row = up(c.headDim, 8) * 8, T = 0, blocks = 1, width = c.heads * c.headDim, lq = ld(width) + 64, lo = ld(width);
  std::string size = c.headDim > 64 ? "d128" : "d64", what = std::to_string(c.heads) + "/" + std::to_string(c.kvHeads) + " heads of " + std::to_string(c.headDim) + ", window " +
                     std::to_string(c.window) + ", to position " + std::to_string(c.runs.back().second);
  for (auto &r : c.runs) T += r.second - r.first, blocks += up(r.second, c.bt);
  i64 one = (i64)2 * c.kvHeads * c.bt * row, stride = one + 256; // a gap, as if other layers lay there
  Memory<u16> q((size_t)T * lq), kv(stride * blocks), out((size_t)T * lo), out2((size_t)T * lo);
  for (size_t i = 0; i < q.n; i++) q[i] = rounded(frand() * 2);
  Memory<i32> tables(blocks), pos(T), count(1), none(1);
  std::vector<int> ids(blocks - 1);
  for (int i = 0; i < blocks - 1; i++) ids[i] = i + 1;
  std::shuffle(ids.begin(), ids.end(), rng);
  Work w;
  int t = 0, table = 0, slot = 0;
  for (auto &r : c.runs) { // kernels/plan.go
    int n = r.second - r.first, step = std::max(1, 64 / group);
    for (int i = 0; i < n; i++) pos[t + i] = r.first + i;
    for (int i = 0; i < n; i += step) w.tiles.push_back({t + i, std::min(step, n - i), table, 0});
    for (int i = 0; i < n; i++) {
      int p = r.first + i, low = c.window ? std::max(0, p + 1 - c.window) : 0;
      w.merges.push_back({t + i, slot, p / 512 - low / 512 + 1, 0});
      for (int k = low / 512; k <= p / 512; k++) w.items.push_back({t + i, table, k, slot++});
    }
    for (int p = 0; p < r.second; p++) { // written positions; the rest of a block stays NaN
      int b = tables[table + p / c.bt] = ids[table + p / c.bt];
      for (int h = 0; h < 2 * c.kvHeads; h++)
        for (int d = 0; d < row; d++) kv[b * stride + ((size_t)h * c.bt + p % c.bt) * row + d] = d < c.headDim ? rounded(frand()) : 0;
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
  Memory<float> parts((size_t)slot * c.heads * (c.headDim + 2));
  count[0] = w.items.size(), none[0] = w.merges.size();
  q.keep(), kv.keep(), tables.keep(), pos.keep(), tiles.keep(), items.keep(), merges.keep(), count.keep(), none.keep();
  float scale = 1 / sqrtf(c.headDim);

  test("attn_prefill_" + size + " " + what);
  launch(("attn_prefill_" + size).c_str(), {(int)w.tiles.size(), c.kvHeads},
         {out, q.p + 2, kv, tiles, tables, pos, lo, lq, c.heads, c.kvHeads, c.headDim, c.bt, stride, scale, c.window});
  Error e;
  int run = 0, at = 0;
  table = 0;
  for (int i = 0; i < T; i++) {
    if (i - at == c.runs[run].second - c.runs[run].first) at = i, table += up(c.runs[run].second, c.bt), run++;
    int p = pos[i], low = c.window ? std::max(0, p + 1 - c.window) : 0;
    for (int h = 0; h < c.heads; h++) {
      std::vector<double> s(p + 1 - low);
      double top = -1e300, sum = 0;
      auto key = [&](int x, int v) { return &kv[(i64)tables[table + x / c.bt] * stride + ((size_t)(v * c.kvHeads + h / group) * c.bt + x % c.bt) * row]; };
      for (int x = low; x <= p; x++) {
        double v = 0;
        for (int d = 0; d < c.headDim; d++) v += (double)value(q[2 + (size_t)i * lq + h * c.headDim + d]) * value(key(x, 0)[d]);
        s[x - low] = v * scale;
        top = std::max(top, v * scale);
      }
      for (auto &v : s) sum += v = exp(v - top);
      for (int d = 0; d < c.headDim; d++) {
        double o = 0;
        for (int x = low; x <= p; x++) o += s[x - low] / sum * value(key(x, 1)[d]);
        e.add(value(out[(size_t)i * lo + h * c.headDim + d]), o);
      }
    }
  }
  e.judge(BF16_LIMIT);

  test("attn_decode_" + size + " " + what);
  launch(("attn_decode_" + size).c_str(), {(int)w.items.size() + 2, c.kvHeads, up(group, 16)},
         {parts, q.p + 2, kv, items, count, tables, pos, lq, c.heads, c.kvHeads, c.headDim, c.bt, stride, scale, c.window});
  launch("attn_merge", {(int)w.merges.size() + 2, c.heads}, {out2, parts, merges, none, lo, c.heads, c.headDim, scale});
  for (size_t i = 0; i < out.n; i++)
    if (out[i] != out2[i]) return wrong("element %zu of prefill and decode: %g and %g", i, value(out[i]), value(out2[i]));

  test("attn_whole_" + size + " " + what);
  Memory<u16> out3((size_t)T * lo);
  Memory<float> parts2(parts.n);
  Memory<u32> counters((size_t)T * c.kvHeads * up(group, 16));
  counters.zero();
  counters.keep();
  launch(("attn_whole_" + size).c_str(), {(int)w.items.size() + 2, c.kvHeads, up(group, 16)},
         {out3, lo, counters, parts2, q.p + 2, kv, items, count, tables, pos, lq, c.heads, c.kvHeads, c.headDim, c.bt, stride, scale, c.window});
  for (size_t i = 0; i < out.n; i++)
    if (out[i] != out3[i]) return wrong("element %zu of prefill and decode in one: %g and %g", i, value(out[i]), value(out3[i]));
}

int main() {
  attention({4, 2, 64, 16, 0, {{0, 5}, {70, 71}, {30, 60}}});
  attention({3, 1, 10, 16, 0, {{0, 1}, {13, 40}}});
  attention({8, 2, 128, 32, 0, {{500, 530}, {0, 1}}});
  attention({4, 4, 96, 16, 0, {{0, 66}}});
  attention({2, 2, 64, 48, 100, {{0, 20}, {590, 640}}});
  attention({20, 1, 32, 16, 7, {{60, 66}}});
  attention({4, 1, 128, 16, 0, {{1021, 1027}}});
  attention({2, 1, 64, 16, 600, {{1200, 1203}}});
  return finish("attention");
}
