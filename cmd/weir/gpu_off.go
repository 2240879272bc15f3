//go:build !cuda || !linux || !amd64

package main

import (
	"context"
	"errors"
	"fmt"

	"weir/model"
)

var errNoCUDA = errors.New("this weir was built without CUDA (make cuda builds one that has it)")

// gpu is a GPU that was found. This build cannot use one, so there is none.
type gpu struct{}

func (*gpu) memory() int64 { return 0 }

func (*gpu) refuses(*model.Config) error { return nil }

func findGPU(o *engineOptions) (*gpu, error) {
	if o.device == "auto" {
		return nil, nil
	}
	return nil, usageError{fmt.Errorf("--device %s: %w", o.device, errNoCUDA)}
}

func (*gpu) plan(context.Context, *source, model.Options, *engineOptions, bool) (*gpuPlan, error) {
	return nil, errNoCUDA
}
