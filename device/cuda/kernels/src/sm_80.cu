// The module for every GPU from Ampere on.
#include "attn.cu"
#include "elements.cu"
#include "elementwise.cu"
#include "gemm.cu"
#include "pack.cu"
#include "pick.cu"
#include "probe.cu"
