//go:build cuda

package kernels

import (
	"bytes"
	"compress/gzip"
	"embed"
	"io"
)

//go:embed ptx/sm_80.ptx.gz ptx/sm_90a.ptx.gz
var files embed.FS

// PTX is the module of a flavour, as text that ends in a zero byte: what a
// driver takes. The caller owns it.
func PTX(f Flavour) []byte {
	packed, err := files.ReadFile("ptx/" + f.String() + ".ptx.gz")
	if err != nil {
		panic(err) // embedded by the line above
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		panic(err) // ptx_test.go has read it
	}
	ptx, err := io.ReadAll(z)
	if err != nil {
		panic(err)
	}
	return append(ptx, 0)
}
