//go:build !unix

package weights

import (
	"io"
	"os"
)

// mapFile reads the whole file: safe everywhere, at the price of the memory.
func mapFile(f *os.File, size int) (mapping, error) {
	b := make([]byte, size)
	if _, err := io.ReadFull(f, b); err != nil {
		return mapping{}, err
	}
	return mapping{data: b, release: func() error { return nil }}, nil
}
