//go:build !cuda || !linux || !amd64

package main

import (
	"context"
	"errors"
	"fmt"

	"weir/model"
)

// errNoCUDA says that this build has no CUDA backend.
var errNoCUDA = errors.New("this weir was built without CUDA (make cuda builds one that has it)")

// gpu is one that was found; in a build that cannot use one there is none.
type gpu struct{}

func findGPU(o *engineOptions) (*gpu, error) {
	if *o.device == "auto" {
		return nil, nil
	}
	return nil, usageError{fmt.Errorf("--device %s: %w", *o.device, errNoCUDA)}
}

func (*gpu) plan(context.Context, *source, model.Options, *engineOptions) (*gpuPlan, error) {
	return nil, errNoCUDA
}
