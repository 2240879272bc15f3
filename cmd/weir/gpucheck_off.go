//go:build !cuda || !linux || !amd64

package main

import "io"

func gpuCheckMain([]string, func(string) string, io.Writer, io.Writer) error {
	return usageError{errNoCUDA}
}
