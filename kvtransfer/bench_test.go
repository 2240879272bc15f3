package kvtransfer

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"testing"

	"weir/kvcache"
)

// benchBytes is what a prompt has in benchmarks, in blocks of these sizes: of a small model, and of one with 0.6 billion parameters (28 layers, 8 heads of 128,
// bfloat16, 16 tokens).
const benchBytes = 256 << 20

var benchSizes = []int{128 << 10, 1792 << 10}

// BenchmarkTransfer reads the blocks of a prompt from a partner over loopback, as the engine does, and lets go of them.
func BenchmarkTransfer(b *testing.B) {
	for _, encrypt := range []bool{false, true} {
		for _, size := range benchSizes {
			b.Run(fmt.Sprintf("encrypt=%v/block=%dKiB", encrypt, size>>10), func(b *testing.B) { benchTransfer(b, encrypt, size) })
		}
	}
}

func benchTransfer(b *testing.B, encrypt bool, size int) {
	cfg := config()
	cfg.Hold, cfg.Queue, cfg.Encrypt, cfg.Log = 1<<30, 64<<20, encrypt, slog.New(slog.DiscardHandler)
	from, err := New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	defer from.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	go func() { _ = from.Serve(ln) }()
	cfg.Peers = []string{ln.Addr().String()}
	to, err := New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	defer to.Close()
	woken := make(chan struct{}, 1)
	to.Notify(func() {
		select {
		case woken <- struct{}{}:
		default:
		}
	})
	keys := make([]kvcache.Key, benchBytes/size)
	for i := range keys {
		keys[i].Hash[0], keys[i].Hash[1], keys[i].Hash[2] = byte(i), byte(i>>8), 1
	}
	l := from.Lease(keys)
	for _, k := range keys {
		from.Save(k, from.Buffer(size))
	}
	l.Settle()
	o, err := to.Offer(b.Context(), cfg.Peers[0], l.id, keys)
	if err != nil {
		b.Fatal(err)
	}
	var got []kvcache.Content
	b.SetBytes(int64(len(keys) * size))
	for b.Loop() {
		next := 0
		for left := len(keys); left > 0; {
			for next < len(keys) && to.Fetch(keys[next], size) {
				next++
			}
			got = to.Fetched(got[:0], 1<<30)
			for _, c := range got {
				if left--; c.Data == nil {
					b.Fatal("a copy has not come")
				}
			}
			if len(got) == 0 {
				<-woken
			}
		}
	}
	o.End()
}

// BenchmarkPlainTCP sends the same from one memory to another by nothing but a connection.
func BenchmarkPlainTCP(b *testing.B) {
	for _, size := range benchSizes {
		b.Run(fmt.Sprintf("block=%dKiB", size>>10), func(b *testing.B) { benchPlain(b, size) })
	}
}

func benchPlain(b *testing.B, size int) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer ln.Close()
	blocks := make([][]byte, benchBytes/size)
	into := make([][]byte, min(len(blocks), 64<<20/size))
	for i := range blocks {
		blocks[i] = make([]byte, size)
	}
	for i := range into {
		into[i] = make([]byte, size)
	}
	go func() {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		for i := 0; err == nil; i++ {
			_, err = c.Write(blocks[i%len(blocks)])
		}
	}()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	b.SetBytes(int64(len(blocks) * size))
	for b.Loop() {
		for i := range blocks {
			if _, err := io.ReadFull(c, into[i%len(into)]); err != nil {
				b.Fatal(err)
			}
		}
	}
}
