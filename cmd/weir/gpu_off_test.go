//go:build !cuda || !linux || !amd64

package main

const gpuBuilt = false
