// The emulator: runs kernel sources on a CPU, a fiber per CUDA thread, one block
// at a time. It models what the kernels rely on as late and as unkindly as the
// ISA allows: shared memory starts as NaN, asynchronous copies land only when
// they are waited for, fibers and blocks run in a random order (GK_EMU_SEED).
// It proves agreement with our reading of the ISA, not with a GPU.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace emu {
struct Copy { // 16 bytes on their way to shared memory
  void *dst;
  u8 data[16];
};
struct Warp {
  int arrived = 0;
  unsigned gen = 0;
  u8 slot[2][32][64]; // what lanes show each other, in turns
};
struct Fiber {
  void *sp;
  int tid;
  bool done;
  unsigned *wait_at, wait_for; // blocked while *wait_at == wait_for
  int turn;
  std::vector<std::vector<Copy>> groups;
  std::vector<Copy> open;
};
struct Block {
  int threads, alive, arrived;
  unsigned gen;
  int x, y, z, gx, gy;
  u8 *shared;
  Fiber *fibers;
  Warp *warps;
  const std::function<void()> *body;
};
constexpr int STATIC = 16;
extern Block *block;
extern Fiber *self;
extern void *scheduler;
extern "C" void emu_switch(void **save, void *to);

[[noreturn]] inline void fail(const char *what) {
  fprintf(stderr, "emu: %s (thread %d of block %d,%d,%d)\n", what, self ? self->tid : -1, block ? block->x : -1, block ? block->y : -1, block ? block->z : -1);
  abort();
}
inline void yield() { emu_switch(&self->sp, scheduler); }
inline void wait(unsigned *at) {
  self->wait_at = at;
  self->wait_for = *at;
  yield();
  self->wait_at = nullptr;
}
inline void barrier() {
  if (++block->arrived == block->alive) {
    block->arrived = 0;
    block->gen++;
  } else {
    wait(&block->gen);
  }
}
inline int lane() { return self->tid & 31; }
inline void warp_barrier() {
  Warp &w = block->warps[self->tid >> 5];
  int lanes = block->threads - (self->tid & ~31);
  if (++w.arrived == (lanes > 32 ? 32 : lanes)) {
    w.arrived = 0;
    w.gen++;
  } else {
    wait(&w.gen);
  }
}
// Shown values of a warp's lanes. Two slots in turns: a slow lane may still read
// the old one while a fast lane writes the next.
template <class T> struct Shown {
  u8 (*at)[64];
  const T &operator[](int lane) const { return *(const T *)at[lane]; }
};
template <class T> Shown<T> show(const T &v) {
  static_assert(sizeof(T) <= 64, "");
  Warp &w = block->warps[self->tid >> 5];
  int t = self->turn;
  self->turn ^= 1;
  memcpy(w.slot[t][lane()], &v, sizeof v);
  warp_barrier();
  return Shown<T>{w.slot[t]};
}

struct Kern {
  std::function<std::function<void()>(void **)> bind; // copies the parameters
  int maxthreads;
};
std::map<std::string, Kern> &registry();
void launch(int gx, int gy, int gz, int threads, size_t shared, const std::function<void()> &body);
template <class... A, size_t... I> Kern make(void (*f)(A...), int threads, std::index_sequence<I...>) {
  return Kern{[f](void **p) -> std::function<void()> {
                std::tuple<A...> args{(*(A *)p[I])...};
                return [f, args] { std::apply(f, args); };
              },
              threads};
}
struct Registration {
  template <class... A> Registration(const char *name, void (*f)(A...), int threads) { 
    registry()[name] = make(f, threads, std::index_sequence_for<A...>());
  }
};
} // namespace emu

#define DEV static inline __attribute__((always_inline, unused))
#define DEV_METHOD inline __attribute__((always_inline))
#define KERNEL(name, threads, blocks) \
  enum { name##_threads = threads }; \
  static void name
#define REGISTER(name) static emu::Registration registered_##name(#name, name, name##_threads);
#define SMEM static __attribute__((section("gksmem")))
// As if each kernel had 16 bytes of static shared memory before it.
#define DYN_SMEM(name) u8 *name = emu::block->shared + emu::STATIC
#define UNROLL
#define ROLLED
#define TIDX (emu::self->tid)
#define BIDX (emu::block->x)
#define BIDY (emu::block->y)
#define BIDZ (emu::block->z)
#define GDIMX (emu::block->gx)
#define GDIMY (emu::block->gy)
#define TMAP_PARAM const TMap

DEV void sync() { emu::barrier(); }
DEV void sync_warp() { emu::warp_barrier(); }
DEV u32 shfl_xor(u32 v, int m) { return emu::show(v)[emu::lane() ^ m]; }
DEV u32 shfl(u32 v, int lane) { return emu::show(v)[lane & 31]; }
DEV float rsqrt_(float x) { return 1.0f / sqrtf(x); }
DEV float ex2(float x) { return exp2f(x); }
DEV float rcp(float x) { return 1.0f / x; }
DEV float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
DEV u32 mul_hi(u32 a, u32 b) { return (u32)((u64)a * b >> 32); }
DEV int clz(u32 v) { return v ? __builtin_clz(v) : 32; }
DEV int popc(u32 v) { return __builtin_popcount(v); }
DEV u32 emu_bf16(float f) {
  u32 u;
  memcpy(&u, &f, 4);
  if ((u & 0x7fffffff) > 0x7f800000) return 0x7fff;
  return (u + 0x7fff + (u >> 16 & 1)) >> 16;
}
DEV u32 pack2(float lo, float hi) { return emu_bf16(lo) | emu_bf16(hi) << 16; }
float half_to_float(u16 h);
u16 float_to_half(float v);
DEV u32 prmt(u32 a, u32 b, u32 sel) {
  u64 both = (u64)b << 32 | a;
  u32 r = 0;
  for (int i = 0; i < 4; i++) r |= (u32)(both >> (sel >> 4 * i & 7) * 8 & 0xff) << 8 * i;
  return r;
}
DEV float emu_bf(u32 v, int half) {
  u32 u = half ? v & 0xffff0000u : v << 16;
  float f;
  memcpy(&f, &u, 4);
  return f;
}
DEV u32 fma_bf16x2(u32 a, u32 b, u32 c) { // the operands here are small whole numbers: double rounding cannot show
  return pack2(emu_bf(a, 0) * emu_bf(b, 0) + emu_bf(c, 0), emu_bf(a, 1) * emu_bf(b, 1) + emu_bf(c, 1));
}
DEV void cp_async16(void *dst, const void *src, bool pred) {
  emu::Copy c;
  c.dst = dst;
  if (((u64)dst | (u64)src) & 15) emu::fail("cp.async of 16 bytes at an odd address");
  if (pred) memcpy(c.data, src, 16);
  else memset(c.data, 0, 16);
  memset(dst, 0xff, 16);
  emu::self->open.push_back(c);
}
DEV void cp_commit() {
  emu::self->groups.push_back(std::move(emu::self->open));
  emu::self->open.clear();
}
template <int N> DEV void cp_wait() {
  auto &g = emu::self->groups;
  while ((int)g.size() > N) {
    for (auto &c : g.front()) memcpy(c.dst, c.data, 16);
    g.erase(g.begin());
  }
}
DEV void ldmatrix4(u32 r[4], const void *p) {
  if ((u64)p & 15) emu::fail("ldmatrix of a row at an odd address");
  auto s = emu::show(p);
  int l = emu::lane();
  for (int i = 0; i < 4; i++) memcpy(&r[i], (const u16 *)s[i * 8 + (l >> 2)] + (l & 3) * 2, 4);
}
DEV void ldmatrix2(u32 r[2], const void *p) {
  if (emu::lane() < 16 && ((u64)p & 15)) emu::fail("ldmatrix of a row at an odd address");
  auto s = emu::show(p);
  int l = emu::lane();
  for (int i = 0; i < 2; i++) memcpy(&r[i], (const u16 *)s[i * 8 + (l >> 2)] + (l & 3) * 2, 4);
}
DEV void ldmatrix4t(u32 r[4], const void *p) {
  if ((u64)p & 15) emu::fail("ldmatrix of a row at an odd address");
  auto s = emu::show(p);
  int l = emu::lane();
  for (int i = 0; i < 4; i++) {
    u32 lo = ((const u16 *)s[i * 8 + (l & 3) * 2])[l >> 2], hi = ((const u16 *)s[i * 8 + (l & 3) * 2 + 1])[l >> 2];
    r[i] = lo | hi << 16;
  }
}
DEV void mma16816(float d[4], const u32 a[4], const u32 b[2]) {
  struct Operands {
    u32 a[4], b[2];
  } mine;
  memcpy(mine.a, a, 16);
  memcpy(mine.b, b, 8);
  auto s = emu::show(mine);
  int g = emu::lane() >> 2, t = emu::lane() & 3;
  for (int i = 0; i < 4; i++) {
    int row = g + (i >> 1) * 8, col = t * 2 + (i & 1);
    float sum = d[i];
    for (int k = 0; k < 16; k++) {
      float x = emu_bf(s[(row & 7) * 4 + ((k & 7) >> 1)].a[(row >> 3) + ((k >> 3) << 1)], k & 1);
      float y = emu_bf(s[col * 4 + ((k & 7) >> 1)].b[k >> 3], k & 1);
      sum += x * y;
    }
    d[i] = sum;
  }
}
DEV u32 atomic_add(u32 *p, u32 v) { u32 r = *p; *p += v; return r; }
DEV u32 smem_add(u32 *p, u32 v) { u32 r = *p; *p += v; return r; }
DEV u64 smem_add(u64 *p, u64 v) { u64 r = *p; *p += v; return r; }
DEV int opaque(int v) { return v; }
DEV void fence() {}
DEV void st_sys(u32 *p, u32 v) { *p = v; }
