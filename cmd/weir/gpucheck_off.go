//go:build !cuda || !linux || !amd64

package main

func setupGPUCheck(f *flagSet, _ *environment) action {
	new(gpuCheckOptions).bind(f) // for the manual, which is the same in every build
	return func([]string) error { return usageError{errNoCUDA} }
}
