//go:build cuda && linux && amd64

package cudrv

/*
#cgo noescape weir_graph_launch
#cgo nocallback weir_graph_launch
#cgo noescape weir_stream_query
#cgo nocallback weir_stream_query
#include <stdlib.h>
#include <string.h>
#include <cuda.h>

static CUresult weir_graph_launch(CUgraphExec e, CUstream s) { return cuGraphLaunch(e, s); }

static CUresult weir_stream_query(CUstream s) { return cuStreamQuery(s); }

static CUresult weir_launch_ex(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned threads, unsigned shared, CUstream s,
                               unsigned cluster, int dependent, void *params) {
  CUlaunchAttribute a[2];
  CUlaunchConfig c;
  memset(a, 0, sizeof a);
  memset(&c, 0, sizeof c);
  c.gridDimX = gx; c.gridDimY = gy; c.gridDimZ = gz;
  c.blockDimX = threads; c.blockDimY = c.blockDimZ = 1;
  c.sharedMemBytes = shared; c.hStream = s; c.attrs = a;
  if (cluster > 1) {
    CUlaunchAttribute *p = &a[c.numAttrs++];
    p->id = (CUlaunchAttributeID)CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    p->value.clusterDim.x = cluster; p->value.clusterDim.y = p->value.clusterDim.z = 1;
  }
  if (dependent) {
    CUlaunchAttribute *p = &a[c.numAttrs++];
    p->id = (CUlaunchAttributeID)CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    p->value.programmaticStreamSerializationAllowed = 1;
  }
  return cuLaunchKernelEx(&c, f, params, 0);
}

static CUresult weir_map_bf16(void *m, CUdeviceptr base, cuuint64_t width, cuuint64_t height, cuuint64_t pitch, unsigned rows) {
  cuuint64_t dim[2] = {width, height}, stride[1] = {pitch};
  cuuint32_t box[2] = {64, rows}, one[2] = {1, 1};
  return cuTensorMapEncodeTiled(m, (CUtensorMapDataType)CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, (void *)base, dim, stride, box, one,
    (CUtensorMapInterleave)CU_TENSOR_MAP_INTERLEAVE_NONE, (CUtensorMapSwizzle)CU_TENSOR_MAP_SWIZZLE_128B,
    (CUtensorMapL2promotion)CU_TENSOR_MAP_L2_PROMOTION_L2_256B, (CUtensorMapFloatOOBfill)CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}
*/
import "C"

import (
	"errors"
	"fmt"
	"reflect"
	"unsafe"

	"gorgonia.org/cu"
)

// cu's handles are structs of one pointer; these fail to compile if that changes.
var (
	_ [unsafe.Sizeof(cu.Function{}) - 8]struct{}
	_ [8 - unsafe.Sizeof(cu.Function{})]struct{}
	_ [unsafe.Sizeof(cu.Stream{}) - 8]struct{}
	_ [8 - unsafe.Sizeof(cu.Stream{})]struct{}
	_ [unsafe.Sizeof(cu.Graph{}) - 8]struct{}
	_ [8 - unsafe.Sizeof(cu.Graph{})]struct{}
	_ [unsafe.Sizeof(cu.ExecGraph{}) - 8]struct{}
	_ [8 - unsafe.Sizeof(cu.ExecGraph{})]struct{}
)

// handle is what one of cu's handles holds.
func handle[T any](v *T) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(v)) }

// Error is a CUresult other than success.
type Error int

// Codes that callers tell apart.
const (
	OutOfMemory  Error = C.CUDA_ERROR_OUT_OF_MEMORY
	NotReady     Error = C.CUDA_ERROR_NOT_READY
	NotSupported Error = C.CUDA_ERROR_NOT_SUPPORTED
)

// Error returns the driver's own text.
func (e Error) Error() string {
	var s *C.char
	if C.cuGetErrorString(C.CUresult(e), &s) != 0 || s == nil {
		return fmt.Sprintf("CUDA error %d", int(e))
	}
	return fmt.Sprintf("CUDA error %d: %s", int(e), C.GoString(s))
}

// Is lets errors.Is compare with what cu returns.
func (e Error) Is(target error) bool {
	t, ok := Wrap(target).(Error)
	return ok && t == e
}

// Wrap turns an error of package cu into an Error, because cu does not export its type
// and does not know the newer codes. Other errors are returned unchanged.
func Wrap(err error) error {
	if err == nil {
		return nil
	}
	if v := reflect.ValueOf(err); v.Kind() == reflect.Int && v.Type().PkgPath() == "gorgonia.org/cu" {
		return Error(v.Int())
	}
	return err
}

func result(r C.CUresult) error {
	if r == 0 {
		return nil
	}
	return Error(r)
}

// AllowShared lets launches of f ask for up to n bytes of dynamic shared
// memory; without it 48 KiB are the most.
func AllowShared(f cu.Function, n int) error {
	return result(C.cuFuncSetAttribute(C.CUfunction(handle(&f)), C.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, C.int(n)))
}

// HostAlloc returns n bytes of pinned memory that the device can address. It
// is freed with HostFree.
func HostAlloc(n int) ([]byte, error) {
	var p unsafe.Pointer
	if err := result(C.cuMemHostAlloc(&p, C.size_t(n), C.CU_MEMHOSTALLOC_DEVICEMAP)); err != nil {
		return nil, err
	}
	b := unsafe.Slice((*byte)(p), n)
	clear(b)
	return b, nil
}

// HostFree frees what HostAlloc returned.
func HostFree(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	return Wrap(cu.MemFreeHost(unsafe.Pointer(unsafe.SliceData(b))))
}

// HostPtr is the device's address of memory from HostAlloc.
func HostPtr(b []byte) (cu.DevicePtr, error) {
	var d C.CUdeviceptr
	err := result(C.cuMemHostGetDevicePointer(&d, unsafe.Pointer(unsafe.SliceData(b)), 0))
	return cu.DevicePtr(d), err
}

// Busy reports whether work is left on s, or the error of what has failed there. It does
// not wait, and unlike cu's Query it allocates nothing.
func Busy(s cu.Stream) (bool, error) {
	r := C.weir_stream_query(C.CUstream(handle(&s)))
	if r == C.CUDA_ERROR_NOT_READY {
		return true, nil
	}
	return false, result(r)
}

// BeginCapture lets s record what this thread puts on it, until EndCapture.
func BeginCapture(s cu.Stream) error {
	return result(C.cuStreamBeginCapture(C.CUstream(handle(&s)), C.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL))
}

// EndCapture returns what was recorded.
func EndCapture(s cu.Stream) (cu.Graph, error) {
	var g cu.Graph
	err := result(C.cuStreamEndCapture(C.CUstream(handle(&s)), (*C.CUgraph)(unsafe.Pointer(&g))))
	return g, err
}

// Instantiate makes g executable. g may be destroyed then.
func Instantiate(g cu.Graph) (cu.ExecGraph, error) {
	var e cu.ExecGraph
	err := result(C.cuGraphInstantiateWithFlags((*C.CUgraphExec)(unsafe.Pointer(&e)), C.CUgraph(handle(&g)), 0))
	return e, err
}

// Replay queues all of e on s.
func Replay(e cu.ExecGraph, s cu.Stream) error {
	return result(C.weir_graph_launch(C.CUgraphExec(handle(&e)), C.CUstream(handle(&s))))
}

const (
	paramBytes = 128 // the largest parameter: a tensor map
	maxParams  = 32
)

// Params is a launch's parameters in C memory, for LaunchEx: cu's own launch
// copies eight bytes of each, so a tensor map does not pass through it.
type Params struct {
	mem unsafe.Pointer // the pointers, then one slot per parameter
	n   int
}

// NewParams allocates a list of up to 32 parameters, to be freed with Free.
func NewParams() (*Params, error) {
	p := &Params{mem: C.aligned_alloc(paramBytes, maxParams*8+maxParams*paramBytes)}
	if p.mem == nil {
		return nil, errors.New("cudrv: out of host memory")
	}
	return p, nil
}

// Free frees the memory.
func (p *Params) Free() { C.free(p.mem); p.mem = nil }

// Reset empties the list.
func (p *Params) Reset() { p.n = 0 }

func (p *Params) slot() unsafe.Pointer {
	if p.n == maxParams {
		panic("cudrv: too many parameters")
	}
	s := unsafe.Add(p.mem, maxParams*8+p.n*paramBytes)
	unsafe.Slice((*unsafe.Pointer)(p.mem), maxParams)[p.n] = s
	p.n++
	return s
}

// Word appends a parameter of up to eight bytes.
func (p *Params) Word(v uint64) { *(*uint64)(p.slot()) = v }

// MapBF16 appends a tensor map: height rows of width bf16 values, pitch bytes
// apart, read in boxes of 64 columns (128 bytes, swizzled) by boxRows rows.
// What lies outside reads as zero.
func (p *Params) MapBF16(base cu.DevicePtr, width, height, pitch, boxRows int) error {
	return result(C.weir_map_bf16(p.slot(), C.CUdeviceptr(base), C.cuuint64_t(width), C.cuuint64_t(height), C.cuuint64_t(pitch), C.uint(boxRows)))
}

// A Grid is the shape of a launch.
type Grid struct{ X, Y, Z, Threads, Shared int }

// LaunchEx launches with attributes: cluster > 1 groups that many blocks along
// x, dependent lets the kernel start before the one before it has ended.
func LaunchEx(f cu.Function, g Grid, s cu.Stream, cluster int, dependent bool, p *Params) error {
	var d C.int
	if dependent {
		d = 1
	}
	return result(C.weir_launch_ex(C.CUfunction(handle(&f)), C.uint(g.X), C.uint(g.Y), C.uint(g.Z), C.uint(g.Threads), C.uint(g.Shared),
		C.CUstream(handle(&s)), C.uint(cluster), d, p.mem))
}
