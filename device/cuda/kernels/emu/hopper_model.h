// Hopper in the emulator. A bulk copy lands some rounds of the scheduler after
// its start; a wgmma reads its operands when its group is waited for, as late as
// the ISA allows. A tensor map is what a test or a driver for tests writes: base,
// width, height, pitch in bytes, box width, box height; bf16, 128-byte swizzle.
#pragma once
namespace emu {
struct WgmmaOp {
  float *d;
  u64 a, b;
  int n, acc;
};
struct WgmmaQueue {
  std::vector<std::vector<WgmmaOp>> groups;
  std::vector<WgmmaOp> open;
};
struct Warpgroup {
  int arrived = 0;
  unsigned gen = 0;
};
extern std::vector<std::function<bool()>> copies; // of the running block; true when landed
extern std::vector<WgmmaQueue> queues;            // by thread
extern std::vector<Warpgroup> warpgroups;
inline void warpgroup_barrier() {
  Warpgroup &g = warpgroups[self->tid >> 7];
  if (++g.arrived == 128) {
    g.arrived = 0;
    g.gen++;
  } else {
    wait(&g.gen);
  }
}
// The word of an mbarrier: bit 0 phase, 1..12 arrivals of a phase, 13..24 those still missing, 32..63 bytes still missing (signed).
inline void mbar_turn(u64 &w) {
  if ((w >> 13 & 0xfff) == 0 && (int)(w >> 32) == 0) {
    u64 n = w >> 1 & 0xfff;
    w = ((w & 1) ^ 1) | n << 1 | n << 13;
  }
}
inline void mbar_bytes(u64 *b, int d) { *b = (*b & 0xffffffffull) | (u64)(u32)((int)(*b >> 32) + d) << 32; }
} // namespace emu

DEV u32 smem_u32(const void *p) { return (u32)((const u8 *)p - emu::block->shared); }
DEV void mbar_init(u64 *b, u32 n) { *b = (u64)n << 1 | (u64)n << 13; }
DEV void mbar_fence_init() {}
DEV void mbar_arrive(u64 *b) {
  if ((*b >> 13 & 0xfff) == 0) emu::fail("more arrivals at an mbarrier than it was made for");
  *b -= 1ull << 13;
  emu::mbar_turn(*b);
}
DEV void mbar_expect(u64 *b, u32 n) {
  emu::mbar_bytes(b, (int)n);
  mbar_arrive(b);
}
DEV void mbar_wait(u64 *b, u32 parity) {
  for (long spins = 0; (*b & 1) == parity; emu::yield())
    if (++spins > 200000) emu::fail("a wait at an mbarrier never ends");
}
DEV u32 mbar_try(u64 *b, u32 parity) {
  if ((*b & 1) != parity) return 1;
  emu::yield();
  return 0;
}
DEV void pause_ns(u32 ns) {
  for (u32 i = 0; i < ns; i += 128) emu::yield();
}
DEV void tma2d(void *dst, const TMap *map, u64 *bar, int x, int y) {
  TMap t = *map;
  int w = (int)t.v[4], h = (int)t.v[5];
  if (smem_u32(dst) & 1023 || w != 64) emu::fail("a box of TMA must have 64 columns and start at a multiple of 1024 bytes");
  memset(dst, 0xff, (size_t)w * h * 2);
  int age = 0;
  emu::copies.push_back([=]() mutable -> bool {
    if (++age < 3) return false;
    for (int r = 0; r < h; r++)
      for (int c = 0; c < 64; c++) {
        i64 gx = x + c, gy = y + r;
        u16 v = gx >= 0 && gx < (i64)t.v[1] && gy >= 0 && gy < (i64)t.v[2] ? *(const u16 *)(t.v[0] + gy * t.v[3] + gx * 2) : 0;
        memcpy((u8 *)dst + r * 128 + (((c >> 3) ^ (r & 7)) << 4) + (c & 7) * 2, &v, 2);
      }
    emu::mbar_bytes(bar, -w * h * 2);
    emu::mbar_turn(*bar);
    return true;
  });
}
DEV void bulk_copy(void *dst, const void *src, u32 bytes, u64 *bar) {
  if ((smem_u32(dst) | (u64)src | bytes) & 15) emu::fail("a bulk copy that is not in units of 16 bytes");
  memset(dst, 0xff, bytes);
  int age = 0;
  emu::copies.push_back([=]() mutable -> bool {
    if (++age < 2) return false;
    memcpy(dst, src, bytes);
    emu::mbar_bytes(bar, -(int)bytes);
    emu::mbar_turn(*bar);
    return true;
  });
}
DEV void wg_fence() {}
DEV void wg_commit() {
  auto &q = emu::queues[emu::self->tid];
  q.groups.push_back(q.open);
  q.open.clear();
}
// Element (row, k) of an operand behind a descriptor.
DEV float wg_element(u64 desc, int r, int k) {
  u32 at = (u32)(desc & 0x3fff) << 4;
  at += (r >> 3) * ((u32)(desc >> 32 & 0x3fff) << 4) + (r & 7) * 128 + k * 2;
  if (desc >> 62 == 1) at ^= (at >> 7 & 7) << 4;
  u16 h;
  memcpy(&h, emu::block->shared + at, 2);
  return emu_bf(h, 0);
}
template <int N> DEV void wg_wait() {
  auto &q = emu::queues[emu::self->tid];
  int l = emu::lane(), warp = emu::self->tid >> 5 & 3;
  while ((int)q.groups.size() > N) {
    for (auto &o : q.groups.front())
      for (int h = 0; h < 2; h++) {
        float a[16];
        for (int k = 0; k < 16; k++) a[k] = wg_element(o.a, warp * 16 + (l >> 2) + h * 8, k);
        for (int j = 0; j < o.n / 8; j++)
          for (int c = 0; c < 2; c++) {
            float &d = o.d[j * 4 + h * 2 + c], s = o.acc ? d : 0;
            for (int k = 0; k < 16; k++) s += a[k] * wg_element(o.b, j * 8 + (l & 3) * 2 + c, k);
            d = s;
          }
      }
    q.groups.erase(q.groups.begin());
  }
  emu::warpgroup_barrier(); // taken as a rendezvous of the warpgroup
}
template <int N> DEV void reg_dec() {}
template <int N> DEV void reg_inc() {}
template <int N> struct Wgmma {
  static void hold(float *) {}
  static void multiply(float *d, u64 a, u64 b, int acc) { emu::queues[emu::self->tid].open.push_back({d, a, b, N, acc}); }
};
