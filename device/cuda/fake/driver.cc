// A libcuda.so.1 for tests on machines without a GPU. Device memory is host
// memory, kernels run in the emulator, and everything happens as late as the
// interface allows: work on a stream runs when somebody waits for it, so that a
// missing wait shows. It is strict where drivers are lenient: host memory of
// asynchronous copies must be pinned, calls that may not be captured break a
// capture, every copy must lie inside one allocation.
//
// What a test may ask for, in the environment, read at every call:
//
//	FAKE_CUDA_FAIL=NAME:N=CODE  the N-th call of NAME from now on answers CODE;
//	                            "run" as a name is the N-th kernel to run: CODE breaks
//	                            the context, "hang" stops its stream for good
//	FAKE_CUDA_SKIP=KERNEL[,...] launches of these kernels do nothing
//	FAKE_CUDA_LOG=FILE          every call's name, appended as a line
//	FAKE_CUDA_CC=80             compute capability (90 by default)
//	FAKE_CUDA_MEMORY=BYTES      memory of the device (4 GiB by default)
#include <sys/mman.h>

#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <set>

extern "C" {
#define _Alignas alignas
#include "cuda.h"
}

#include "../kernels/emu/all.cc"

namespace {

CUresult code(int c) { return (CUresult)c; }

struct Op {
  std::function<void()> run;
  bool kernel = false;
};
struct Graph {
  std::vector<Op> ops;
};
struct Stream {
  std::deque<Op> queue;
  std::shared_ptr<Graph> capture;
  bool broken = false, stuck = false;
};
struct Event {
  Stream *stream = nullptr;
  std::shared_ptr<bool> done;
  std::shared_ptr<double> when;
};
struct Function {
  std::string name;
  emu::Kern *kern;
  int shared = 48 << 10;
};
struct Module {
  std::string image;
  std::map<std::string, std::unique_ptr<Function>> functions;
};
struct Link {
  char *log = nullptr;
  size_t room = 0;
  std::string image;
};
struct Allocation {
  u8 *map;
  size_t mapped, size;
};

// Everything of the device's primary context: gone when it is released.
struct Context {
  int retained = 0;
  int broken = 0; // the error that every call answers from now on
  Stream null;
  std::set<Stream *> streams;
  std::map<u64, Allocation> memory;
  std::map<u64, size_t> pinned;
  size_t used = 0;
} context;

std::recursive_mutex mutex;
bool initialised;
thread_local Context *current;

std::string fail_spec;
std::map<std::string, int> calls; // since fail_spec was set

const char *setting(const char *name) {
  const char *v = getenv(name);
  return v ? v : "";
}

// The code that a call of name is to answer, 0 for its own, -1 to hang.
int injected(const char *name) {
  std::string spec = setting("FAKE_CUDA_FAIL");
  if (spec != fail_spec) {
    fail_spec = spec;
    calls.clear();
  }
  int n = ++calls[name];
  std::string want = std::string(name) + ":" + std::to_string(n) + "=";
  if (spec.compare(0, want.size(), want) != 0) return 0;
  spec = spec.substr(want.size());
  return spec == "hang" ? -1 : atoi(spec.c_str());
}

void note(const char *line) {
  if (const char *path = getenv("FAKE_CUDA_LOG")) {
    if (FILE *f = *path ? fopen(path, "a") : nullptr) {
      fprintf(f, "%s\n", line);
      fclose(f);
    }
  }
}

CUresult enter(const char *name, bool in_context) {
  note(name);
  if (int c = injected(name)) return code(c);
  if (!initialised) return code(CUDA_ERROR_NOT_INITIALIZED);
  if (!in_context) return code(0);
  if (!current) return code(CUDA_ERROR_INVALID_CONTEXT);
  return code(context.broken);
}

#define ENTER(name, in_context)                         \
  std::lock_guard<std::recursive_mutex> guard_(mutex);  \
  if (CUresult r_ = enter(#name, in_context)) return r_

// Calls that wait for the device or take memory may not come during a capture.
#define NO_CAPTURE()                                        \
  for (Stream *s_ : context.streams)                        \
    if (s_->capture) {                                      \
      s_->broken = true;                                    \
      return code(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);   \
    }

Stream *stream(CUstream s) { return s ? (Stream *)s : &context.null; }

void run(Stream *s) {
  Op op = std::move(s->queue.front());
  s->queue.pop_front();
  if (op.kernel) {
    int c = injected("run");
    if (c < 0) s->stuck = true;
    if (c > 0) context.broken = c;
  }
  if (!context.broken && !s->stuck) op.run();
}

// Runs a stream's work, all of it or until done.
void drain(Stream *s, const bool *done = nullptr) {
  while (!s->queue.empty() && !(done && *done) && !context.broken && !s->stuck) run(s);
}

CUresult push(CUstream to, std::function<void()> f, bool kernel = false) {
  Stream *s = stream(to);
  if (s->capture)
    s->capture->ops.push_back({std::move(f), kernel});
  else
    s->queue.push_back({std::move(f), kernel});
  return code(0);
}

// Whether n bytes from p on lie inside one allocation.
bool inside(u64 p, size_t n) {
  auto i = context.memory.upper_bound(p);
  return i != context.memory.begin() && (--i, p + n <= i->first + i->second.size);
}
bool is_pinned(const void *p, size_t n) {
  auto i = context.pinned.upper_bound((u64)p);
  return i != context.pinned.begin() && (--i, (u64)p + n <= i->first + i->second);
}

// Behind an allocation: bytes up to a multiple of 256, then a page that faults.
const u8 guard_byte = 0xa5;
void release(u64 p) {
  Allocation a = context.memory[p];
  for (u8 *b = (u8 *)p + a.size; b < a.map + a.mapped - 4096; b++)
    if (*b != guard_byte) {
      fprintf(stderr, "fake driver: written behind an allocation of %zu bytes\n", a.size);
      abort();
    }
  munmap(a.map, a.mapped);
  context.used -= a.size;
  context.memory.erase(p);
}

size_t device_memory() {
  const char *v = setting("FAKE_CUDA_MEMORY");
  return *v ? strtoull(v, nullptr, 10) : (size_t)4 << 30;
}
int capability() {
  const char *v = setting("FAKE_CUDA_CC");
  return *v ? atoi(v) : 90;
}
double now_ms() { return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

const int shared_limit = 227 << 10;

} // namespace

extern "C" {

CUresult cuInit(unsigned) {
  std::lock_guard<std::recursive_mutex> guard(mutex);
  initialised = true;
  return code(0);
}
CUresult cuDriverGetVersion(int *v) { return *v = 13000, code(0); }
CUresult cuGetErrorString(CUresult e, const char **s) {
  switch ((int)e) {
  case CUDA_ERROR_INVALID_VALUE: *s = "invalid argument"; break;
  case CUDA_ERROR_OUT_OF_MEMORY: *s = "out of memory"; break;
  case CUDA_ERROR_INVALID_CONTEXT: *s = "invalid device context"; break;
  case CUDA_ERROR_ILLEGAL_ADDRESS: *s = "an illegal memory access was encountered"; break;
  case CUDA_ERROR_LAUNCH_FAILED: *s = "unspecified launch failure"; break;
  case CUDA_ERROR_INVALID_PTX: *s = "a PTX JIT compilation failed"; break;
  default: *s = "error of the fake driver"; break;
  }
  return code(0);
}

// ---- devices and the context ----
CUresult cuDeviceGetCount(int *n) { return *n = 1, code(0); }
CUresult cuDeviceGet(CUdevice *d, int i) {
  if (i) return code(CUDA_ERROR_INVALID_DEVICE);
  return *d = 0, code(0);
}
CUresult cuDeviceGetName(char *p, int n, CUdevice) { return snprintf(p, n, "Emulated GPU"), code(0); }
CUresult cuDeviceTotalMem(size_t *n, CUdevice) { return *n = device_memory(), code(0); }
CUresult cuDeviceGetAttribute(int *v, CUdevice_attribute a, CUdevice) {
  static const std::map<int, int> known{{CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024}, {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 4},
    {8, 48 << 10}, {97, shared_limit}, {38, 50 << 20}};
  if (a == 75) return *v = capability() / 10, code(0);
  if (a == 76) return *v = capability() % 10, code(0);
  auto i = known.find(a);
  return *v = i == known.end() ? 0 : i->second, code(0);
}
CUresult cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice) {
  ENTER(cuDevicePrimaryCtxRetain, false);
  context.retained++;
  return *c = (CUcontext)&context, code(0);
}
CUresult cuDevicePrimaryCtxRelease(CUdevice) {
  ENTER(cuDevicePrimaryCtxRelease, false);
  if (--context.retained > 0) return code(0);
  bool leaked = !context.broken && (!context.memory.empty() || !context.pinned.empty() || !context.streams.empty());
  if (leaked) {
    fprintf(stderr, "fake driver: released with %zu allocations, %zu of pinned memory and %zu streams\n", context.memory.size(), context.pinned.size(), context.streams.size());
    abort();
  }
  while (!context.memory.empty()) release(context.memory.begin()->first);
  for (auto &p : context.pinned) free((void *)p.first);
  for (Stream *s : context.streams) delete s;
  context = Context{};
  return code(0);
}
CUresult cuCtxSetCurrent(CUcontext c) { return current = (Context *)c, code(0); }
CUresult cuCtxGetCurrent(CUcontext *c) { return *c = (CUcontext)current, code(0); }
CUresult cuCtxSynchronize(void) {
  ENTER(cuCtxSynchronize, true);
  NO_CAPTURE();
  drain(&context.null);
  for (Stream *s : context.streams) drain(s);
  return code(context.broken);
}

// ---- memory ----
CUresult cuMemGetInfo(size_t *free_, size_t *total) {
  ENTER(cuMemGetInfo, true);
  *total = device_memory();
  return *free_ = *total - context.used, code(0);
}
CUresult cuMemAlloc(CUdeviceptr *d, size_t n) {
  ENTER(cuMemAlloc, true);
  NO_CAPTURE();
  if (!n) return code(CUDA_ERROR_INVALID_VALUE);
  if (context.used + n > device_memory()) return code(CUDA_ERROR_OUT_OF_MEMORY);
  const size_t page = 4096, body = (n + 255) / 256 * 256, mapped = (body + page - 1) / page * page + 2 * page;
  u8 *map = (u8 *)mmap(0, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED) return code(CUDA_ERROR_OUT_OF_MEMORY);
  mprotect(map, page, PROT_NONE);
  mprotect(map + mapped - page, page, PROT_NONE);
  u8 *p = map + mapped - page - body;
  memset(p, 0xff, n);
  memset(p + n, guard_byte, body - n);
  *d = (CUdeviceptr)p;
  context.memory[(u64)p] = {map, mapped, n};
  context.used += n;
  return code(0);
}
CUresult cuMemFree(CUdeviceptr d) {
  ENTER(cuMemFree, true);
  NO_CAPTURE();
  drain(&context.null);
  for (Stream *s : context.streams) drain(s);
  if (!context.memory.count(d)) return code(CUDA_ERROR_INVALID_VALUE);
  release(d);
  return code(0);
}
CUresult cuMemHostAlloc(void **p, size_t n, unsigned) {
  ENTER(cuMemHostAlloc, true);
  NO_CAPTURE();
  *p = aligned_alloc(4096, (n + 4095) / 4096 * 4096);
  memset(*p, 0xff, n);
  context.pinned[(u64)*p] = n;
  return code(0);
}
CUresult cuMemHostGetDevicePointer(CUdeviceptr *d, void *p, unsigned) {
  ENTER(cuMemHostGetDevicePointer, true);
  if (!is_pinned(p, 1)) return code(CUDA_ERROR_INVALID_VALUE);
  return *d = (CUdeviceptr)p, code(0);
}
CUresult cuMemFreeHost(void *p) {
  ENTER(cuMemFreeHost, true);
  NO_CAPTURE();
  drain(&context.null);
  for (Stream *s : context.streams) drain(s);
  if (!context.pinned.erase((u64)p)) return code(CUDA_ERROR_INVALID_VALUE);
  free(p);
  return code(0);
}
CUresult cuMemcpyHtoD(CUdeviceptr d, const void *s, size_t n) {
  ENTER(cuMemcpyHtoD, true);
  NO_CAPTURE();
  if (!inside(d, n)) return code(CUDA_ERROR_INVALID_VALUE);
  drain(&context.null);
  return memcpy((void *)d, s, n), code(context.broken);
}
CUresult cuMemcpyDtoH(void *d, CUdeviceptr s, size_t n) {
  ENTER(cuMemcpyDtoH, true);
  NO_CAPTURE();
  if (!inside(s, n)) return code(CUDA_ERROR_INVALID_VALUE);
  drain(&context.null);
  return memcpy(d, (void *)s, n), code(context.broken);
}
CUresult cuMemcpyHtoDAsync(CUdeviceptr d, const void *s, size_t n, CUstream st) {
  ENTER(cuMemcpyHtoDAsync, true);
  if (!inside(d, n) || !is_pinned(s, n)) return code(CUDA_ERROR_INVALID_VALUE);
  return push(st, [=] { memcpy((void *)d, s, n); });
}
CUresult cuMemcpyDtoHAsync(void *d, CUdeviceptr s, size_t n, CUstream st) {
  ENTER(cuMemcpyDtoHAsync, true);
  if (!inside(s, n) || !is_pinned(d, n)) return code(CUDA_ERROR_INVALID_VALUE);
  return push(st, [=] { memcpy(d, (void *)s, n); });
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr d, CUdeviceptr s, size_t n, CUstream st) {
  ENTER(cuMemcpyDtoDAsync, true);
  if (!inside(d, n) || !inside(s, n)) return code(CUDA_ERROR_INVALID_VALUE);
  return push(st, [=] { memmove((void *)d, (void *)s, n); });
}
CUresult cuMemsetD8Async(CUdeviceptr d, unsigned char v, size_t n, CUstream st) {
  ENTER(cuMemsetD8Async, true);
  if (!inside(d, n)) return code(CUDA_ERROR_INVALID_VALUE);
  return push(st, [=] { memset((void *)d, v, n); });
}
CUresult cuMemsetD32Async(CUdeviceptr d, unsigned v, size_t n, CUstream st) {
  ENTER(cuMemsetD32Async, true);
  if (!inside(d, n * 4)) return code(CUDA_ERROR_INVALID_VALUE);
  return push(st, [=] { for (size_t i = 0; i < n; i++) ((unsigned *)d)[i] = v; });
}

// ---- streams and events ----
CUresult cuStreamCreate(CUstream *s, unsigned) {
  ENTER(cuStreamCreate, true);
  Stream *p = new Stream;
  context.streams.insert(p);
  return *s = (CUstream)p, code(0);
}
CUresult cuStreamDestroy(CUstream s) {
  ENTER(cuStreamDestroy, true);
  drain(stream(s));
  context.streams.erase(stream(s));
  delete stream(s);
  return code(0);
}
CUresult cuStreamSynchronize(CUstream s) {
  ENTER(cuStreamSynchronize, true);
  NO_CAPTURE();
  drain(stream(s));
  return code(context.broken);
}
// Some work at a time, so that whoever polls sees it unfinished.
CUresult cuStreamQuery(CUstream s) {
  ENTER(cuStreamQuery, true);
  NO_CAPTURE();
  for (int i = 0; i < 7 && !stream(s)->queue.empty() && !context.broken && !stream(s)->stuck; i++) run(stream(s));
  if (context.broken) return code(context.broken);
  return code(stream(s)->queue.empty() && !stream(s)->stuck ? 0 : CUDA_ERROR_NOT_READY);
}
CUresult cuEventCreate(CUevent *e, unsigned) {
  ENTER(cuEventCreate, true);
  return *e = (CUevent) new Event, code(0);
}
CUresult cuEventDestroy(CUevent e) {
  ENTER(cuEventDestroy, true);
  return delete (Event *)e, code(0);
}
CUresult cuEventRecord(CUevent e, CUstream s) {
  ENTER(cuEventRecord, true);
  Event *ev = (Event *)e;
  auto done = ev->done = std::make_shared<bool>(false);
  auto when = ev->when = std::make_shared<double>(0);
  ev->stream = stream(s);
  return push(s, [=] { *done = true, *when = now_ms(); });
}
CUresult cuEventSynchronize(CUevent e) {
  ENTER(cuEventSynchronize, true);
  NO_CAPTURE();
  Event *ev = (Event *)e;
  if (ev->stream) drain(ev->stream, ev->done.get());
  return code(context.broken);
}
CUresult cuEventElapsedTime(float *ms, CUevent a, CUevent b) {
  ENTER(cuEventElapsedTime, true);
  Event *x = (Event *)a, *y = (Event *)b;
  if (!x->done || !y->done) return code(CUDA_ERROR_INVALID_HANDLE);
  if (!*x->done || !*y->done) return code(CUDA_ERROR_NOT_READY);
  return *ms = (float)(*y->when - *x->when), code(0);
}

// ---- modules ----
CUresult cuLinkCreate(unsigned n, CUjit_option *options, void **values, CUlinkState *out) {
  ENTER(cuLinkCreate, true);
  Link *l = new Link;
  for (unsigned i = 0; i < n; i++) {
    if ((int)options[i] == CU_JIT_ERROR_LOG_BUFFER) l->log = (char *)values[i];
    if ((int)options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) l->room = (size_t)values[i];
  }
  return *out = (CUlinkState)l, code(0);
}
CUresult cuLinkAddData(CUlinkState s, CUjitInputType, void *data, size_t n, const char *name, unsigned, CUjit_option *, void **) {
  Link *l = (Link *)s;
  auto complain = [&] {
    if (l->log) snprintf(l->log, l->room, "%s, line 1: fatal: syntax error", name);
  };
  CUresult r = [&]() -> CUresult { ENTER(cuLinkAddData, true); return code(0); }();
  if (r == 0 && (!n || ((const char *)data)[n - 1] || !strstr((const char *)data, ".version"))) r = code(CUDA_ERROR_INVALID_PTX);
  if (r) return complain(), r;
  l->image.append((const char *)data, n - 1);
  return code(0);
}
CUresult cuLinkComplete(CUlinkState s, void **cubin, size_t *n) {
  ENTER(cuLinkComplete, true);
  Link *l = (Link *)s;
  *cubin = (void *)l->image.data();
  return *n = l->image.size(), code(0);
}
CUresult cuLinkDestroy(CUlinkState s) {
  ENTER(cuLinkDestroy, true);
  return delete (Link *)s, code(0);
}
CUresult cuModuleLoadData(CUmodule *m, const void *image) {
  ENTER(cuModuleLoadData, true);
  NO_CAPTURE();
  if (!strstr((const char *)image, ".version")) return code(CUDA_ERROR_INVALID_IMAGE);
  Module *p = new Module;
  p->image = (const char *)image;
  return *m = (CUmodule)p, code(0);
}
CUresult cuModuleUnload(CUmodule m) {
  ENTER(cuModuleUnload, true);
  return delete (Module *)m, code(0);
}
CUresult cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name) {
  ENTER(cuModuleGetFunction, true);
  Module *p = (Module *)m;
  auto k = emu::registry().find(name);
  if (p->image.find(std::string(".entry ") + name + "(") == std::string::npos || k == emu::registry().end()) return code(CUDA_ERROR_NOT_FOUND);
  auto &fn = p->functions[name];
  if (!fn) fn.reset(new Function{name, &k->second});
  return *f = (CUfunction)fn.get(), code(0);
}
CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute a, int v) {
  ENTER(cuFuncSetAttribute, true);
  if ((int)a == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
    if (v > shared_limit) return code(CUDA_ERROR_INVALID_VALUE);
    ((Function *)f)->shared = v;
  }
  return code(0);
}
CUresult cuFuncGetAttribute(int *v, CUfunction_attribute a, CUfunction f) {
  ENTER(cuFuncGetAttribute, true);
  *v = a == 0 ? ((Function *)f)->kern->maxthreads : (int)a == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES ? ((Function *)f)->shared : 0;
  return code(0);
}

// ---- launches ----
CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, CUstream s, void **params, void **) {
  ENTER(cuLaunchKernel, true);
  Function *fn = (Function *)f;
  note(("kernel " + fn->name).c_str());
  if (by != 1 || bz != 1 || !bx || !gx || !gy || !gz || gy > 65535 || gz > 65535 || bx > (unsigned)fn->kern->maxthreads || shared > (unsigned)fn->shared)
    return code(CUDA_ERROR_INVALID_VALUE);
  if ((std::string(",") + setting("FAKE_CUDA_SKIP") + ",").find("," + fn->name + ",") != std::string::npos) return push(s, [] {}, true);
  auto body = fn->kern->bind(params);
  return push(s, [=] { emu::launch(gx, gy, gz, bx, shared, body); }, true);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction f, void **params, void **extra) {
  for (unsigned i = 0; i < c->numAttrs; i++) {
    int id = c->attrs[i].id;
    unsigned x = c->attrs[i].value.clusterDim.x;
    if (id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION ? !x || x > 8 || c->gridDimX % x : id != CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
      return code(CUDA_ERROR_INVALID_VALUE);
  }
  return cuLaunchKernel(f, c->gridDimX, c->gridDimY, c->gridDimZ, c->blockDimX, c->blockDimY, c->blockDimZ, c->sharedMemBytes, c->hStream, params, extra);
}
// The driver's rules, and what the emulator models: matrices of bf16 in boxes of
// 128 bytes, swizzled.
CUresult cuTensorMapEncodeTiled(CUtensorMap *m, CUtensorMapDataType type, cuuint32_t rank, void *base, const cuuint64_t *dim, const cuuint64_t *stride, const cuuint32_t *box,
                                const cuuint32_t *step, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill fill) {
  ENTER(cuTensorMapEncodeTiled, false);
  if ((u64)m % 64 || (u64)base % 16 || (int)type != CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 || rank != 2 || interleave || (int)swizzle != CU_TENSOR_MAP_SWIZZLE_128B || fill || stride[0] % 16 ||
      stride[0] < dim[0] * 2 || !dim[0] || !dim[1] || box[0] != 64 || !box[1] || box[1] > 256 || step[0] != 1 || step[1] != 1 || !inside((u64)base, (dim[1] - 1) * stride[0] + dim[0] * 2))
    return code(CUDA_ERROR_INVALID_VALUE);
  TMap t{};
  t.v[0] = (u64)base, t.v[1] = dim[0], t.v[2] = dim[1], t.v[3] = stride[0], t.v[4] = box[0], t.v[5] = box[1];
  return memcpy(m, &t, sizeof t), code(0);
}

// ---- graphs ----
CUresult cuStreamBeginCapture(CUstream s, CUstreamCaptureMode) {
  ENTER(cuStreamBeginCapture, true);
  if (!s || stream(s)->capture) return code(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  stream(s)->capture = std::make_shared<Graph>();
  stream(s)->broken = false;
  return code(0);
}
CUresult cuStreamEndCapture(CUstream s, CUgraph *g) {
  auto captured = std::move(stream(s)->capture); // it has ended also where the call fails
  stream(s)->capture = nullptr;
  ENTER(cuStreamEndCapture, true);
  if (!captured) return code(CUDA_ERROR_ILLEGAL_STATE);
  if (stream(s)->broken) return code(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  return *g = (CUgraph) new Graph(*captured), code(0);
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec *e, CUgraph g, unsigned long long) {
  ENTER(cuGraphInstantiateWithFlags, true);
  return *e = (CUgraphExec) new std::shared_ptr<Graph>(new Graph(*(Graph *)g)), code(0);
}
CUresult cuGraphLaunch(CUgraphExec e, CUstream s) {
  ENTER(cuGraphLaunch, true);
  auto g = *(std::shared_ptr<Graph> *)e;
  for (auto &op : g->ops) push(s, [g, &op] { op.run(); }, op.kernel);
  return code(0);
}
CUresult cuGraphDestroy(CUgraph g) {
  ENTER(cuGraphDestroy, true);
  return delete (Graph *)g, code(0);
}
CUresult cuGraphExecDestroy(CUgraphExec e) {
  ENTER(cuGraphExecDestroy, true);
  return delete (std::shared_ptr<Graph> *)e, code(0);
}

} // extern "C"
