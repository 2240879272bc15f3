// Mixtures of experts: routing against a simple model of it, lists of rows, and products bit for bit as a row alone has them.
#include <memory>
#include <set>
#include "check.h"
#include "../src/experts.cu"
#include "matrix.h"
using namespace check;

static const float NO_NUMBER = std::nanf("");

struct Router {
  int kind, groups = 0, top_groups = 0;
  bool best2 = false, renorm = false, bias = false, scale = false;
  float floor = 0, add = 0, jitter = 0.01f, factor = 1;
};

// What is chosen and with which weight, in double precision where no choice depends on it.
static void routed(const Router &r, const float *x, const float *bias, const float *scale, int experts, int topk, std::vector<int> &chosen, std::vector<double> &weight) {
  std::vector<double> score(x, x + experts), key;
  double top = *std::max_element(x, x + experts), sum = 0;
  for (double v : score) sum += exp(v - top);
  for (double &v : score) v = r.kind == SOFTMAX ? exp(v - top) / sum : r.kind == SIGMOID_SCORE ? 1 / (1 + exp(-v)) : r.kind == SQRT_SOFTPLUS ? sqrt(log1p(exp(v))) : v;
  for (int i = 0; i < experts; i++) key.push_back(score[i] + (r.bias ? bias[i] : 0));
  auto best = [](const std::vector<double> &v, const std::set<int> &without) {
    int at = -1;
    for (int i = 0; i < (int)v.size(); i++)
      if (!without.count(i) && v[i] == v[i] && (at < 0 || v[i] > v[at])) at = i;
    return at;
  };
  if (r.groups) {
    int size = experts / r.groups;
    std::vector<double> of;
    for (int g = 0; g < r.groups; g++) {
      std::vector<double> k(key.begin() + g * size, key.begin() + (g + 1) * size);
      std::sort(k.rbegin(), k.rend());
      of.push_back(r.best2 && size > 1 ? k[0] + k[1] : k[0]);
    }
    std::set<int> in;
    for (int i = 0; i < r.top_groups; i++) in.insert(best(of, in));
    for (int i = 0; i < experts; i++)
      if (!in.count(i / size)) key[i] = NAN;
  }
  std::set<int> picked;
  std::map<int, double> w;
  for (int k = 0; k < topk; k++) {
    if (r.kind == SPARSE_MIXER) {
      int at = best(score, picked);
      double part = 0;
      for (int i = 0; i < experts; i++)
        if (!picked.count(i) && (score[at] - score[i]) / std::max(fabs(score[i]), score[at]) <= 2 * r.jitter) part += exp(score[i] - score[at]);
      picked.insert(at), w[at] = 1 / part;
      continue;
    }
    int at = best(key, picked);
    if (at < 0)
      for (at = 0; picked.count(at);) at++;
    picked.insert(at), w[at] = score[at];
  }
  chosen.assign(picked.begin(), picked.end());
  weight.clear();
  double all = 0;
  for (int e : chosen) weight.push_back(w[e]);
  if (r.kind == SOFTMAX_TOP) {
    double t = *std::max_element(weight.begin(), weight.end()), s = 0;
    for (double &v : weight) s += v = exp(v - t);
    for (double &v : weight) v /= s;
  }
  for (double v : weight) all += v;
  for (int i = 0; i < topk; i++) {
    if (r.renorm) weight[i] /= std::max(all + r.add, (double)r.floor);
    weight[i] *= r.factor * (r.scale ? scale[chosen[i]] : 1);
  }
}

// Logits are multiples of 1/8, so that there are ties, and that double precision orders them as float32 does.
static void routes(Router r, int rows, int experts, int topk, bool ties) {
  test("route kind " + std::to_string(r.kind) + " experts " + std::to_string(experts) + " groups " + std::to_string(r.groups));
  int l = ld(experts), live_rows = rows - 1;
  Memory<float> logits((size_t)rows * l), bias(experts), scale(experts), weight((size_t)rows * topk);
  Memory<int> chosen((size_t)rows * topk), live(2);
  for (int i = 0; i < (int)logits.n; i++) logits[i] = ties ? irand(-9, 9) / 8.0f : frand();
  for (int i = 0; i < experts; i++) bias[i] = ties ? irand(-2, 2) / 8.0f : frand() / 4, scale[i] = 0.5f + fabsf(frand());
  if (rows > 3 && r.kind != SPARSE_MIXER)
    for (int i = 0; i < experts; i++) logits[2 * l + i] = NO_NUMBER; // of a row that is broken, and the others are not
  live[0] = rows, live[1] = live_rows;
  logits.keep(), bias.keep(), scale.keep(), live.keep();
  launch("route", {rows}, {chosen, weight, logits, r.bias ? bias.p : (float *)nullptr, r.scale ? scale.p : (float *)nullptr, live, 1, experts, topk, l, r.kind, r.groups, r.top_groups, (int)r.best2, (int)r.renorm, r.floor,
                           r.add, r.jitter, r.factor});
  Error e;
  for (int t = 0; t < rows; t++) {
    std::vector<int> want;
    std::vector<double> by;
    const int *got = &chosen[(size_t)t * topk];
    if (t >= live_rows) {
      for (int k = 0; k < topk; k++)
        if (got[k] != -1) wrong("row %d of none chooses %d", t, got[k]);
      continue;
    }
    bool broken = logits[(size_t)t * l] != logits[(size_t)t * l];
    if (broken) {
      for (int k = 0; k < topk; k++)
        if (got[k] != k) wrong("row of NaN chooses %d", got[k]);
      continue;
    }
    routed(r, &logits[(size_t)t * l], bias.p, scale.p, experts, topk, want, by);
    for (int k = 0; k < topk; k++) {
      if (got[k] != want[k]) return wrong("row %d: expert %d, not %d", t, got[k], want[k]);
      e.add(weight[(size_t)t * topk + k], by[k]);
    }
  }
  e.judge(F32);
}

static void exact_(int rows, int n, int k, int types, bool with_bias) {
  test("exact " + std::to_string(rows) + "x" + std::to_string(n) + "x" + std::to_string(k));
  int lx = ld(k + 6), ly = ld(n);
  Memory<float> w((size_t)n * k), bias(n), wide((size_t)rows * lx), y((size_t)rows * ly);
  Memory<u16> narrow((size_t)rows * lx), y16((size_t)rows * ly);
  for (size_t i = 0; i < w.n; i++) w[i] = frand();
  for (int i = 0; i < n; i++) bias[i] = frand();
  for (size_t i = 0; i < wide.n; i++) narrow[i] = rounded(wide[i] = frand());
  w.keep(), bias.keep(), wide.keep(), narrow.keep();
  auto run = [&](int rows, int first, void *to) {
    i64 x = types & 2 ? (i64)(wide.p + (size_t)first * lx + 6) : (i64)(narrow.p + (size_t)first * lx + 6);
    launch("exact", {up(n, 8), up(rows, 4)}, {(u8 *)to, x, w, with_bias ? bias.p : (float *)nullptr, rows, n, k, lx, ly, types});
  };
  run(rows, 0, types & 1 ? (void *)y.p : (void *)y16.p);
  Error e;
  for (int r = 0; r < rows; r++)
    for (int c = 0; c < n; c++) {
      double s = with_bias ? bias[c] : 0;
      for (int i = 0; i < k; i++) s += (double)w[(size_t)c * k + i] * (types & 2 ? wide[(size_t)r * lx + 6 + i] : value(narrow[(size_t)r * lx + 6 + i]));
      e.add(types & 1 ? y[(size_t)r * ly + c] : value(y16[(size_t)r * ly + c]), s);
    }
  e.judge(types & 1 ? F32 : BF16_LIMIT);
  if (!(types & 1)) return;
  Memory<float> one(ly);
  run(1, rows - 1, one.p);
  if (memcmp(one.p, &y[(size_t)(rows - 1) * ly], n * 4)) wrong("a row alone has other bits");
}

// Experts of several formats: a matrix each for the first product, whose results are checked.
struct Mixture {
  std::vector<std::unique_ptr<Matrix>> m;
  std::vector<std::unique_ptr<Memory<float>>> bias;
  Memory<Loaded> loaded;
  Mixture(int experts, int n, int k, std::vector<int> stored, bool with_bias) : loaded(2 + 3 * experts) {
    for (int e = 0; e < experts; e++) {
      m.emplace_back(new Matrix(n, k, stored[e % stored.size()]));
      bias.emplace_back(new Memory<float>(n));
      for (int i = 0; i < n; i++) (*bias[e])[i] = with_bias ? frand() : 0;
      bias[e]->keep();
      loaded[2 + 3 * e] = Loaded{(u64)m[e]->w.p, with_bias ? (u64)bias[e]->p : 0, m[e]->format, 0, 0};
    }
    loaded.keep();
  }
};

// Lists of rows, and products: row i of y is that of row i/div of x and the expert of entry i, with the same bits in
// whatever tiles. quiet rows have chosen nothing.
static void grouped(int rows, int topk, int experts, int n, int k, std::vector<int> stored, int div, int epilogue, bool with_bias, int busy) {
  std::string what = std::to_string(rows) + " rows of " + std::to_string(topk) + " experts of " + std::to_string(experts) + ", format " + formats[stored[0]] + " epilogue " + std::to_string(epilogue);
  Mixture mix(experts, n, k, stored, with_bias);
  int entries = rows * topk, xrows = div == 1 ? entries : rows, lx = ld(k), ly = ld(epilogue == SWIGLU ? n / 2 : n);
  Memory<u16> x((size_t)xrows * lx);
  fill(x, xrows, k), x.keep();
  Memory<int> chosen(entries);
  for (int r = 0; r < rows; r++) {
    std::set<int> of;
    while ((int)of.size() < topk) of.insert(irand(0, busy - 1));
    std::vector<int> list(of.begin(), of.end());
    for (int i = 0; i < topk; i++) chosen[r * topk + i] = r % 5 == 3 ? -1 : list[i];
  }
  chosen.keep();
  std::vector<u8> first;
  for (int per : {8, 16, 32, 64}) {
    test("group_rows of " + what);
    int most = std::min(entries, experts + entries / per);
    Memory<int> order(entries), count(1);
    Memory<ExpertTile> tiles(most);
    launch("group_rows", {experts}, {order, tiles, count, chosen, entries, experts, per});
    std::vector<int> seen(entries);
    int last = -1;
    if (count[0] > most) return wrong("%d tiles, room for %d", count[0], most);
    for (int t = 0; t < count[0]; t++) {
      ExpertTile a = tiles[t];
      if (a.count < 1 || a.count > per || a.expert < last) return wrong("tile %d has %d entries of expert %d", t, a.count, a.expert);
      last = a.expert;
      for (int i = 0; i < a.count; i++) {
        int at = order[a.first + i];
        if (chosen[at] != a.expert || seen[at]++ || (i > 0 && at < order[a.first + i - 1])) return wrong("tile %d has entry %d", t, at);
      }
    }
    for (int i = 0; i < entries; i++)
      if (seen[i] != (chosen[i] >= 0)) return wrong("entry %d is in %d tiles", i, seen[i]);
    size_t bytes = (size_t)entries * ly * (epilogue == STORE_F32 ? 4 : 2);
    Memory<u8> y(bytes);
    y.zero();
    for (int f : std::set<int>(stored.begin(), stored.end())) {
      std::string name = std::string("grouped_") + formats[f] + "_n" + std::to_string(per);
      test(name + " of " + what);
      launch(name.c_str(), {up(n, 64), most}, {y, x, mix.loaded, order, tiles, count, 2, 3, div, n, k, lx, ly, epilogue});
    }
    std::vector<u8> got(y.p, y.p + bytes);
    if (!first.empty() && memcmp(first.data(), got.data(), bytes)) wrong("other bits than in tiles of 8");
    if (!first.empty()) continue;
    first = got;
    Error e;
    for (int i = 0; i < entries; i++) {
      if (chosen[i] < 0) {
        for (size_t b = 0; b < bytes / entries; b++)
          if (y[i * (bytes / entries) + b]) return wrong("entry %d of nobody was written", i);
        continue;
      }
      const Matrix &m = *mix.m[chosen[i]];
      const float *bias = mix.bias[chosen[i]]->p;
      std::vector<double> sums;
      for (int c = 0; c < n; c++) {
        double s = bias[c];
        for (int j = 0; j < k; j++) s += (double)value(x[(size_t)(i / div) * lx + j]) * m.meaning[(size_t)c * k + j];
        sums.push_back(s);
      }
      for (int c = 0; c < (epilogue == SWIGLU ? n / 2 : n); c++) {
        size_t at = (size_t)i * ly + c;
        double want = sums[c];
        if (epilogue == SWIGLU) {
          double g = sums[c / 32 * 64 + c % 32];
          want = g / (1 + exp(-g)) * sums[c / 32 * 64 + 32 + c % 32];
        }
        e.add(epilogue == STORE_F32 ? ((float *)y.p)[at] : value(((u16 *)y.p)[at]), want);
      }
    }
    e.judge(epilogue == STORE_F32 ? F32 * 3 : BF16_LIMIT);
  }
}

static void sums(int rows, int topk, int width, int types, bool weighted) {
  test("sum_experts " + std::to_string(rows) + "x" + std::to_string(topk) + "x" + std::to_string(width));
  int lx = ld(width), ly = ld(width);
  Memory<float> x((size_t)rows * topk * lx), weight((size_t)rows * topk), y((size_t)rows * ly);
  Memory<u16> y16((size_t)rows * ly);
  Memory<int> chosen((size_t)rows * topk);
  for (size_t i = 0; i < x.n; i++) x[i] = frand();
  for (size_t i = 0; i < weight.n; i++) weight[i] = frand(), chosen[i] = (int)(i / topk) == 1 ? -1 : irand(0, 9);
  x.keep(), weight.keep(), chosen.keep();
  launch("sum_experts", {rows, up(width, 1024)}, {types & 1 ? (u8 *)y.p : (u8 *)y16.p, x, chosen, weight, topk, width, ly, lx, types, (int)weighted});
  Error e;
  for (int r = 0; r < rows; r++)
    for (int c = 0; c < width; c++) {
      float s = 0; // with the bits of this order
      for (int k = 0; k < topk && r != 1; k++) s = fma(weighted ? weight[r * topk + k] : 1.0f, x[(size_t)(r * topk + k) * lx + c], s);
      float got = types & 1 ? y[(size_t)r * ly + c] : value(y16[(size_t)r * ly + c]);
      if (got != (types & 1 ? s : value(rounded(s)))) return wrong("row %d column %d: %g, not %g", r, c, got, s);
    }
}

int main() {
  for (bool ties : {false, true}) {
    for (int kind : {SOFTMAX, SOFTMAX_TOP, SIGMOID_SCORE, SQRT_SOFTPLUS}) {
      Router r{kind};
      routes(r, 6, 40, 4, ties);
      r.renorm = true, r.factor = 2.5f, r.scale = true, r.add = 0.01f;
      routes(r, 5, 8, 2, ties);
      r.floor = 3;
      routes(r, 3, 130, 7, ties);
    }
    Router r{SIGMOID_SCORE, 8, 3};
    r.bias = r.renorm = true;
    routes(r, 9, 64, 6, ties);
    r.best2 = true;
    routes(r, 9, 64, 6, ties), routes(r, 9, 8, 3, ties);
    routes({SOFTMAX, 4, 2}, 9, 32, 5, ties), routes({SPARSE_MIXER}, 9, 16, 2, ties);
  }
  routes({SOFTMAX}, 2, 1024, 32, false);
  for (int types = 0; types < 4; types++) exact_(5, 19, 70, types, types & 1);
  exact_(1, 1, 264, 3, false), exact_(9, 8, 31, 3, true);
  for (int f : {BF16, Q8, Q4, MXFP4}) grouped(11, 3, 7, 100, 136, {f}, 3, STORE_F32, f != Q8, 7), grouped(40, 2, 5, 128, 72, {f}, 1, SWIGLU, false, 3);
  grouped(1, 4, 300, 64, 64, {BF16}, 4, STORE_BF16, true, 300), grouped(30, 2, 6, 66, 520, {Q4, Q8, Q4}, 2, STORE_F32, true, 6);
  sums(3, 4, 70, 1, true), sums(2, 8, 1030, 0, true), sums(3, 2, 36, 1, false);
  return finish("experts");
}
