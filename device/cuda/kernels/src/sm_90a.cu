// The module for Hopper alone: wgmma and TMA.
#define SMEM_ALIGN 1024
#include "hgemm.cu"
#include "hprobe.cu"
