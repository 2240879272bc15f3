//go:build cuda && linux && amd64

package cuda

import (
	"errors"
	"fmt"
	"time"

	"gorgonia.org/cu"

	"weir/device/cuda/kernels"
	"weir/internal/cudashim"
	"weir/internal/cudrv"
)

var (
	// ErrConfig is wrapped by every error about a Config, a shape or a matrix.
	ErrConfig = errors.New("cuda: unusable")
	// ErrStored says that no kernel reads the form in which a tensor is stored.
	ErrStored = errors.New("cuda: quantized weights")
	// ErrDevice is wrapped by every error of the driver or the device.
	ErrDevice = errors.New("cuda: device error")
)

// Config says how a Device computes. Start from Default.
type Config struct {
	// Driver is the library of the CUDA driver; empty is libcuda.so.1. A process can
	// only use one.
	Driver string
	// Ordinal is the device's number in the driver's order.
	Ordinal int
	// PlainLaunch launches every kernel through gorgonia.org/cu's Function.Launch:
	// without graphs, launch attributes and tensor maps, and so without wgmma. It
	// changes no bit.
	PlainLaunch bool
	// Products chooses the kernels of matrix products.
	Products Products
	// Weights is the format in which matrices are stored. With BF16, matrices that the
	// checkpoint stores in a form that Q8, Q4 or MXFP4 holds exactly are stored in it. With Q8 and Q4 products use
	// mma.sync, whatever Products is; activations stay bfloat16.
	Weights Format
	// Widen says that matrices, and tables of embeddings, which the checkpoint stores in
	// other forms of codes and scales are widened to bfloat16, which rounds them.
	// Without it they are refused (ErrStored).
	Widen bool
	// MergeFrom is the number of positions from which on a launch of its own,
	// attn_merge, merges the partial results of a decoding token, so that more blocks
	// share this work. Below, the block that ends last merges them. It changes no bit.
	MergeFrom int
	// CacheDir is where machine code that the driver's compiler has made is kept
	// for the next start. Empty keeps nothing.
	CacheDir string
	// Timeout is how long a step may take before the device counts as hung.
	Timeout time.Duration
	// Note, if not nil, is called with what is worth logging, such as compile times.
	Note func(message string, args ...any)
}

// Products is a family of matrix products. All kernels of one family have the same bits.
type Products uint8

const (
	MMA   Products = iota // mma.sync, on every GPU
	WGMMA                 // wgmma, on Hopper (sm_90) alone, where it is faster
)

// Default is what a server wants.
func Default() Config { return Config{Timeout: time.Minute, MergeFrom: 8*kernels.PartTokens + 1} }

// Validate reports the first unusable field.
func (c Config) Validate() error {
	if c.Ordinal < 0 {
		return fmt.Errorf("%w: device number %d", ErrConfig, c.Ordinal)
	}
	if c.Products > WGMMA {
		return fmt.Errorf("%w: products %d", ErrConfig, c.Products)
	}
	if c.Weights > Q4 {
		return fmt.Errorf("%w: format %d of weights", ErrConfig, c.Weights)
	}
	if c.Products == WGMMA && c.PlainLaunch {
		return fmt.Errorf("%w: wgmma takes tensor maps, which plain launches cannot pass", ErrConfig)
	}
	if c.Timeout <= 0 {
		return fmt.Errorf("%w: timeout %v is not positive", ErrConfig, c.Timeout)
	}
	return nil
}

// Info is what is known of a device before it is opened.
type Info struct {
	Ordinal      int
	Name         string
	Major, Minor int   // compute capability
	Memory       int64 // bytes
}

// Usable says whether the kernels run on the device: they ask for sm_80.
func (i Info) Usable() bool { return i.Major >= 8 }

// Hopper says whether the device has wgmma: code for sm_90a runs on 9.0 alone.
func (i Info) Hopper() bool { return i.Major == 9 && i.Minor == 0 }

func (i Info) String() string {
	return fmt.Sprintf("%s (sm_%d%d, %d GiB)", i.Name, i.Major, i.Minor, (i.Memory+1<<29)>>30)
}

// Probe loads the driver (see Config.Driver) and lists its devices, usable or
// not. A machine without driver or device is an error.
func Probe(driver string) ([]Info, error) {
	if err := cudashim.Open(driver); err != nil {
		return nil, err
	}
	n, err := cu.NumDevices()
	if err != nil {
		return nil, deviceError("count devices", err)
	}
	list := make([]Info, n)
	for i := range list {
		d, err := cu.GetDevice(i)
		if err != nil {
			return nil, deviceError("open a device", err)
		}
		if list[i], err = describe(i, d); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func describe(ordinal int, d cu.Device) (i Info, err error) {
	i.Ordinal = ordinal
	if i.Name, err = d.Name(); err != nil {
		return i, deviceError("ask for a device's name", err)
	}
	if i.Major, err = d.Attribute(cu.ComputeCapabilityMajor); err == nil {
		i.Minor, err = d.Attribute(cu.ComputeCapabilityMinor)
	}
	if err == nil {
		i.Memory, err = d.TotalMem()
	}
	if err != nil {
		return i, deviceError("ask for a device's properties", err)
	}
	return i, nil
}

// deviceError says what was being done and what the driver says of it.
func deviceError(doing string, err error) error {
	return fmt.Errorf("%w: %s: %w", ErrDevice, doing, cudrv.Wrap(err))
}
