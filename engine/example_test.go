package engine_test

import (
	"context"
	"fmt"

	"weir/backend"
	"weir/backend/sim"
	"weir/engine"
	"weir/sampler"
)

// openSimulator opens a backend without a model: it draws tokens from a list.
func openSimulator() (backend.Backend, error) {
	profile := sim.Instant()
	profile.Tokens = []int32{10, 11, 12, 13}
	return sim.NewPaced(backend.Spec{
		VocabSize:    100,
		BlockTokens:  16, // tokens in a block of the KV cache
		NumBlocks:    65, // block 0 is not used
		MaxTokens:    256,
		MaxSeqs:      8,
		MaxSeqTokens: 512,
		Depth:        1,
	}, profile)
}

// Submit a request and read its tokens.
func Example() {
	e := engine.New(engine.Config{MaxLive: 100, Caching: true}, openSimulator)

	// The loop runs until ctx ends.
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	select {
	case <-e.Ready():
	case err := <-done: // the backend could not be opened
		fmt.Println(err)
		return
	}

	stream, err := e.Submit(engine.Request{
		Tokens:   []int32{1, 2, 3}, // the prompt
		Limits:   engine.Limits{MaxTokens: 5, EOS: -1},
		Sampling: sampler.DefaultParams(),
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	// Each call of Next waits for tokens and takes all that there are.
	var events engine.Events
	tokens, ended := 0, false
	for !ended {
		if err := stream.Next(ctx, &events); err != nil {
			fmt.Println(err)
			return
		}
		for _, ev := range events.Items {
			tokens++
			if ended = ev.Reason != engine.NotDone; ended {
				fmt.Println("ended by its length:", ev.Reason == engine.Length)
			}
		}
	}
	fmt.Println("tokens:", tokens)

	stop()
	fmt.Println("error of the loop:", <-done)
	// Output:
	// ended by its length: true
	// tokens: 5
	// error of the loop: <nil>
}

// wordMask is a mask that allows one of several words, each of them a sequence of tokens,
// and then the end token 0.
type wordMask struct {
	words [][]int32 // that can still follow
}

// next lists the tokens that may come next.
func (m *wordMask) next() (tokens []int32) {
	for _, w := range m.words {
		if len(w) == 0 {
			tokens = append(tokens, 0)
		} else {
			tokens = append(tokens, w[0])
		}
	}
	return tokens
}

// Fill implements engine.Mask.
func (m *wordMask) Fill(row []uint32, _ func(bool) bool) error {
	clear(row)
	for _, t := range m.next() {
		row[t/32] |= 1 << (t % 32)
	}
	return nil
}

// Quick implements engine.Mask.
func (m *wordMask) Quick(int32) bool { return true }

// Only implements engine.Mask.
func (m *wordMask) Only() int32 {
	if next := m.next(); len(next) == 1 {
		return next[0]
	}
	return -1
}

// Accept implements engine.Mask.
func (m *wordMask) Accept(token int32) bool {
	var rest [][]int32
	for _, w := range m.words {
		if len(w) > 0 && w[0] == token {
			rest = append(rest, w[1:])
		}
	}
	m.words = rest
	return len(rest) > 0 || token == 0
}

// A mask constrains an output to one of two words. Once the first token has been drawn the
// rest is determined, so the engine takes it without a forward pass.
func ExampleMask() {
	e := engine.New(engine.Config{MaxLive: 100}, openSimulator)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	<-e.Ready()

	stream, err := e.Submit(engine.Request{
		Tokens:   []int32{1, 2, 3},
		Limits:   engine.Limits{MaxTokens: 10, EOS: 0},
		Sampling: sampler.DefaultParams(),
		Masks:    []engine.Mask{&wordMask{[][]int32{{50, 51, 52}, {60, 61, 62}}}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	var output []int32
	var events engine.Events
	for ended := false; !ended; {
		if err := stream.Next(ctx, &events); err != nil {
			fmt.Println(err)
			return
		}
		for _, ev := range events.Items {
			output = append(output, ev.Token)
			ended = ev.Reason != engine.NotDone
		}
	}
	stop()
	<-done
	stats := e.Stats()
	fmt.Println("output:", output)
	fmt.Println("steps:", stats.Steps, "forced tokens:", stats.ForcedTokens)
	// Output:
	// output: [50 51 52 0]
	// steps: 1 forced tokens: 3
}
