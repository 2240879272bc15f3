// Every kernel, registered with the emulator: what the tests and a driver made
// for tests link.
#define GK_EMU
#include "../src/attn.cu"
#include "../src/attnx.cu"
#include "../src/elements.cu"
#include "../src/elementwise.cu"
#include "../src/experts.cu"
#include "../src/gemm.cu"
#include "../src/pack.cu"
#include "../src/hgemm.cu"
#include "../src/hprobe.cu"
#include "../src/pick.cu"
#include "../src/probe.cu"
#include "../src/recurrent.cu"
#include "../src/ropex.cu"
