package compute

import (
	"errors"
	"fmt"
	"slices"

	"weir/model"
)

// ErrConfig is wrapped by every complaint about a Config.
var ErrConfig = errors.New("compute: bad measurement")

// Config says what is measured: decode steps of every batch at every context,
// and prompts of some lengths, one at a time.
type Config struct {
	Batches  []int // sequences that decode together
	Contexts []int // positions each of them has before the first step; 0 is none
	Prefills []int // lengths of prompts

	Steps   int // decode steps in one repetition
	Repeats int // of every row; each gives one rate
	Garbage int // bytes per second that are allocated beside, as connections do

	MaxTokens   int   // most tokens of a step: prompts are cut into as many
	BlockTokens int   // KV slots per block
	MaxKV       int64 // bytes of keys and values there is room for; 0 is no limit
	Memory      int   // bytes that are read to measure the memory's speed; 0 measures no limits
}

// DefaultConfig measures what a server meets in some tens of seconds, for a
// model of a billion parameters.
func DefaultConfig() Config {
	return Config{
		Batches: []int{1, 8, 32, 64}, Contexts: []int{128, 1024, 4096}, Prefills: []int{128, 512, 4096},
		Steps: 16, Repeats: 3, MaxTokens: 512, BlockTokens: 16, Memory: 1 << 30,
	}
}

const (
	maxSize   = 1 << 20 // of any length
	maxRepeat = 1 << 16
)

// Validate reports the first unusable field.
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
	Batch   int // sequences
	Context int // positions before the first step of decode; length of the prompt
}

// length is the longest a sequence becomes.
func (c Case) length(steps int) int {
	if c.Phase == Prefill {
		return c.Context
	}
	return c.Context + steps
}

// cases are in the order in which they are reported.
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

// A plan is the cases that fit, and the room they take.
type plan struct {
	cases   []Case
	skipped []Skipped
	lengths []int // by sequence: the longest it becomes in any case
}

// Skipped is a case that was left out.
type Skipped struct {
	Case
	Why string
}

// plan chooses the cases that the model and the memory allow, small ones first:
// all share one cache, in which sequence s is as long as any case makes it.
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

// blocks is what a pool needs for sequences of these lengths, the null block
// included.
func (c *Config) blocks(lengths []int) int {
	n := 1
	for _, l := range lengths {
		n += (l + c.BlockTokens - 1) / c.BlockTokens
	}
	return n
}

// Options are the sizes of the runner that this measurement needs, and the
// cases that will be left out. kvBytesPerToken is what a position costs.
func (c *Config) Options(m *model.Config, kvBytesPerToken float64) (model.Options, []Skipped, error) {
	p := c.plan(m, kvBytesPerToken)
	if len(p.cases) == 0 {
		return model.Options{}, p.skipped, fmt.Errorf("%w: nothing is left to measure; %s", ErrConfig, p.skipped[0].Why)
	}
	return model.Options{
		BlockTokens: c.BlockTokens, NumBlocks: max(2, c.blocks(p.lengths)), MaxTokens: max(c.MaxTokens, len(p.lengths)),
		MaxSeqs: len(p.lengths), MaxSeqTokens: max(slices.Max(p.lengths), 1),
	}, p.skipped, nil
}
