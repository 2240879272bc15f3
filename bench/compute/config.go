package compute

import (
	"errors"
	"fmt"
	"slices"

	"weir/model"
)

// ErrConfig is wrapped by every complaint about a Config.
var ErrConfig = errors.New("compute: bad measurement")

// Config says what is measured: decode steps of every batch size at every context, and
// prompts of some lengths, one at a time.
type Config struct {
	Batches  []int // numbers of sequences that decode together
	Contexts []int // numbers of positions that each of them has before the first step
	Prefills []int // lengths of prompts

	Steps   int // decode steps in one repetition
	Repeats int // repetitions of every row; each gives one rate
	Garbage int // bytes per second that are allocated beside the steps, as connections do

	MaxTokens   int   // largest number of tokens in a step; longer prompts take several steps
	BlockTokens int   // tokens in a block of the KV cache
	MaxKV       int64 // bytes of memory for keys and values; 0 is no limit
	Memory      int   // bytes that are read to measure the memory's speed; 0 measures no limits of the machine

	passes int // measurements of each limit before the rows, and again after them
}

// DefaultConfig measures the batch sizes and lengths that a server typically has. For a model
// of a billion parameters this takes some tens of seconds.
func DefaultConfig() Config {
	return Config{
		Batches: []int{1, 8, 32, 64}, Contexts: []int{128, 1024, 4096}, Prefills: []int{128, 512, 4096},
		Steps: 16, Repeats: 3, MaxTokens: 512, BlockTokens: 16, Memory: 1 << 30, passes: 5,
	}
}

const (
	maxSize   = 1 << 20 // of any length
	maxRepeat = 1 << 16
)

// Validate returns an error that wraps ErrConfig if a field cannot be used.
func (c *Config) Validate() error {
	check := func(what string, least, most int, values ...int) error {
		for _, v := range values {
			if v < least || v > most {
				return fmt.Errorf("%w: %s %d is not in [%d, %d]", ErrConfig, what, v, least, most)
			}
		}
		return nil
	}
	err := errors.Join(
		check("batch", 1, maxSize, c.Batches...),
		check("context", 0, maxSize, c.Contexts...),
		check("prompt", 1, maxSize, c.Prefills...),
		check("steps", 1, maxRepeat, c.Steps),
		check("repetitions", 1, maxRepeat, c.Repeats),
		check("garbage", 0, 1<<40, c.Garbage),
		check("tokens of a step", 1, maxSize, c.MaxTokens),
		check("block size", 16, maxSize, c.BlockTokens),
		check("memory to read", 0, 1<<40, c.Memory),
		check("passes", 0, maxRepeat, c.passes),
	)
	switch {
	case err != nil:
		return err
	case c.BlockTokens%16 != 0:
		return fmt.Errorf("%w: block size %d is not a multiple of 16", ErrConfig, c.BlockTokens)
	case len(c.cases()) == 0:
		return fmt.Errorf("%w: neither batches with contexts nor prompts", ErrConfig)
	}
	return nil
}

// Phase is what a row measures.
type Phase string

// The phases.
const (
	Decode  Phase = "decode"
	Prefill Phase = "prefill"
)

// Case is one row of the report.
type Case struct {
	Phase   Phase
	Batch   int // number of sequences
	Context int // positions before the first step of decode, or the length of the prompt
}

// length is the number of positions that a sequence has in the end.
func (c Case) length(steps int) int {
	if c.Phase == Prefill {
		return c.Context
	}
	return c.Context + steps
}

// cases returns all cases in the order in which they are reported.
func (c *Config) cases() []Case {
	var list []Case
	for _, n := range c.Prefills {
		list = append(list, Case{Prefill, 1, n})
	}
	for _, context := range c.Contexts {
		for _, batch := range c.Batches {
			list = append(list, Case{Decode, batch, context})
		}
	}
	return list
}

// A plan is the cases that fit into the machine, and the room that they take.
type plan struct {
	cases   []Case
	skipped []Skipped
	lengths []int // [sequence] largest number of positions in any case
}

// Skipped is a case that was left out.
type Skipped struct {
	Case
	Why string
}

// plan chooses the cases that the model and the memory allow, small ones first. All cases
// share one cache, in which sequence s has room for its longest case.
func (c *Config) plan(m *model.Config, kvBytesPerToken float64) plan {
	var p plan
	order := c.cases()
	slices.SortStableFunc(order, func(a, b Case) int {
		return a.Batch*a.length(c.Steps) - b.Batch*b.length(c.Steps)
	})
	fits := map[Case]bool{}
	for _, x := range order {
		n := x.length(c.Steps)
		if n > m.MaxSeqTokens {
			p.skipped = append(p.skipped, Skipped{x, fmt.Sprintf("the model was made for %d positions", m.MaxSeqTokens)})
			continue
		}
		lengths := slices.Clone(p.lengths)
		for len(lengths) < x.Batch {
			lengths = append(lengths, 0)
		}
		for s := range x.Batch {
			lengths[s] = max(lengths[s], n)
		}
		if need := float64(c.blocks(lengths)*c.BlockTokens) * kvBytesPerToken; c.MaxKV > 0 && need > float64(c.MaxKV) {
			p.skipped = append(p.skipped, Skipped{x, fmt.Sprintf("needs %.0f MiB of keys and values, there is room for %.0f", need/(1<<20), float64(c.MaxKV)/(1<<20))})
			continue
		}
		p.lengths, fits[x] = lengths, true
	}
	for _, x := range c.cases() {
		if fits[x] {
			p.cases = append(p.cases, x)
		}
	}
	return p
}

// blocks is how many blocks a cache needs for sequences of these lengths, including the null
// block.
func (c *Config) blocks(lengths []int) int {
	n := 1
	for _, l := range lengths {
		n += (l + c.BlockTokens - 1) / c.BlockTokens
	}
	return n
}

// Options returns the sizes of the runner that this measurement needs, and the cases that
// will be left out. kvBytesPerToken is the size of a position's keys and values.
func (c *Config) Options(m *model.Config, kvBytesPerToken float64) (model.Options, []Skipped, error) {
	p := c.plan(m, kvBytesPerToken)
	if len(p.cases) == 0 {
		return model.Options{}, p.skipped, fmt.Errorf("%w: nothing is left to measure; %s", ErrConfig, p.skipped[0].Why)
	}
	return model.Options{
		BlockTokens: c.BlockTokens, NumBlocks: max(2, c.blocks(p.lengths)), MaxTokens: max(c.MaxTokens, len(p.lengths)),
		MaxSeqs: len(p.lengths), MaxSeqTokens: max(slices.Max(p.lengths), 1), StateSlots: 1 + len(p.lengths),
	}, p.skipped, nil
}
