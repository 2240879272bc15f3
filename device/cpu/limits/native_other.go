//go:build !amd64 || purego

package limits

func native() loops { return genericLoops() }
