// The module for Hopper alone: wgmma and TMA.
#include "hgemm.cu"
#include "hprobe.cu"
