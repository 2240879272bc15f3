package openai

import (
	"runtime"
	"strings"
	"testing"

	"weir/engine"
	"weir/internal/testkit"
	"weir/sampler"
)

// biased is a request with so many biases, the different tokens of whose prompt are fewer than
// its tokens.
func biased(n, biases, tokens, different int, repetition float32) engine.Request {
	r := engine.Request{N: n, Sampling: sampler.DefaultParams()}
	r.Sampling.Repetition = repetition
	r.Sampling.Bias = make([]sampler.TokenBias, biases)
	for i := range tokens {
		r.Tokens = append(r.Tokens, int32(i%different))
	}
	return r
}

// TestMaxEdits: a request is refused if the choices of all its prompts together change too
// many logits at every step.
func TestMaxEdits(t *testing.T) {
	const vocab = 20_000
	for _, c := range []struct {
		name     string
		requests []engine.Request
		refused  bool
	}{
		{"biases of 128 choices", []engine.Request{biased(128, 4096, 10, 10, 1)}, false},
		{"one more", []engine.Request{biased(128, 4097, 10, 10, 1)}, true},
		{"tokens of the prompt count once", []engine.Request{biased(128, 96, 16_000, 4000, 1.1)}, false},
		{"one more of them", []engine.Request{biased(128, 96, 16_000, 4001, 1.1)}, true},
		{"without a penalty they do not count", []engine.Request{biased(128, 96, 16_000, 4001, 1)}, false},
		{"two prompts", []engine.Request{biased(64, 4096, 10, 10, 1), biased(64, 4096, 10, 10, 1)}, false},
		{"two prompts, one choice more", []engine.Request{biased(64, 4096, 10, 10, 1), biased(65, 4096, 10, 10, 1)}, true},
		{"no number of choices is one", []engine.Request{biased(0, 16_384, 10, 10, 2)}, false},
	} {
		p := prepared{requests: c.requests}
		bad := p.checkEdits(vocab)
		if (bad != nil) != c.refused {
			t.Errorf("%s: %v", c.name, bad)
		}
		if bad != nil && (bad.Status != 400 || bad.Param == nil || *bad.Param != "n" || !strings.Contains(bad.Message, "more than 524288 logits")) {
			t.Errorf("%s: %+v", c.name, bad)
		}
	}
}

// TestTablesSize: what the engine makes of a request's lists takes no more than is reserved.
func TestTablesSize(t *testing.T) {
	const vocab = 20_000
	r := biased(32, 8000, 12_000, 12_000, 1.1)
	for i := range r.Sampling.Bias {
		r.Sampling.Bias[i].Token = int32(vocab - 1 - i)
	}
	for i := range 4000 {
		r.Sampling.Allowed = append(r.Sampling.Allowed, int32(i))
	}
	r.Sampling.Repetition = 1.1
	reserved := tablesSize(&r, vocab)
	before := testkit.Heap()
	r.Sampling.PrepareFor(vocab, r.Tokens)
	states := make([]*sampler.State, r.N)
	for i := range states {
		states[i] = sampler.NewState(&r.Sampling, vocab, r.Tokens)
	}
	if held := testkit.Heap() - before; held > reserved+64<<10 || held < reserved/3 {
		t.Errorf("%d bytes are held, %d reserved", held, reserved)
	}
	runtime.KeepAlive(states)
	if n := tablesSize(&engine.Request{Sampling: sampler.DefaultParams(), Tokens: r.Tokens}, vocab); n != 0 {
		t.Errorf("a plain request has tables of %d bytes", n)
	}
}
