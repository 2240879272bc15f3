// What kernels are written against: clang or nvcc for a GPU, or (GK_EMU) the
// emulator of ../emu, where a thread is a fiber. No SDK header is needed.
//
// The code is compiled with -ffp-contract=off: a product is fused into a sum
// only where fma() says so, as the Go reference rounds every operation.
// Arrays are indexed by unrolled loops alone; anything else puts them into local
// memory, which the PTX lint refuses.
#pragma once
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;
typedef long long i64;
typedef u32 u32x4 __attribute__((vector_size(16))); // a struct would be copied in halves, through local memory
typedef u32 u32x2 __attribute__((vector_size(8)));
typedef float f32x4 __attribute__((vector_size(16)));
typedef float f32x2 __attribute__((vector_size(8)));
struct alignas(128) TMap { // CUtensorMap: aligned to 64 in 12.x headers, to 128 in 13.x
  u64 v[16];
};

#ifndef GK_EMU
#ifdef __clang__
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define TIDX ((int)__nvvm_read_ptx_sreg_tid_x())
#define BIDX ((int)__nvvm_read_ptx_sreg_ctaid_x())
#define BIDY ((int)__nvvm_read_ptx_sreg_ctaid_y())
#define BIDZ ((int)__nvvm_read_ptx_sreg_ctaid_z())
#define GDIMX ((int)__nvvm_read_ptx_sreg_nctaid_x())
#define GDIMY ((int)__nvvm_read_ptx_sreg_nctaid_y())
#define TMAP_PARAM const __attribute__((grid_constant)) TMap
#else
#define TIDX ((int)threadIdx.x)
#define BIDX ((int)blockIdx.x)
#define BIDY ((int)blockIdx.y)
#define BIDZ ((int)blockIdx.z)
#define GDIMX ((int)gridDim.x)
#define GDIMY ((int)gridDim.y)
#define TMAP_PARAM const __grid_constant__ TMap
#endif
#define DEV static __device__ __attribute__((always_inline)) inline
#define DEV_METHOD __device__ __attribute__((always_inline)) inline
// blocks is how many should fit a processor together: without it ptxas may spill for an occupancy nobody asked for.
#define KERNEL(name, threads, blocks) extern "C" __global__ void __launch_bounds__(threads, blocks) name
#define REGISTER(name)
// Aligned to 16 bytes, whatever is asked for: the compiler in the driver lays it straight behind the static shared memory (seen on an H100 with driver 580;
// ptxas alone rounds up). Copies that need more align it themselves, as swizzled() does.
#define DYN_SMEM(name) extern __shared__ __attribute__((aligned(16))) u8 name[]
#define SMEM __shared__
#define UNROLL _Pragma("unroll")
#define ROLLED _Pragma("unroll 1")

DEV void sync() { asm volatile("bar.sync 0;" ::: "memory"); }
DEV void sync_warp() { asm volatile("bar.warp.sync 0xffffffff;" ::: "memory"); }
DEV u32 shfl_xor(u32 v, int m) {
  u32 r;
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=r"(r) : "r"(v), "r"(m));
  return r;
}
DEV u32 shfl(u32 v, int lane) {
  u32 r;
  asm volatile("shfl.sync.idx.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=r"(r) : "r"(v), "r"(lane));
  return r;
}
DEV float rsqrt_(float x) { float r; asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
DEV float ex2(float x) { float r; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
DEV float rcp(float x) { float r; asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
DEV float fma(float a, float b, float c) { float r; asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(r) : "f"(a), "f"(b), "f"(c)); return r; }
DEV u32 mul_hi(u32 a, u32 b) { u32 r; asm("mul.hi.u32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); return r; }
DEV int clz(u32 v) { u32 r; asm("clz.b32 %0, %1;" : "=r"(r) : "r"(v)); return (int)r; }
DEV int popc(u32 v) { u32 r; asm("popc.b32 %0, %1;" : "=r"(r) : "r"(v)); return (int)r; }
DEV u32 pack2(float lo, float hi) { u32 r; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo)); return r; }
DEV float half_to_float(u16 h) { float r; asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(h)); return r; }
DEV u16 float_to_half(float v) { u16 r; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(v)); return r; }
DEV u32 prmt(u32 a, u32 b, u32 sel) { u32 r; asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(sel)); return r; }
DEV u32 fma_bf16x2(u32 a, u32 b, u32 c) { u32 r; asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); return r; }
DEV u32 smem_u32(const void *p) { return (u32)(u64)(__attribute__((address_space(3))) const void *)p; }

// 16 bytes to shared memory, zeros where !pred; L1 is bypassed.
DEV void cp_async16(void *dst, const void *src, bool pred) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(smem_u32(dst)), "l"(src), "r"(pred ? 16 : 0) : "memory");
}
DEV void cp_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> DEV void cp_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }
DEV void ldmatrix4(u32 r[4], const void *p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(smem_u32(p)) : "memory");
}
DEV void ldmatrix4t(u32 r[4], const void *p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(smem_u32(p)) : "memory");
}
DEV void ldmatrix2(u32 r[2], const void *p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(smem_u32(p)) : "memory");
}
// d[16, 8] += a[16, 16] · b[8, 16]ᵀ
DEV void mma16816(float d[4], const u32 a[4], const u32 b[2]) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
DEV u32 atomic_add(u32 *p, u32 v) { u32 r; asm volatile("atom.global.add.u32 %0, [%1], %2;" : "=r"(r) : "l"(p), "r"(v) : "memory"); return r; }
DEV u32 smem_add(u32 *p, u32 v) { u32 r; asm volatile("atom.shared.add.u32 %0, [%1], %2;" : "=r"(r) : "r"(smem_u32(p)), "r"(v) : "memory"); return r; }
DEV u64 smem_add(u64 *p, u64 v) { u64 r; asm volatile("atom.shared.add.u64 %0, [%1], %2;" : "=l"(r) : "r"(smem_u32(p)), "l"(v) : "memory"); return r; }
// The same number, but unknown to the compiler: addresses made of it are not
// computed before a loop and kept in registers through it.
DEV int opaque(int v) { asm volatile("" : "+r"(v)); return v; }
DEV void fence() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }
DEV void st_sys(u32 *p, u32 v) { asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory"); }
#else
#include "../emu/model.h"
#endif

DEV float as_float(u32 v) { return __builtin_bit_cast(float, v); }
DEV u32 as_u32(float v) { return __builtin_bit_cast(u32, v); }
DEV float shfl_xor(float v, int m) { return as_float(shfl_xor(as_u32(v), m)); }
DEV u64 shfl_xor(u64 v, int m) { return (u64)shfl_xor((u32)(v >> 32), m) << 32 | shfl_xor((u32)v, m); }
DEV float bf(u16 h) { return as_float((u32)h << 16); }
DEV float lo_bf(u32 v) { return as_float(v << 16); }
DEV float hi_bf(u32 v) { return as_float(v & 0xffff0000u); }
DEV u16 to_bf(float v) { return (u16)pack2(v, 0.0f); }
DEV int min_(int a, int b) { return a < b ? a : b; }
DEV int max_(int a, int b) { return a > b ? a : b; }
DEV float max_(float a, float b) { return a > b ? a : b; }
DEV float min_(float a, float b) { return a < b ? a : b; }
DEV int cdiv(int a, int b) { return (a + b - 1) / b; }
constexpr float LOG2E = 1.4426950408889634f;

// A warp's sum in one order: butterflies, widest first.
DEV float warp_sum(float s) {
  for (int m = 16; m; m >>= 1) s += shfl_xor(s, m);
  return s;
}
// A block's sum for every thread; red holds a value per warp. Warps add up in order.
template <int THREADS> DEV float block_sum(float s, float *red) {
  s = warp_sum(s);
  if ((TIDX & 31) == 0) red[TIDX >> 5] = s;
  sync();
  float t = 0;
  UNROLL for (int i = 0; i < THREADS / 32; i++) t += red[i];
  return t;
}
DEV float silu(float g) { return g * rcp(1.0f + ex2(-g * LOG2E)); }
