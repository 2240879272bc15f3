//go:build cuda && linux && amd64

#include <dlfcn.h>
#include <stddef.h>

#include "include/cuda.h"

static const char *const names[] = {
#include "names.h"
};
enum { N = sizeof names / sizeof *names };

/* What the trampolines jump through, in the order of names. */
void *weir_cuda_entry[N];

static CUresult missing(void) { return (CUresult)CUDA_ERROR_NOT_SUPPORTED; }
static CUresult closed(void) { return (CUresult)CUDA_ERROR_NOT_INITIALIZED; }

/* Before any Go code: package cu calls the driver in its init function. */
__attribute__((constructor(101))) static void fill(void) {
  for (int i = 0; i < N; i++) weir_cuda_entry[i] = (void *)closed;
}

CUresult weir_driver_cuInit(unsigned);
CUresult weir_driver_cuDeviceGetCount(int *);
CUresult weir_driver_cuDriverGetVersion(int *);
static int opened;

/* Loads the library and initialises it: 0, -1 where there is no such library (the reason goes to why), or a CUresult. */
int weir_cuda_open(const char *path, char *why, int n) {
  void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!lib) {
    const char *e = dlerror();
    int i = 0;
    for (; e && e[i] && i < n - 1; i++) why[i] = e[i];
    why[i] = 0;
    return -1;
  }
  for (int i = 0; i < N; i++) {
    void *p = dlsym(lib, names[i]);
    weir_cuda_entry[i] = p ? p : (void *)missing;
  }
  int r = (int)weir_driver_cuInit(0);
  opened = r == 0;
  return r;
}

/* The i-th entry point that the opened library lacks, or NULL. */
const char *weir_cuda_missing(int i) {
  for (int j = 0; j < N; j++)
    if (weir_cuda_entry[j] == (void *)missing && i-- == 0) return names[j];
  return NULL;
}

CUresult cuInit(unsigned flags) { (void)flags; return 0; }
CUresult cuDeviceGetCount(int *n) {
  if (opened) return weir_driver_cuDeviceGetCount(n);
  *n = 0;
  return 0;
}
CUresult cuDriverGetVersion(int *v) {
  if (opened) return weir_driver_cuDriverGetVersion(v);
  *v = 0;
  return 0;
}
