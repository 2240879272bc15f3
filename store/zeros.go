package store

import (
	"bytes"
	"os"
	"runtime/debug"
	"sync/atomic"
)

// badger's logs are sparse files of many megabytes, most of which are zeros, so runs of
// zeros are looked for in large steps.

// leadingZeros is how many bytes at the beginning of b are 0.
func leadingZeros(b []byte) (n int) {
	for len(b)-n >= zeroChunk && bytes.Equal(b[n:n+zeroChunk], zeroPage[:zeroChunk]) {
		n += zeroChunk
	}
	for n < len(b) && b[n] == 0 {
		n++
	}
	return n
}

// trimZeros is b without the zeros at its end.
func trimZeros(b []byte) []byte {
	for len(b) >= zeroChunk && bytes.Equal(b[len(b)-zeroChunk:], zeroPage[:zeroChunk]) {
		b = b[:len(b)-zeroChunk]
	}
	return bytes.TrimRight(b, "\x00")
}

// mapLog maps a log without the hole at its end, but for a chunk. Reading a hole makes
// the kernel fill its page cache with zeros: 3 s for a value log of 1 GiB. The capacity of b
// is the length of the file.
func mapLog(path string) (b []byte, done func(), err error) {
	b, done, err = mapFile(path)
	if err != nil {
		return nil, nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		done()
		return nil, nil, err
	}
	defer f.Close()
	end := min(int64(len(b)), dataEnd(f, int64(len(b))))
	return b[:int(end)+readable(b[end:min(int64(len(b)), end+zeroChunk)])], done, nil
}

// readable is how much of b, a mapped hole, can be read. The file systems that live in
// memory need space for that too, and without it reading a page is a fatal signal.
func readable(b []byte) (n int) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			if _, fault := p.(interface{ Addr() uintptr }); !fault {
				panic(p)
			}
		}
	}()
	var sum byte
	for n < len(b) {
		sum |= b[n]
		n = min(n+(1<<10), len(b)) // pages are not smaller
	}
	padding.Store(uint32(sum))
	return n
}

// padding makes the compiler keep the reads of readable.
var padding atomic.Uint32
