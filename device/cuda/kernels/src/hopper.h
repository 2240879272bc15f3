// Hopper's asynchronous copies and matrix products (PTX ISA 8.0, sm_90a).
#pragma once
#include "device.h"
#ifndef GK_EMU
DEV void mbar_init(u64 *b, u32 n) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(smem_u32(b)), "r"(n) : "memory"); }
// Barriers that were initialised before this are seen by the copy engine and other threads after it (and a block barrier).
DEV void mbar_fence_init() { asm volatile("fence.mbarrier_init.release.cluster;\n\tfence.proxy.async.shared::cta;" ::: "memory"); }
DEV void mbar_expect(u64 *b, u32 n) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(smem_u32(b)), "r"(n) : "memory"); }
DEV void mbar_arrive(u64 *b) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(smem_u32(b)) : "memory"); }
DEV u32 mbar_try(u64 *b, u32 parity) {
  u32 ok;
  asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }" : "=r"(ok) : "r"(smem_u32(b)), "r"(parity) : "memory");
  return ok;
}
DEV void mbar_wait(u64 *b, u32 parity) {
  while (!mbar_try(b, parity)) {}
}
// A box of the tensor map from column x, row y on.
DEV void tma2d(void *dst, const TMap *m, u64 *bar, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(smem_u32(dst)), "l"(m), "r"(x), "r"(y),
               "r"(smem_u32(bar)) : "memory");
}
// Contiguous bytes, a multiple of 16.
DEV void bulk_copy(void *dst, const void *src, u32 bytes, u64 *bar) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(smem_u32(dst)), "l"(src), "r"(bytes), "r"(smem_u32(bar)) : "memory");
}
DEV void wg_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEV void wg_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> DEV void wg_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory"); }
template <int N> DEV void reg_dec() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N)); }
template <int N> DEV void reg_inc() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N)); }
#define ACC4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define ACC8(i) ACC4(i), ACC4(i + 4)
#define ACC16(i) ACC8(i), ACC8(i + 8)
#define ACC32(i) ACC16(i), ACC16(i + 16)
#define ACC64(i) ACC32(i), ACC32(i + 32)
#define ACC128(i) ACC64(i), ACC64(i + 64)
// wgmma<N>: d[64, N] = a[64, 16] · b[N, 16]ᵀ + (acc ? d : 0), both operands in shared memory.
// hold<N>: ties the accumulators to this point. A memory clobber does not order registers, so a read of d could move above the wait.
template <int N> struct Wgmma;
template <> struct Wgmma<8> {
  static DEV_METHOD void hold(float *d) { asm volatile("" : ACC4(0)::"memory"); }
  static DEV_METHOD void multiply(float *d, u64 a, u64 b, int acc) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %6, 0; wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3}, "
                 "%4, %5, p, 1, 1, 0, 0; }" : ACC4(0) : "l"(a), "l"(b), "r"(acc));
  }
};
template <> struct Wgmma<16> {
  static DEV_METHOD void hold(float *d) { asm volatile("" : ACC8(0)::"memory"); }
  static DEV_METHOD void multiply(float *d, u64 a, u64 b, int acc) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %10, 0; wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7}, "
                 "%8, %9, p, 1, 1, 0, 0; }" : ACC8(0) : "l"(a), "l"(b), "r"(acc));
  }
};
template <> struct Wgmma<32> {
  static DEV_METHOD void hold(float *d) { asm volatile("" : ACC16(0)::"memory"); }
  static DEV_METHOD void multiply(float *d, u64 a, u64 b, int acc) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %18, 0; wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
                 "%16, %17, p, 1, 1, 0, 0; }" : ACC16(0) : "l"(a), "l"(b), "r"(acc));
  }
};
template <> struct Wgmma<64> {
  static DEV_METHOD void hold(float *d) { asm volatile("" : ACC32(0)::"memory"); }
  static DEV_METHOD void multiply(float *d, u64 a, u64 b, int acc) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %34, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
                 "%32, %33, p, 1, 1, 0, 0; }" : ACC32(0) : "l"(a), "l"(b), "r"(acc));
  }
};
template <> struct Wgmma<128> {
  static DEV_METHOD void hold(float *d) { asm volatile("" : ACC64(0)::"memory"); }
  static DEV_METHOD void multiply(float *d, u64 a, u64 b, int acc) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %66, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
                 "%64, %65, p, 1, 1, 0, 0; }" : ACC64(0) : "l"(a), "l"(b), "r"(acc));
  }
};
template <> struct Wgmma<256> {
  static DEV_METHOD void hold(float *d) { asm volatile("" : ACC128(0)::"memory"); }
  static DEV_METHOD void multiply(float *d, u64 a, u64 b, int acc) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %130, 0; wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
                 "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
                 "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "
                 "%128, %129, p, 1, 1, 0, 0; }" : ACC128(0) : "l"(a), "l"(b), "r"(acc));
  }
};
#else
#include "../emu/hopper_model.h"
#endif
// The first address from p on where tiles with the swizzle of 128 bytes may lie: a multiple of 1024. What is behind p must be SWIZZLE_ROOM longer than the tiles.
constexpr int SWIZZLE_ROOM = 1024;
DEV u8 *swizzled(u8 *p) { return p + (-smem_u32(p) & (SWIZZLE_ROOM - 1)); }
// Operands whose rows are 128 bytes, swizzled by 128, in groups of 8 rows 1024 bytes apart.
DEV u64 wg_desc(const void *p) { return (u64)(smem_u32(p) & 0x3ffff) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62; }
