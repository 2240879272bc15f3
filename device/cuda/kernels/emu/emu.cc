
#include "emu.h"
#include <algorithm>
#include <random>
#include <sys/mman.h>
#include "hopper_model.h"
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_UNPOISON_MEMORY_REGION(p, n)
#endif

namespace emu {
Block *block;
Fiber *self;
void *scheduler;
std::vector<std::function<bool()>> copies;
std::vector<WgmmaQueue> queues;
std::vector<Warpgroup> warpgroups;
std::map<std::string, Kern> &registry() {
  static std::map<std::string, Kern> r;
  return r;
}

// Saves what the System V ABI lets a callee keep, swaps stacks.
asm(R"(
.text
.globl emu_switch
emu_switch:
  push %rbp
  push %rbx
  push %r12
  push %r13
  push %r14
  push %r15
  mov %rsp,(%rdi)
  mov %rsi,%rsp
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbx
  pop %rbp
  ret
)");

static void run_fiber() {
  (*block->body)();
  if (!self->open.empty()) fail("cp.async without commit");
  self->done = true;
  block->alive--;
  if (block->alive && block->arrived == block->alive) { // the rest wait for nobody
    block->arrived = 0;
    block->gen++;
  }
  emu_switch(&self->sp, scheduler);
  abort();
}

static const size_t stack_size = 256 << 10;
extern "C" u8 __start_gksmem[] __attribute__((weak));
extern "C" u8 __stop_gksmem[] __attribute__((weak));

static void start(Fiber &f, int tid, u8 *stack) {
  f.tid = tid;
  f.done = false;
  f.wait_at = nullptr;
  f.turn = 0;
  f.groups.clear();
  f.open.clear();
  ASAN_UNPOISON_MEMORY_REGION(stack, stack_size); // the fiber before did not return
  void **sp = (void **)(stack + stack_size - 64);
  *--sp = nullptr;
  *--sp = (void *)run_fiber;
  for (int k = 0; k < 6; k++) *--sp = nullptr;
  f.sp = sp;
}

// With a seed some warps run slower than others for a while, so that what one
// warp may do to another before the next barrier does happen.
static void run_block(Block &b, std::vector<Fiber> &fibers, const std::vector<int> &order, std::mt19937 *rng) {
  std::vector<unsigned> pace((b.threads + 31) / 32, 1);
  std::vector<char> rests(pace.size(), 0);
  for (int round = 0; b.alive; round++) {
    bool progress = false;
    for (size_t w = 0; rng && w < pace.size(); w++) {
      if (round % 64 == 0) pace[w] = 1u << (*rng)() % 4;
      rests[w] = (*rng)() % pace[w] != 0;
    }
    for (int i : order) {
      Fiber &f = fibers[i];
      if (f.done || (f.wait_at && *f.wait_at == f.wait_for)) continue;
      progress = true;
      if (rests[i >> 5]) continue;
      self = &f;
      emu_switch(&scheduler, f.sp);
    }
    for (size_t i = 0; i < copies.size();) {
      if (copies[i]()) copies.erase(copies.begin() + i);
      else i++;
      progress = true;
    }
    if (!progress) fail("deadlock: threads wait for a barrier that others do not reach");
  }
}

void launch(int gx, int gy, int gz, int threads, size_t shared, const std::function<void()> &body) {
  static std::vector<u8 *> stacks;
  while ((int)stacks.size() < threads) stacks.push_back((u8 *)mmap(0, stack_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  static const char *seed = getenv("GK_EMU_SEED");
  static std::mt19937 rng(seed ? atoi(seed) : 1);
  std::vector<Fiber> fibers(threads);
  std::vector<Warp> warps((threads + 31) / 32);
  std::vector<int> order(threads), blocks(gx * gy * gz);
  for (int i = 0; i < threads; i++) order[i] = i;
  for (size_t i = 0; i < blocks.size(); i++) blocks[i] = i;
  if (seed) std::shuffle(blocks.begin(), blocks.end(), rng);
  shared += STATIC;
  void *all = nullptr;
  if (posix_memalign(&all, 1024, shared)) fail("no memory");
  u8 *mem = (u8 *)all; // of this size exactly, for AddressSanitizer
  for (int at : blocks) {
    memset(mem, 0xff, shared);
    if (__start_gksmem) memset(__start_gksmem, 0xff, __stop_gksmem - __start_gksmem);
    Block b{threads, threads, 0, 0, at % gx, at / gx % gy, at / gx / gy, gx, gy, mem, fibers.data(), warps.data(), &body};
    block = &b;
    for (int i = 0; i < threads; i++) start(fibers[i], i, stacks[i]);
    for (auto &w : warps) w.arrived = 0;
    queues.assign(threads, WgmmaQueue());
    warpgroups.assign((threads + 127) / 128, Warpgroup());
    copies.clear();
    if (seed) std::shuffle(order.begin(), order.end(), rng);
    run_block(b, fibers, order, seed ? &rng : nullptr);
    self = nullptr;
  }
  free(mem);
  block = nullptr;
}
} // namespace emu

float half_to_float(u16 h) {
  u32 sign = (u32)(h & 0x8000) << 16, e = h >> 10 & 31, m = h & 0x3ff, u;
  if (e == 0) return (sign ? -1.0f : 1.0f) * (float)m * (1.0f / (1 << 24));
  u = e == 31 ? sign | 0x7f800000 | m << 13 : sign | (e + 112) << 23 | m << 13;
  float f;
  memcpy(&f, &u, 4);
  return f;
}
u16 float_to_half(float v) { // to nearest even, by the spacing of halves at |v|
  u16 sign = std::signbit(v) ? 0x8000 : 0;
  double a = fabs((double)v);
  if (std::isnan(v)) return 0x7e00;
  if (a >= 65520) return sign | 0x7c00;
  int e = a < 6.103515625e-05 ? -14 : (int)floor(log2(a));
  double unit = ldexp(1, e - 10), n = nearbyint(a / unit);
  if (a < 6.103515625e-05) return sign | (u16)n;
  return sign | (u16)(((e + 15) << 10) + ((int)n - 1024));
}
