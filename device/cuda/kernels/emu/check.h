// What the tests of the kernels share: memory between guards, launches by name
// as a driver makes them, comparison with double precision.
#pragma once

#include <algorithm>
#include <random>
#include "emu.h"

namespace check {
struct TableEntry {
  const char *name;
  int threads, shared;
};
static const TableEntry table[] = {
#include "table.h"
};

static int failures, tests;
static std::mt19937 rng(7);
static std::string current;
inline void test(const std::string &name) {
  current = name;
  tests++;
}
template <class... A> void wrong(const char *format, A... a) {
  if (failures++ < 40) {
    printf("WRONG %s: ", current.c_str());
    printf(format, a...);
    printf("\n");
  }
  if (getenv("GK_EMU_STOP")) { // one is enough for whoever planted a bug
    fflush(stdout);
    _Exit(1);
  }
}
inline int finish(const char *what) {
  printf("%s: %d tests, %d wrong\n", what, tests, failures);
  return failures != 0;
}

inline int irand(int lo, int hi) { return std::uniform_int_distribution<int>(lo, hi)(rng); }
inline float frand() { return std::normal_distribution<float>()(rng); }

// Device memory: aligned like an allocation, with guards on both sides. It starts
// as NaN; intact() says whether a kernel wrote beside it.
struct Guarded {
  virtual bool intact() const = 0;
  virtual ~Guarded() {}
};
static std::vector<Guarded *> all;
template <class T> struct Memory : Guarded {
  static constexpr size_t guard = 512;
  size_t n;
  u8 *base;
  T *p;
  std::vector<T> kept; // what an input must still hold after a launch
  explicit Memory(size_t n) : n(n) {
    size_t bytes = (n * sizeof(T) + 255) / 256 * 256;
    base = (u8 *)aligned_alloc(256, bytes + 2 * guard);
    memset(base, 0xa5, bytes + 2 * guard);
    p = (T *)(base + guard);
    memset((void *)p, 0xff, n * sizeof(T));
    all.push_back(this);
  }
  Memory(const Memory &) = delete;
  ~Memory() override {
    all.erase(std::find(all.begin(), all.end(), this));
    free(base);
  }
  T &operator[](size_t i) { return p[i]; }
  const T &operator[](size_t i) const { return p[i]; }
  void zero() { memset((void *)p, 0, n * sizeof(T)); }
  void keep() { kept.assign(p, p + n); } // from now on a constant
  bool intact() const override {
    size_t bytes = (n * sizeof(T) + 255) / 256 * 256;
    for (size_t i = 0; i < guard; i++)
      if (base[i] != 0xa5) return false;
    for (size_t i = guard + n * sizeof(T); i < bytes + 2 * guard; i++)
      if (base[i] != 0xa5) return false;
    return kept.empty() || memcmp(kept.data(), p, n * sizeof(T)) == 0;
  }
};

inline float value(u16 h) {
  u32 u = (u32)h << 16;
  float f;
  memcpy(&f, &u, 4);
  return f;
}
inline u16 rounded(float f) { return (u16)emu_bf16(f); }
inline int ld(int width) { return (width + 63) / 64 * 64; }
inline int up(int a, int b) { return (a + b - 1) / b; }

// An activation as the launch table wants it: zeros behind its width.
inline void fill(Memory<u16> &m, int rows, int width, float size = 1) {
  m.zero();
  for (int r = 0; r < rows; r++)
    for (int c = 0; c < width; c++) m[(size_t)r * ld(width) + c] = rounded(frand() * size);
}
inline void fill(Memory<float> &m, int rows, int width, float size = 1) {
  m.zero();
  for (int r = 0; r < rows; r++)
    for (int c = 0; c < width; c++) m[(size_t)r * ld(width) + c] = frand() * size;
}

// Parameters in slots of 8 bytes, as cu.Function.Launch makes them.
struct Slot {
  u64 v = 0;
  template <class T> Slot(T *p) : v((u64)p) {}
  template <class T> Slot(const Memory<T> &m) : v((u64)m.p) {}
  Slot(int i) { memcpy(&v, &i, 4); }
  Slot(i64 i) { memcpy(&v, &i, 8); }
  Slot(float f) { memcpy(&v, &f, 4); }
  Slot(std::nullptr_t) {}
};
struct Dim {
  int x, y = 1, z = 1;
};
// The first parameters are tensor maps where some are given.
inline void launch(const char *name, Dim grid, std::vector<Slot> slots, TMap *maps = nullptr, int n = 0) {
  auto k = emu::registry().find(name);
  const TableEntry *e = nullptr;
  for (auto &t : table)
    if (!strcmp(t.name, name)) e = &t;
  if (k == emu::registry().end() || !e || k->second.maxthreads != e->threads) {
    wrong("no kernel %s of that block size", name);
    return;
  }
  std::vector<void *> params;
  for (auto &s : slots) params.push_back(&s.v);
  for (int i = 0; i < n; i++) params[i] = &maps[i];
  emu::launch(grid.x, grid.y, grid.z, e->threads, e->shared, k->second.bind(params.data()));
  for (auto g : all)
    if (!g->intact()) {
      wrong("%s wrote where it must not", name);
      break;
    }
}

// got against want: the error's norm over want's, and the worst single one over
// the root mean square of want.
struct Error {
  double diff = 0, size = 0, worst = 0;
  size_t n = 0;
  bool nan = false;
  void add(double got, double want) {
    double d = got - want;
    if (!(d == d)) nan = true;
    diff += d * d;
    size += want * want;
    worst = std::max(worst, fabs(d));
    n++;
  }
  void judge(double limit) const {
    double rms = sqrt(size / std::max<size_t>(n, 1)), rel = sqrt(diff / std::max(size, 1e-30));
    if (nan || rel > limit || worst > 24 * limit * rms) wrong("relative error %.3g, worst %.3g of the rms, limit %.3g%s", rel, worst / rms, limit, nan ? ", NaN" : "");
  }
};
constexpr double BF16_LIMIT = 4e-3; // rounding to bf16 alone is 1.6e-3 in the norm
constexpr double F32 = 2e-6;

// A matrix [n, k] in tiles of 64 by 64 (abi.go).
inline size_t tile_size(int n, int k) { return (size_t)up(n, 64) * up(k, 64) * 4096; }
inline size_t tile_at(int r, int c, int k) {
  return ((size_t)(r / 64) * up(k, 64) + c / 64) * 4096 + r % 64 * 64 + ((c % 64 / 8) ^ (r % 8)) * 8 + c % 8;
}
inline void pack(Memory<u16> &w, const std::vector<float> &m, int n, int k) {
  w.zero();
  for (int r = 0; r < n; r++)
    for (int c = 0; c < k; c++) w[tile_at(r, c, k)] = rounded(m[(size_t)r * k + c]);
}
} // namespace check
