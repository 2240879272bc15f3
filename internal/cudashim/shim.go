//go:build cuda && linux && amd64

package cudashim

/*
#cgo LDFLAGS: -L${SRCDIR}/lib
#include <stdlib.h>
int weir_cuda_open(const char *path, char *why, int n);
const char *weir_cuda_missing(int i);
*/
import "C"

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"
)

// Library is the name under which the driver is installed.
const Library = "libcuda.so.1"

// ErrNoDriver says that the driver's library could not be loaded.
var ErrNoDriver = errors.New("cudashim: no CUDA driver")

// A StatusError is an error code of the driver's initialisation.
type StatusError int

func (e StatusError) Error() string {
	if e == noDevice {
		return "cudashim: the CUDA driver finds no device (error 100)"
	}
	return fmt.Sprintf("cudashim: the CUDA driver does not start: error %d", int(e))
}

const noDevice = 100 // CUDA_ERROR_NO_DEVICE

var opened struct {
	sync.Mutex
	path string
	err  error
	done bool
}

// Open loads the driver's library, which is Library if path is empty, and initialises
// it. A process has one driver: later calls return what the first did, or fail if they
// name another library.
func Open(path string) error {
	if path == "" {
		path = Library
	}
	opened.Lock()
	defer opened.Unlock()
	if opened.done {
		if path != opened.path {
			return fmt.Errorf("cudashim: %s is open, %s cannot be", opened.path, path)
		}
		return opened.err
	}
	opened.path, opened.done = path, true
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	const room = 256
	why := (*C.char)(C.calloc(room, 1))
	defer C.free(unsafe.Pointer(why))
	switch r := C.weir_cuda_open(name, why, room); {
	case r < 0:
		opened.err = fmt.Errorf("%w: %s", ErrNoDriver, C.GoString(why))
	case r > 0:
		opened.err = StatusError(r)
	}
	return opened.err
}

// Missing names the entry points that the opened library lacks. Calling one of
// them gives error 801, not supported.
func Missing() []string {
	var names []string
	for i := C.int(0); ; i++ {
		n := C.weir_cuda_missing(i)
		if n == nil {
			return names
		}
		names = append(names, C.GoString(n))
	}
}
