// pick against what package sampler drew (testdata/pick.bin, pick_test.go).
#include "check.h"
#include "../src/pick.cu"
using namespace check;

static float logit(int style, u32 seed, int i) { // pickLogit
  u32 h = (u32)i * 0x9e3779b9u + seed;
  h ^= h >> 16, h *= 0x85ebca6bu, h ^= h >> 13, h *= 0xc2b2ae35u, h ^= h >> 16;
  float bell = (float)((i32)(h & 255) + (i32)(h >> 8 & 255) + (i32)(h >> 16 & 255) + (i32)(h >> 24) - 510) / 32;
  if (style == 1) return (float)((i32)(h % 37) - 18);
  if (style == 2) {
    float special[] = {NAN, INFINITY, -INFINITY, MAX_FLOAT, -0.0f, 0.0f};
    return h % 23 < 6 ? special[h % 23] : bell;
  }
  if (style == 3) return -INFINITY;
  if (style == 4) return bell / 1024;
  if (style == 5) return (h & 3) == 0 ? -0.0f : 0.0f;
  return bell;
}

static std::vector<u8> file;
static size_t at;
template <class T> static void take(T *p, size_t n) {
  if (at + n * sizeof(T) > file.size()) {
    printf("testdata/pick.bin is too short\n");
    exit(1);
  }
  memcpy((void *)p, &file[at], n * sizeof(T));
  at += n * sizeof(T);
}

static bool close(float got, float want) {
  if (got == want) return true;
  return fabs((double)got - want) <= 2e-7 * std::max(1.0, fabs((double)want));
}

static void one() {
  i32 head[6];
  take(head, 6);
  int vocab = head[0], style = head[1], n = head[3], words = up(vocab, 32), ldl = ld(vocab);
  u32 seed = head[2];
  Memory<Draw> rows(n);
  Memory<Edit> edits(head[4] + 1);
  Memory<u32> masks(head[5] + 1);
  take(rows.p, n), take(edits.p, head[4]), take(masks.p, head[5]);
  if (head[5] != 2 * words) wrong("masks");
  int tops = 0;
  for (int r = 0; r < n; r++) tops += rows[r].top;
  std::vector<i32> tokens(n), ranks(n), top_tokens(tops);
  std::vector<float> logprobs(n), top_logprobs(tops);
  take(tokens.data(), n), take(ranks.data(), n), take(logprobs.data(), n), take(top_tokens.data(), tops), take(top_logprobs.data(), tops);
  Memory<float> logits((size_t)n * ldl), z((size_t)n * ldl), near((size_t)n * ldl);
  for (int r = 0; r < n; r++)
    for (int i = 0; i < ldl; i++) logits[(size_t)r * ldl + i] = i < vocab ? logit(style, seed + r, i) : 1e30f; // nothing behind the vocabulary is looked at
  Memory<i32> drawn(n);
  Memory<PickResult> results(n);
  Memory<PickTop> top(tops + 1);
  rows.keep(), edits.keep(), masks.keep(), logits.keep();
  int first = n / 3; // in two launches, as a device does that holds few rows of logits
  for (int r0 : {0, first}) {
    int count = r0 ? n - first : first;
    test("pick, vocabulary " + std::to_string(vocab) + ", style " + std::to_string(style));
    launch("pick", {count}, {drawn, results, top, logits.p + (size_t)r0 * ldl, z.p + (size_t)r0 * ldl, near.p + (size_t)r0 * ldl, rows, edits, masks, r0, vocab, ldl});
  }
  int t0 = 0;
  for (int r = 0; r < n; t0 += rows[r].top, r++) {
    PickResult &p = results[r];
    if (drawn[r] != tokens[r] || p.token != tokens[r]) wrong("row %d drew %d, not %d", r, drawn[r], tokens[r]);
    if (rows[r].dead) continue;
    bool asked = rows[r].logprobs != NO_LOGPROBS;
    double mass = asked && p.mass ? log((double)p.mass / 1099511627776.0) : 0;
    auto logprob = [&](float v) { return (float)((double)v - (double)p.zmax - mass); };
    if (asked) {
      float got = p.z == -INFINITY ? -INFINITY : logprob(p.z);
      if (!close(got, logprobs[r])) wrong("row %d has logprob %g, not %g", r, got, logprobs[r]);
      if (p.rank != ranks[r]) wrong("row %d has rank %d, not %d", r, p.rank, ranks[r]);
    }
    for (int i = 0; i < rows[r].top; i++) {
      PickTop &q = top[t0 + i];
      float got = q.z == -INFINITY ? -INFINITY : logprob(q.z);
      if (q.token != top_tokens[t0 + i] || !close(got, top_logprobs[t0 + i])) {
        wrong("row %d, top %d is %d (%g), not %d (%g)", r, i, q.token, got, top_tokens[t0 + i], top_logprobs[t0 + i]);
        break;
      }
    }
  }
}

int main(int argc, char **argv) {
  FILE *f = fopen(argc > 1 ? argv[1] : "../testdata/pick.bin", "rb");
  if (!f) {
    printf("no testdata/pick.bin\n");
    return 1;
  }
  u8 buf[4096];
  for (size_t n; (n = fread(buf, 1, sizeof buf, f)) > 0;) file.insert(file.end(), buf, buf + n);
  fclose(f);
  while (at < file.size()) one();
  return finish("pick");
}
