// The kernels that go row by row, against double precision.
#include "check.h"
#include "../src/elementwise.cu"
#include "../src/pack.cu"
#include "../src/probe.cu"
using namespace check;

static double silu_(double g) { return g / (1 + exp(-g)); }

static void zeros_behind(const Memory<u16> &y, int rows, int width) {
  for (int r = 0; r < rows; r++)
    for (int c = width; c < ld(width); c++)
      if (y[(size_t)r * ld(width) + c]) return wrong("column %d of row %d is not zero", c, r);
}

static void embedding(int vocab, int dim) {
  test("embed " + std::to_string(vocab) + "x" + std::to_string(dim));
  int T = 7;
  std::vector<float> m((size_t)vocab * dim);
  for (auto &v : m) v = frand();
  Memory<u16> w(tile_size(vocab, dim));
  pack(w, m, vocab, dim);
  Memory<i32> tokens(T), drawn(3);
  int ids[] = {0, vocab - 1, -1, vocab / 2, -3, -2, vocab + 5}, drew[] = {vocab - 1, -1, 2}, want[] = {0, vocab - 1, vocab - 1, vocab / 2, 2, 0, 0};
  memcpy(tokens.p, ids, sizeof ids);
  memcpy(drawn.p, drew, sizeof drew);
  w.keep(), tokens.keep(), drawn.keep();
  Memory<float> x((size_t)T * ld(dim));
  x.zero();
  launch("embed", {T}, {x, w, tokens, drawn, dim, ld(dim), vocab});
  for (int t = 0; t < T; t++)
    for (int c = 0; c < ld(dim); c++) {
      float v = c < dim ? value(rounded(m[(size_t)want[t] * dim + c])) : 0;
      if (x[(size_t)t * ld(dim) + c] != v) return wrong("row %d column %d", t, c);
    }
}

// Tables of blocks are packed by pack_q8 and pack_q4, which quantized() below checks.
static void embedding_blocks(int format, int vocab, int dim) {
  std::string name = format == Q8 ? "q8" : "q4";
  test("embed_" + name + " " + std::to_string(vocab) + "x" + std::to_string(dim));
  int T = 5, bytes = format == Q8 ? Q8_TILE : Q4_TILE, kt = up(dim, 64);
  Memory<float> src((size_t)vocab * dim);
  for (size_t i = 0; i < src.n; i++) src[i] = frand() * 0.05f;
  Memory<u8> w((size_t)up(vocab, 64) * kt * bytes);
  w.zero();
  src.keep();
  launch(("pack_" + name).c_str(), {up(vocab, 64), kt}, {w, src, vocab, dim, 0, vocab, 2, 0, 0});
  Memory<i32> tokens(T), drawn(1);
  int ids[] = {0, vocab - 1, -1, vocab / 2, vocab + 5}, want[] = {0, vocab - 1, 1, vocab / 2, 0};
  memcpy(tokens.p, ids, sizeof ids);
  drawn[0] = 1;
  w.keep(), tokens.keep(), drawn.keep();
  Memory<float> x((size_t)T * ld(dim));
  x.zero();
  launch(("embed_" + name).c_str(), {T}, {x, w, tokens, drawn, dim, ld(dim), vocab});
  for (int t = 0; t < T; t++)
    for (int c = 0; c < ld(dim); c++) {
      float v = 0;
      if (c < dim) { // the definition in quant.h, read from the other side
        int rr = want[t] % 64, kb = c % 64 / 32, h = c % 32 / 16, reg = rr % 16 / 8 + c % 16 / 8 * 2, lane = rr % 8 * 4 + c % 8 / 2, e = c % 2, nibble = reg + 4 * e;
        const u8 *tile = &w[((size_t)(want[t] / 64) * kt + c / 64) * bytes];
        int q = format == Q8 ? tile[((rr / 16 * 2 + kb) * 32 + lane) * 16 + h * 8 + reg * 2 + e] - 128
                             : (tile[((rr / 16 * 2 + kb) * 32 + lane) * 8 + h * 4 + nibble / 2] >> nibble % 2 * 4 & 15) - 8;
        u16 scale;
        memcpy(&scale, tile + bytes - 256 + (kb * 64 + rr) * 2, 2);
        v = half_to_float(scale) * q;
      }
      if (x[(size_t)t * ld(dim) + c] != v) return wrong("row %d column %d is %g, not %g", t, c, x[(size_t)t * ld(dim) + c], v);
    }
}

static void packing(int n1, int n2, int k, int dtype) {
  test("pack_bf16 " + std::to_string(n1) + "+" + std::to_string(n2) + "x" + std::to_string(k));
  int n = n1 + n2;
  std::vector<float> m((size_t)n * k);
  for (auto &v : m) v = frand();
  Memory<u16> w(tile_size(n, k)), want(tile_size(n, k));
  w.zero();
  Memory<u8> src((size_t)n * k * 4);
  for (size_t i = 0; i < m.size(); i++) {
    u16 h = dtype == 0 ? rounded(m[i]) : float_to_half(m[i]);
    if (dtype == 2) memcpy(&src[i * 4], &m[i], 4);
    else memcpy(&src[i * 2], &h, 2);
    m[i] = dtype == 0 ? value(h) : dtype == 1 ? half_to_float(h) : m[i];
  }
  pack(want, m, n, k);
  src.keep();
  int size = dtype == 2 ? 4 : 2;
  launch("pack_bf16", {up(n1, 64), up(k, 64)}, {w, src, n1, k, 0, n, dtype, 0, 0});
  launch("pack_bf16", {up(n2, 64), up(k, 64)}, {w, src.p + (size_t)n1 * k * size, n2, k, n1, n, dtype, 0, 0});
  for (size_t i = 0; i < w.n; i++)
    if (w[i] != want[i]) return wrong("element %zu", i);
}

static void interleaving(int half, int k) {
  test("pack_bf16 interleaved");
  std::vector<float> m((size_t)2 * half * k), turned(m.size());
  Memory<u16> src(m.size()), w(tile_size(2 * half, k)), want(w.n);
  for (size_t i = 0; i < m.size(); i++) m[i] = value(src[i] = rounded(frand()));
  for (int r = 0; r < 2 * half; r++)
    for (int c = 0; c < k; c++) turned[((size_t)(r % half) / 32 * 64 + r / half * 32 + r % half % 32) * k + c] = m[(size_t)r * k + c];
  pack(want, turned, 2 * half, k);
  w.zero();
  for (int p = 0; p < 2; p++) launch("pack_bf16", {up(half, 64), up(k, 64)}, {w, src.p + (size_t)p * half * k, half, k, 0, 2 * half, 0, 1, p});
  if (memcmp(w.p, want.p, w.n * 2)) wrong("differs");
}

// device/cpu/quant.go, number by number; a scale that differs in the sign of zero is the same.
static void quantized(int format, int n1, int n2, int k, int dtype, bool interleave) {
  test(std::string("pack_q") + (format == Q8 ? "8 " : "4 ") + std::to_string(n1) + "+" + std::to_string(n2) + "x" + std::to_string(k));
  int n = n1 + n2, bytes = format == Q8 ? Q8_TILE : Q4_TILE, kt = up(k, 64);
  Memory<u8> src((size_t)n * k * 4), w((size_t)up(n, 64) * kt * bytes);
  std::vector<float> m((size_t)n * k);
  for (size_t i = 0; i < m.size(); i++) {
    m[i] = i / k % 5 == 4 ? 0 : i / k % 5 == 3 ? frand() * 1e-7f : frand() * 0.05f; // zeros and scales below the normal numbers, too
    u16 h = dtype == 0 ? rounded(m[i]) : float_to_half(m[i]);
    m[i] = dtype == 0 ? value(h) : dtype == 1 ? half_to_float(h) : m[i];
    if (dtype == 2) memcpy(&src[i * 4], &m[i], 4);
    else memcpy(&src[i * 2], &h, 2);
  }
  w.zero();
  src.keep();
  int per = interleave ? 32 : 64, size = dtype == 2 ? 4 : 2, parts[2] = {n1, n2};
  for (int p = 0; p < 2; p++) {
    int row0 = interleave ? 0 : p * n1;
    launch(format == Q8 ? "pack_q8" : "pack_q4", {up(row0 % per + parts[p], per), kt},
           {w, src.p + (size_t)p * n1 * k * size, parts[p], k, row0, n, dtype, (int)interleave, p});
  }
  for (int r = 0; r < n; r++)
    for (int b = 0; b < k; b += 32) {
      int end = std::min(b + 32, k), p = r >= n1, s = r - p * n1, to = interleave ? s / 32 * 64 + p * 32 + s % 32 : r;
      const u8 *tile = &w[((size_t)(to / 64) * kt + b / 64) * bytes];
      float top = 0, signed_top = 0;
      for (int c = b; c < end; c++) {
        float v = m[(size_t)r * k + c];
        if (fabsf(v) > top) top = fabsf(v), signed_top = v;
      }
      u16 scale = format == Q8 ? float_to_half(top / 127) : float_to_half(signed_top / -8);
      if (format == Q8 && top > 0 && half_to_float(scale) * 127.49f < top) scale++;
      if (half_to_float(scale) == 0) scale = 0;
      int rr = to % 64, kb = b % 64 / 32;
      u16 got;
      memcpy(&got, tile + bytes - 256 + (kb * 64 + rr) * 2, 2);
      if (got != scale) return wrong("row %d block %d has scale %g, not %g", r, b / 32, half_to_float(got), half_to_float(scale));
      for (int c = b; c < end; c++) {
        int h = c % 32 / 16, reg = rr % 16 / 8 + c % 16 / 8 * 2, lane = rr % 8 * 4 + c % 8 / 2, e = c % 2, q, nibble = reg + 4 * e, want = 0;
        if (format == Q8) q = tile[((rr / 16 * 2 + kb) * 32 + lane) * 16 + h * 8 + reg * 2 + e] - 128;
        else q = (tile[((rr / 16 * 2 + kb) * 32 + lane) * 8 + h * 4 + nibble / 2] >> nibble % 2 * 4 & 15) - 8;
        if (scale) want = (int)nearbyintf(m[(size_t)r * k + c] * (1 / half_to_float(scale)));
        if (format == Q4) want = std::max(-8, std::min(7, want));
        if (q != want) return wrong("row %d column %d is %d, not %d", r, c, q, want);
      }
    }
}

static void norms(int T, int dim) {
  test("rmsnorm " + std::to_string(T) + "x" + std::to_string(dim));
  int l = ld(dim);
  Memory<float> x((size_t)T * l), w(dim);
  Memory<u16> y((size_t)T * l);
  fill(x, T, dim, 3);
  y.zero();
  for (int i = 0; i < dim; i++) w[i] = frand();
  x.keep(), w.keep();
  launch("rmsnorm", {T}, {y, x, w, dim, l, l, 1e-5f});
  Error e;
  for (int t = 0; t < T; t++) {
    double s = 0;
    for (int c = 0; c < dim; c++) s += (double)x[(size_t)t * l + c] * x[(size_t)t * l + c];
    s = 1 / sqrt(s / dim + 1e-5);
    for (int c = 0; c < dim; c++) e.add(value(y[(size_t)t * l + c]), x[(size_t)t * l + c] * s * w[c]);
  }
  e.judge(BF16_LIMIT);
  zeros_behind(y, T, dim);
}

static void adding(int T, int dim) {
  test("add");
  Memory<float> x((size_t)T * ld(dim));
  Memory<u16> h((size_t)T * ld(dim));
  fill(x, T, dim), fill(h, T, dim);
  h.keep();
  std::vector<float> x0(x.p, x.p + x.n);
  launch("add", {T}, {x, h, dim, ld(dim), ld(dim)});
  for (size_t i = 0; i < x.n; i++)
    if (x[i] != x0[i] + value(h[i])) return wrong("element %zu", i);
}

static void head_norms(int T, int heads, int headDim) {
  test("norm_heads " + std::to_string(heads) + "x" + std::to_string(headDim));
  int width = heads * headDim, l = ld(width + 10) + 64;
  Memory<u16> x((size_t)T * l);
  for (size_t i = 0; i < x.n; i++) x[i] = rounded(frand());
  Memory<float> w(headDim);
  for (int i = 0; i < headDim; i++) w[i] = frand();
  w.keep();
  std::vector<u16> x0(x.p, x.p + x.n);
  int off = 10; // a view: aligned to 4 bytes only
  launch("norm_heads", {T, up(heads, 4)}, {x.p + off, x.p + off, w, heads, headDim, l, l, 1e-6f});
  Error e;
  for (int t = 0; t < T; t++)
    for (int c = 0; c < l; c++) {
      size_t at = (size_t)t * l + c;
      if (c < off || c >= off + width) {
        if (x[at] != x0[at]) return wrong("beside the view, column %d", c);
        continue;
      }
      int h = (c - off) / headDim;
      double s = 0;
      for (int d = 0; d < headDim; d++) s += pow(value(x0[(size_t)t * l + off + h * headDim + d]), 2);
      e.add(value(x[at]), value(x0[at]) / sqrt(s / headDim + 1e-6) * w[(c - off) % headDim]);
    }
  e.judge(BF16_LIMIT);
}

static void rope(int heads, int kvHeads, int headDim, int half, int bt, int how, int offset = 0, bool weights = true) {
  bool norm = how & 7;
  test("rope_kv " + std::to_string(heads) + "/" + std::to_string(kvHeads) + " heads of " + std::to_string(headDim) + " how " + std::to_string(how));
  int T = 5, blocks = 6, width = (heads + 2 * kvHeads) * headDim, l = ld(width), row = up(headDim, 8) * 8, layers = 2, positions = 50;
  i64 one = (i64)2 * kvHeads * bt * row, stride = one * layers;
  Memory<u16> qkv((size_t)T * l), kv(stride * blocks);
  fill(qkv, T, width);
  Memory<float> table((size_t)positions * half * 2), qw(headDim * heads), kw(headDim * kvHeads), vw(headDim * kvHeads);
  for (int p = 0; p < positions; p++)
    for (int i = 0; i < half; i++) {
      double a = p * pow(100, -(double)i / half);
      table[((size_t)p * half + i) * 2] = cos(a), table[((size_t)p * half + i) * 2 + 1] = sin(a);
    }
  for (size_t i = 0; i < qw.n; i++) qw[i] = frand();
  for (size_t i = 0; i < kw.n; i++) kw[i] = frand(), vw[i] = frand();
  Memory<i32> pos(T), slots(T);
  for (int t = 0; t < T; t++) pos[t] = irand(0, positions - 1), slots[t] = t * bt + irand(0, bt - 1) + bt;
  slots[3] = -1;
  table.keep(), qw.keep(), kw.keep(), vw.keep(), pos.keep(), slots.keep();
  std::vector<u16> in(qkv.p, qkv.p + qkv.n), cache(kv.p, kv.p + kv.n), seen = cache;
  const int layer = 1;
  launch("rope_kv", {T, up(heads + 2 * kvHeads, norm ? 12 : 4)}, {qkv.p, qkv.p + heads * headDim, qkv.p + (heads + kvHeads) * headDim, kv.p + layer * one, table, pos, slots, weights ? qw.p : (float *)nullptr,
                          weights ? kw.p : (float *)nullptr, weights ? vw.p : (float *)nullptr, heads, kvHeads, headDim, half, offset, l, bt, stride, how, 1e-6f, 0.1f, 0.2f});
  Error e;
  for (int t = 0; t < T; t++)
    for (int h = 0; h < heads + 2 * kvHeads; h++) {
      bool isq = h < heads, isv = h >= heads + kvHeads;
      const u16 *src = &in[(size_t)t * l + h * headDim];
      std::vector<double> v(headDim), o(row, 0);
      auto norm_head = [&](std::vector<double> &v) {
        double s = 0, mean = 0;
        for (int d = 0; d < headDim; d++) mean += v[d] / headDim;
        for (int d = 0; d < headDim; d++) v[d] -= how & 8 ? mean : 0, s += v[d] * v[d];
        const Memory<float> &w = isq ? qw : isv ? vw : kw;
        int own = how & 32 ? (isq ? h : isv ? h - heads - kvHeads : h - heads) * headDim : 0;
        for (int d = 0; d < headDim; d++) v[d] = v[d] / sqrt(s / headDim + (isq ? 1e-6 : isv ? 0.2f : 0.1f)) * (weights ? w[own + d] : 1);
      };
      for (int d = 0; d < headDim; d++) v[d] = value(src[d]);
      bool normed = how & (isq ? 1 : isv ? 4 : 2);
      if (normed && !(how & 16)) norm_head(v);
      for (int d = 0; d < headDim; d++) o[d] = v[d];
      for (int i = 0; i < half && !isv; i++) {
        int a = offset + (how & 64 ? 2 * i : i), b = a + (how & 64 ? 1 : half);
        double c = table[((size_t)pos[t] * half + i) * 2], sn = table[((size_t)pos[t] * half + i) * 2 + 1];
        o[a] = v[a] * c - v[b] * sn, o[b] = v[b] * c + v[a] * sn;
      }
      if (normed && how & 16) norm_head(o);
      if (isq) {
        for (int d = 0; d < headDim; d++) e.add(value(qkv[(size_t)t * l + h * headDim + d]), o[d]);
        continue;
      }
      for (int d = 0; d < headDim; d++)
        if (qkv[(size_t)t * l + h * headDim + d] != src[d]) return wrong("k or v of token %d changed", t);
      if (slots[t] < 0) continue;
      int hk = h - heads; // keys, then values
      size_t at = (size_t)(slots[t] / bt) * stride + layer * one + ((size_t)hk * bt + slots[t] % bt) * row;
      for (int d = 0; d < row; d++) {
        if (d < headDim) e.add(value(kv[at + d]), o[d]);
        else if (kv[at + d]) return wrong("no zero behind a row of the cache");
        seen[at + d] = kv[at + d];
      }
    }
  e.judge(BF16_LIMIT);
  if (memcmp(seen.data(), kv.p, kv.n * 2)) wrong("the cache changed elsewhere");
  for (int t = 0; t < T; t++)
    for (int c = width; c < l; c++)
      if (qkv[(size_t)t * l + c]) return wrong("behind the row");
}

static void gates(int T, int width) {
  test("silu_gate " + std::to_string(width));
  Memory<u16> gu((size_t)T * ld(2 * width)), y((size_t)T * ld(width));
  fill(gu, T, 2 * width, 4);
  y.zero();
  gu.keep();
  launch("silu_gate", {T, up(width, 2048)}, {y, gu, width, ld(2 * width), ld(width)});
  Error e;
  for (int t = 0; t < T; t++)
    for (int c = 0; c < width; c++) e.add(value(y[(size_t)t * ld(width) + c]), silu_(value(gu[(size_t)t * ld(2 * width) + c])) * value(gu[(size_t)t * ld(2 * width) + width + c]));
  e.judge(BF16_LIMIT);
  zeros_behind(y, T, width);
}

static void gathers(int rows, int bytes) {
  test("gather " + std::to_string(bytes));
  Memory<u8> src((size_t)9 * (bytes + 32)), dst((size_t)rows * (bytes + 16));
  for (size_t i = 0; i < src.n; i++) src[i] = (u8)irand(0, 255);
  Memory<i32> at(rows);
  for (int r = 0; r < rows; r++) at[r] = irand(0, 8);
  src.keep(), at.keep();
  launch("gather", {rows}, {dst, src, at, bytes, (i64)bytes + 16, (i64)bytes + 32});
  for (int r = 0; r < rows; r++)
    for (int i = 0; i < bytes + 16; i++)
      if (dst[(size_t)r * (bytes + 16) + i] != (i < bytes ? src[(size_t)at[r] * (bytes + 32) + i] : 0xff)) return wrong("row %d byte %d", r, i);
}

static void probes() {
  test("probes");
  int n = 40000, blocks = 2;
  Memory<u32> p((size_t)n * 4), q(p.n), out((size_t)blocks * 512);
  for (size_t i = 0; i < p.n; i++) p[i] = (u32)rng();
  p.keep();
  launch("stream_copy", {blocks}, {q, p, (i64)n});
  launch("stream_read", {blocks}, {out, p, (i64)n});
  u32 all = 0, sum = 0;
  for (size_t i = 0; i < p.n; i++) all ^= p[i];
  for (size_t i = 0; i < out.n; i++) sum ^= out[i];
  if (memcmp(p.p, q.p, p.n * 4) || all != sum) wrong("stream");
  Memory<u16> h(1001);
  launch("fill_bf16", {2}, {h, (i64)1001, 5});
  double s = 0;
  for (size_t i = 0; i < h.n; i++) {
    double v = value(h[i]);
    s += v;
    if (!(fabs(v) < 1) || fmod(fabs(v * 256), 2) != 1) return wrong("fill %zu is %g", i, v);
  }
  if (fabs(s) > 80) wrong("fill has the mean %g", s / h.n);
  Memory<float> x(300), y(300);
  for (int i = 0; i < 300; i++) x[i] = 0.01f + i * 0.1f;
  for (int which = 0; which < 3; which++) {
    launch("approx", {2}, {y, x, 300, which});
    for (int i = 0; i < 300; i++) {
      double want = which == 0 ? exp2(x[i]) : which == 1 ? 1 / sqrt(x[i]) : 1 / x[i];
      if (fabs(y[i] / want - 1) > 1e-6) return wrong("approx %d of %g", which, x[i]);
    }
  }
}

int main() {
  embedding(100, 36), embedding(70, 64), embedding(64, 1032);
  for (int f : {Q8, Q4}) embedding_blocks(f, 100, 36), embedding_blocks(f, 70, 64), embedding_blocks(f, 64, 1032);
  packing(64, 70, 64, 0), packing(10, 20, 36, 0), packing(3, 130, 200, 1), packing(65, 1, 66, 2);
  for (int f : {Q8, Q4}) quantized(f, 64, 70, 64, 0, false), quantized(f, 5, 30, 44, 1, false), quantized(f, 30, 20, 200, 2, false), quantized(f, 64, 64, 72, 0, true);
  interleaving(64, 40), interleaving(96, 64);
  for (int dim : {2, 36, 64, 1024, 1030, 4096}) norms(3, dim);
  adding(3, 36), adding(2, 2050);
  head_norms(3, 3, 10), head_norms(2, 8, 64), head_norms(2, 5, 128), head_norms(1, 2, 256);
  rope(4, 2, 64, 32, 16, 0), rope(3, 1, 10, 5, 16, 0), rope(8, 8, 128, 64, 32, 3), rope(6, 2, 32, 8, 16, 3), rope(2, 1, 256, 128, 16, 3);
  rope(4, 2, 64, 32, 16, 64), rope(4, 2, 48, 10, 16, 64 + 7, 12), rope(4, 2, 48, 10, 16, 7, 28, false), rope(4, 2, 64, 32, 16, 3 + 8 + 32), rope(6, 3, 36, 18, 16, 3 + 16), rope(2, 2, 128, 64, 16, 7 + 8 + 16 + 32), rope(3, 1, 64, 32, 16, 4, 0, false);
  probes();
  gates(3, 44), gates(2, 768), gates(1, 4100);
  gathers(5, 16), gathers(3, 4096);
  test("tick and set_flag");
  Memory<u32> word(2);
  word[0] = 5;
  launch("tick", {1}, {word});
  launch("set_flag", {1}, {word.p + 1, 77});
  if (word[0] != 6 || word[1] != 77) wrong("%u %u", word[0], word[1]);
  return finish("rows");
}
