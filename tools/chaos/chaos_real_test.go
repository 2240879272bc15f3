package main

import (
	"context"
	"os"
	"testing"
	"time"
)

// TestMain makes the test binary an attacker when startAttacker starts it as one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "--attacker" {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestAttacks is the short form of make chaos: every attack for half a second. It asserts
// that no well-behaved stream breaks or gets other tokens, that attackers get statuses that
// they may get, and that the server keeps within its memory. It asserts no time.
func TestAttacks(t *testing.T) {
	weir := buildWeir(t)
	o := &options{weir: weir, serve: "--device sim --sim-profile h100-llama-8b", runs: 1, quiet: 10 * time.Millisecond, attack: 500 * time.Millisecond, memory: 2048, plain: 4, structured: 2}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	results, err := measure(ctx, o, attacks)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range attacks {
		if r := results[a.name][0]; r.memory > r.allowed {
			t.Errorf("%s: the server held %d MiB, its bound is %d MiB", a.name, r.memory>>20, r.allowed>>20)
		}
	}
}
