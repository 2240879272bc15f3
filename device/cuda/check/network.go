//go:build cuda && linux && amd64

package check

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"weir/backend"
	"weir/device/cpu"
	"weir/device/cuda"
	"weir/model"
	"weir/models"
)

// network runs the bundled model on the GPU and on the CPU. Logits may differ by the
// rounding of activations to bf16, and greedy tokens must be the same if the best one
// leads by more than that. On the GPU, the bits must be the same with graphs and with
// single launches, alone and in a batch.
func network(c *checker) (list []task, err error) {
	families, err := c.families()
	if err != nil {
		return nil, err
	}
	var tokens []int32 // those that the model prefers with whole weights
	for _, as := range []struct {
		gpu cuda.Format
		cpu cpu.Format
	}{{cuda.BF16, cpu.BF16}, {cuda.Q8, cpu.Q8}, {cuda.Q4, cpu.Q4}} {
		list = append(list, task{"weights of " + as.gpu.String(), func(c *checker) (err error) {
			m, err := model.OpenFS(models.Bundled())
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, m.Close()) }()
			prompt, o := c.networkPrompt(m)
			var want []float32
			if tokens, want, err = c.onCPU(m, o, as.cpu, prompt, tokens); err != nil {
				return fmt.Errorf("on the CPU: %w", err)
			}
			for _, f := range families {
				if f.weights != as.gpu {
					continue
				}
				if err := c.sameNetwork(f, m, o, prompt, tokens, want); err != nil {
					return fmt.Errorf("%s: %w", f.name, err)
				}
			}
			return nil
		}})
	}
	return list, nil
}

// networkPrompt is the prompt of all networks, and the sizes of their runners.
func (c *checker) networkPrompt(m *model.Model) ([]int32, model.Options) {
	rng := rand.New(rand.NewPCG(1, 5))
	prompt := make([]int32, pick(c, 10, 700))
	for i := range prompt {
		prompt[i] = int32(rng.IntN(m.Config.VocabSize))
	}
	o := model.Options{NumBlocks: 1 + 70*64, MaxTokens: 1024, MaxSeqs: 64, MaxSeqTokens: 1024, Depth: 1}
	if c.o.Quick {
		o.NumBlocks, o.MaxTokens, o.MaxSeqs, o.MaxSeqTokens = 40, 32, 8, 64
	}
	return prompt, o
}

// onCPU computes the logits of a network on the CPU, of the given tokens or, if
// there are none, of those that it prefers. It returns the tokens, too.
func (c *checker) onCPU(m *model.Model, o model.Options, as cpu.Format, prompt, tokens []int32) ([]int32, []float32, error) {
	cfg := cpu.Reference()
	cfg.WeightType = as
	dev, err := cpu.Open(cfg)
	if err != nil {
		return nil, nil, err
	}
	return decode(dev, m, o, prompt, tokens, pick(c, 3, 64), 0)
}

// sameNetwork compares the logits of the GPU with those of the CPU, and the ways of
// running on the GPU with each other.
func (c *checker) sameNetwork(f family, m *model.Model, o model.Options, prompt, tokens []int32, want []float32) error {
	var first []float32
	for _, v := range []struct {
		name  string
		plain bool
		mates int
	}{{"graphs", false, 0}, {"single launches", true, 0}, {"in a batch of 7", false, 6}, {"in a batch of 64", false, pick(c, 2, 63)}} {
		if v.plain && f.products == cuda.WGMMA || c.o.Quick && f.weights != cuda.BF16 && (v.plain || v.mates == 2) {
			continue
		}
		cfg := c.o.Config
		cfg.PlainLaunch, cfg.Products, cfg.Weights = v.plain, f.products, f.weights
		dev, err := cuda.Open(cfg)
		if err != nil {
			return err
		}
		_, got, err := decode(dev, m, o, prompt, tokens, len(tokens), v.mates)
		if err != nil {
			return fmt.Errorf("%s: %w", v.name, err)
		}
		if first == nil {
			first = got
			limit := 0.02
			if f.weights != cuda.BF16 { // the CPU rounds activations to 8 bits; 4 bits per weight move logits by 0.2
				limit = 0.05
			}
			c.likeCPU(f.name, got, want, m.Config.VocabSize, limit)
			continue
		}
		c.record(f.name+", "+v.name+": the bits of the first run", verdict(slices.EqualFunc(got, first, func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) })))
	}
	return nil
}

func (c *checker) likeCPU(name string, got, want []float32, n int, limit float64) {
	var sum, worst float64
	agree, sure := 0, true
	rows := len(want) / n
	for r := range rows {
		x, y := got[r*n:(r+1)*n], want[r*n:(r+1)*n]
		var e, w float64
		for i := range y {
			e += float64(x[i]-y[i]) * float64(x[i]-y[i])
			w += float64(y[i]) * float64(y[i])
		}
		rel := math.Sqrt(e / w)
		sum, worst = sum+rel, max(worst, rel)
		a, _ := best(x)
		b, margin := best(y)
		if a == b {
			agree++
		} else if margin > 0.2 {
			sure = false
		}
	}
	c.record(name+": logits like the CPU's", verdict(sum/float64(rows) < limit && worst < 5*limit), "mean_rel", sum/float64(rows), "worst_rel", worst, "rows", rows)
	c.record(name+": greedy tokens like the CPU's", verdict(sure), "agree", agree, "of", rows)
}

// best is the index of the largest value and its margin.
func best(v []float32) (int, float32) {
	at, a, b := 0, float32(math.Inf(-1)), float32(math.Inf(-1))
	for i, x := range v {
		if x > a {
			at, a, b = i, x, a
		} else if x > b {
			b = x
		}
	}
	return at, a - b
}

// decode computes a prompt in chunks and then single tokens: those given, or the
// most likely ones. It returns the tokens and the logits they came from. The
// other sequences of the batch have tokens of their own.
func decode(dev model.Device, m *model.Model, o model.Options, prompt, forced []int32, steps, mates int) (tokens []int32, logits []float32, err error) {
	if _, ok := dev.(*cuda.Device); ok {
		o.Depth = 2
	}
	r, err := model.NewRunner(context.Background(), dev, m, o)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	s := r.Spec()
	perSeq := int32((s.MaxSeqTokens + s.BlockTokens - 1) / s.BlockTokens)
	perSeq = min(perSeq, int32((s.NumBlocks-1)/(mates+1)))
	at, mate := 0, 0
	seq := slices.Clone(prompt)
	for len(tokens) < steps {
		b, d := &backend.Batch{}, &backend.Draws{}
		add := func(i int32, toks []int32, pos int, host bool) {
			for j, t := range toks {
				p := pos + j
				b.Tokens, b.Pos = append(b.Tokens, t), append(b.Pos, int32(p))
				b.Slots = append(b.Slots, (1+i*perSeq+int32(p/s.BlockTokens))*int32(s.BlockTokens)+int32(p%s.BlockTokens))
			}
			for k := range int32((pos + len(toks) + s.BlockTokens - 1) / s.BlockTokens) {
				b.Tables = append(b.Tables, 1+i*perSeq+k)
			}
			b.At = append(b.At, int32(len(b.Tokens)-1))
			b.QueryEnd, b.KVLen, b.TableEnd = append(b.QueryEnd, int32(len(b.Tokens))), append(b.KVLen, int32(pos+len(toks))), append(b.TableEnd, int32(len(b.Tables)))
			d.Rows = append(d.Rows, backend.Draw{TopP: 1, Mask: -1, Allow: -1, Target: -1, Host: host})
		}
		n := min(len(seq)-at, s.MaxTokens-mates)
		add(0, seq[at:at+n], at, true)
		for i := range mates {
			add(int32(i+1), []int32{int32((i*31 + mate*7) % s.VocabSize)}, mate, false)
		}
		at, mate = at+n, mate+1
		out := &backend.Out{Tokens: make([]int32, len(b.At)), Logprobs: make([]float32, len(b.At)), Ranks: make([]int32, len(b.At)), Logits: make([]float32, s.VocabSize)}
		if err := errors.Join(r.Begin(b), r.Draw(d)); err != nil {
			return nil, nil, err
		}
		if err := r.End(out); err != nil {
			return nil, nil, err
		}
		if at < len(seq) {
			continue
		}
		logits = append(logits, out.Logits...)
		t := out.Tokens[0]
		if forced != nil {
			t = forced[len(tokens)]
		}
		tokens = append(tokens, t)
		seq = append(seq, t)
	}
	return tokens, logits, nil
}
