//go:build cuda && linux && amd64

package check

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"weir/backend"
	"weir/device/cuda"
	"weir/device/cuda/kernels"
	"weir/model"
)

// shape is the shape of a network whose steps are timed. Its weights are random, because
// only the time matters.
type shape struct {
	name                                     string
	hidden, layers, heads, kvHeads, dim, mlp int
	vocab                                    int
	tied, qkNorm                             bool
}

var shapes = []shape{
	{"Qwen3-0.6B", 1024, 28, 16, 8, 128, 3072, 151936, true, true},
	{"Llama-3.2-1B", 2048, 16, 32, 8, 64, 8192, 128256, true, false},
	{"Llama-3.1-8B", 4096, 32, 32, 8, 128, 14336, 128256, false, false},
}

var tiny = shape{"tiny", 64, 2, 4, 2, 16, 96, 128, true, true}

// steps times whole steps through the device, two in flight, as shares of the
// time that reading weights and cache takes at the speed of memory.
func steps(c *checker) ([]task, error) {
	models := shapes
	if c.o.Quick {
		models = []shape{tiny}
	}
	modes, err := c.families()
	if err != nil {
		return nil, err
	}
	list := []task{{"memory", (*checker).memory}}
	for _, s := range models {
		for i, f := range modes {
			if f.weights != cuda.BF16 && s.tied && !c.o.Quick {
				continue // the largest model is enough
			}
			list = append(list, task{s.name + ", " + f.name, func(c *checker) error { return c.model(s, f, i == 0) }})
		}
	}
	return list, nil
}

// model times a model's steps with one family of products. Small batches and short
// caches are timed with the first family only.
func (c *checker) model(s shape, f family, first bool) (err error) {
	if err := c.close(); err != nil { // its memory is needed
		return err
	}
	batches, contexts := []int{1, 8, 64, 256}, []int{128, 2048}
	o := model.Options{MaxTokens: 2048, MaxSeqs: 256, MaxSeqTokens: 16384, Depth: 2}
	if c.o.Quick {
		batches, contexts = []int{1, 3}, []int{40}
		o.MaxTokens, o.MaxSeqs, o.MaxSeqTokens = 32, 4, 128
	}
	o.NumBlocks = 1 + batches[len(batches)-1]*((contexts[len(contexts)-1]+100)/16+1)
	if !first && !c.o.Quick {
		batches, contexts = []int{1, 64}, []int{2048}
	}
	dir, err := c.checkpoint(s)
	if errors.Is(err, errNoRoom) {
		c.record(s.name+", "+f.name, Skipped, "why", err.Error())
		return nil
	}
	if err != nil {
		return err
	}
	m, err := model.Open(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	return c.mode(s, m, f, o, batches, contexts, c.bw)
}

var errNoRoom = errors.New("too little room for its weights")

// checkpoint is the folder of a model, the only one at a time.
func (c *checker) checkpoint(s shape) (string, error) {
	all := filepath.Join(c.o.Scratch, "models")
	dir := filepath.Join(all, s.name)
	if _, err := os.Stat(filepath.Join(dir, "ready")); err == nil {
		return dir, nil
	}
	if err := errors.Join(os.RemoveAll(all), os.MkdirAll(dir, 0o755)); err != nil {
		return "", err
	}
	if free := freeBytes(dir); free < s.bytes()+s.bytes()/8 {
		return "", fmt.Errorf("%w: %d MiB, %d are needed", errNoRoom, free>>20, s.bytes()>>20)
	}
	if err := s.write(dir); err != nil {
		return "", err
	}
	return dir, os.WriteFile(filepath.Join(dir, "ready"), nil, 0o644)
}

// freeBytes is the free space in a folder, in bytes.
func freeBytes(dir string) int64 {
	var f syscall.Statfs_t
	if err := syscall.Statfs(dir, &f); err != nil {
		return 0
	}
	return int64(f.Bavail) * f.Bsize
}

// bytes is about the size of the weights.
func (s shape) bytes() int64 {
	embeddings := 2
	if s.tied {
		embeddings = 1
	}
	layer := s.hidden*(2*s.heads+2*s.kvHeads)*s.dim + 3*s.hidden*s.mlp
	return 2 * int64(embeddings*s.vocab*s.hidden+s.layers*layer)
}

// share is the part of the device's memory that a cache may take.
const share = 0.9

func (c *checker) mode(s shape, m *model.Model, f family, o model.Options, batches, contexts []int, bw float64) (err error) {
	cfg := c.o.Config
	cfg.Products, cfg.Weights = f.products, f.weights
	dev, err := cuda.Open(cfg)
	if err != nil {
		return err
	}
	name := s.name + ", " + f.name
	most := o.NumBlocks
	o.NumBlocks = cuda.WarmBlocks(backend.Spec{BlockTokens: 16, MaxTokens: o.MaxTokens, MaxSeqs: o.MaxSeqs, MaxSeqTokens: o.MaxSeqTokens})
	began := time.Now()
	r, err := model.NewRunner(context.Background(), dev, m, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	c.record(name+": loaded", "", "seconds", time.Since(began).Seconds(), "GB", float64(m.WeightBytes())/1e9)
	if err := cuda.WarmUp(r); err != nil {
		return err
	}
	free, err := dev.FreeForKV(share)
	if err != nil {
		return err
	}
	block := 16 * s.kvBytes()
	blocks := max(o.NumBlocks, min(most, int(free)/block)) // a card may be too small for the largest batch
	if err := r.ResizeKV(blocks); err != nil {
		return err
	}
	weights := float64(m.WeightBytes()) // of a tied model, the embedding is read as the head
	if !s.tied {
		weights -= float64(2 * s.vocab * s.hidden)
	}
	weights *= float64(cuda.TileBytes(f.weights, 64, 64)) / kernels.BF16Tile
	for _, n := range batches {
		for _, at := range contexts {
			if perSeq := (blocks - 1) / n; perSeq*16 < at+60 {
				c.record(fmt.Sprintf("%s: decode, %d at %d", name, n, at), "", "left out", "too little memory")
				continue
			}
			sec, err := decodeSteps(r, n, at, pick(c, 2, 48))
			if err != nil {
				return err
			}
			kv := float64(n) * float64(at) * float64(s.kvBytes())
			floor := (weights + kv) / max(bw, 1)
			c.record(fmt.Sprintf("%s: decode, %d at %d", name, n, at), "", "us", sec*1e6, "tok/s", float64(n)/sec, "share_of_floor", floor/sec,
				"key", fmt.Sprintf("%s decode %d at %d", s.name, n, at))
		}
	}
	for _, n := range pick(c, []int{30}, []int{512, 2048, 8192}) {
		if (blocks-1)*16 < n {
			continue
		}
		sec, err := prefill(r, n)
		if err != nil {
			return err
		}
		c.record(fmt.Sprintf("%s: prefill of %d", name, n), "", "us", sec*1e6, "tok/s", float64(n)/sec, "TFLOP/s", s.flop(n)/sec/1e12,
			"key", fmt.Sprintf("%s prefill %d", s.name, n))
	}
	return nil
}

// flop is the number of operations for a prompt of n tokens, with one row of the head.
func (s shape) flop(n int) float64 {
	layer := float64(s.hidden*(2*s.heads+2*s.kvHeads)*s.dim + 3*s.hidden*s.mlp)
	return 2*float64(n)*float64(s.layers)*layer + 2*float64(s.vocab*s.hidden) + 2*float64(s.layers)*float64(n)*float64(n)*float64(s.heads*s.dim)
}

// kvBytes is the size of the keys and values of a position.
func (s shape) kvBytes() int { return 4 * s.layers * s.kvHeads * s.dim }

// flight is a step with its memory.
type flight struct {
	b backend.Batch
	d backend.Draws
	o backend.Out
}

func (f *flight) reset(rows int) {
	f.b.Reset()
	f.d.Reset()
	f.o = backend.Out{Tokens: make([]int32, rows), Logprobs: make([]float32, rows), Ranks: make([]int32, rows)}
}

// add appends a run of tokens of sequence i, whose blocks lie together.
func (f *flight) add(s backend.Spec, i, perSeq, pos, n int, token func(int) int32) {
	b := &f.b
	for j := range n {
		p := pos + j
		b.Tokens, b.Pos = append(b.Tokens, token(j)), append(b.Pos, int32(p))
		b.Slots = append(b.Slots, int32((1+i*perSeq+p/s.BlockTokens)*s.BlockTokens+p%s.BlockTokens))
	}
	for k := range (pos + n + s.BlockTokens - 1) / s.BlockTokens {
		b.Tables = append(b.Tables, int32(1+i*perSeq+k))
	}
	b.At = append(b.At, int32(len(b.Tokens)-1))
	b.QueryEnd, b.KVLen, b.TableEnd = append(b.QueryEnd, int32(len(b.Tokens))), append(b.KVLen, int32(pos+n)), append(b.TableEnd, int32(len(b.Tables)))
	f.d.Rows = append(f.d.Rows, backend.Draw{Seed: uint64(i), Index: uint32(pos), Temperature: 1, TopP: 1, Mask: -1, Allow: -1, Target: -1})
}

// decodeSteps is the time of a step of n sequences with about so many positions. Each
// step computes the tokens that the step before draws.
func decodeSteps(r *model.Runner, n, at, count int) (float64, error) {
	s := r.Spec()
	perSeq := (s.NumBlocks - 1) / n
	var flights [2]flight
	begin := func(i int) error {
		f := &flights[i%2]
		f.reset(n)
		for q := range n {
			f.add(s, q, perSeq, at+i, 1, func(int) int32 {
				if i == 0 {
					return int32(q % s.VocabSize)
				}
				return int32(^q)
			})
		}
		return r.Begin(&f.b)
	}
	const warm = 4 // graphs are captured
	var began time.Time
	if err := errors.Join(begin(0), r.Draw(&flights[0].d)); err != nil {
		return 0, err
	}
	for i := 1; i <= warm+count; i++ {
		if i == warm+1 {
			began = time.Now()
		}
		if err := errors.Join(begin(i), r.End(&flights[(i+1)%2].o), r.Draw(&flights[i%2].d)); err != nil {
			return 0, err
		}
	}
	sec := time.Since(began).Seconds() / float64(count)
	return sec, r.End(&flights[(warm+count)%2].o)
}

// prefill is the time of computing a prompt of n tokens.
func prefill(r *model.Runner, n int) (float64, error) {
	s := r.Spec()
	var best float64
	for range 3 {
		began := time.Now()
		for at := 0; at < n; {
			var f flight
			f.reset(1)
			chunk := min(n-at, s.MaxTokens)
			f.add(s, 0, s.NumBlocks-1, at, chunk, func(j int) int32 { return int32((at + j) % s.VocabSize) })
			if err := errors.Join(r.Begin(&f.b), r.Draw(&f.d), r.End(&f.o)); err != nil {
				return 0, err
			}
			at += chunk
		}
		if sec := time.Since(began).Seconds(); best == 0 || sec < best {
			best = sec
		}
	}
	return best, nil
}

// write makes a checkpoint whose weights repeat after some megabytes.
func (s shape) write(dir string) error {
	kind, arch := "llama", "LlamaForCausalLM"
	if s.qkNorm {
		kind, arch = "qwen3", "Qwen3ForCausalLM"
	}
	config := fmt.Sprintf(`{"model_type":%q,"architectures":[%q],"hidden_size":%d,"num_hidden_layers":%d,"num_attention_heads":%d,"num_key_value_heads":%d,"head_dim":%d,
"intermediate_size":%d,"vocab_size":%d,"tie_word_embeddings":%v,"max_position_embeddings":16384,"rms_norm_eps":1e-5,"rope_theta":500000.0,"hidden_act":"silu","torch_dtype":"bfloat16"}`,
		kind, arch, s.hidden, s.layers, s.heads, s.kvHeads, s.dim, s.mlp, s.vocab, s.tied)
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o644); err != nil {
		return err
	}
	type tensor struct {
		name       string
		rows, cols int // cols 0: a vector
	}
	list := []tensor{{"model.embed_tokens.weight", s.vocab, s.hidden}, {"model.norm.weight", s.hidden, 0}}
	if !s.tied {
		list = append(list, tensor{"lm_head.weight", s.vocab, s.hidden})
	}
	for i := range s.layers {
		at := fmt.Sprintf("model.layers.%d.", i)
		list = append(list, tensor{at + "input_layernorm.weight", s.hidden, 0}, tensor{at + "post_attention_layernorm.weight", s.hidden, 0},
			tensor{at + "self_attn.q_proj.weight", s.heads * s.dim, s.hidden}, tensor{at + "self_attn.k_proj.weight", s.kvHeads * s.dim, s.hidden},
			tensor{at + "self_attn.v_proj.weight", s.kvHeads * s.dim, s.hidden}, tensor{at + "self_attn.o_proj.weight", s.hidden, s.heads * s.dim},
			tensor{at + "mlp.gate_proj.weight", s.mlp, s.hidden}, tensor{at + "mlp.up_proj.weight", s.mlp, s.hidden}, tensor{at + "mlp.down_proj.weight", s.hidden, s.mlp})
		if s.qkNorm {
			list = append(list, tensor{at + "self_attn.q_norm.weight", s.dim, 0}, tensor{at + "self_attn.k_norm.weight", s.dim, 0})
		}
	}
	header := bytes.NewBufferString("{")
	offset := 0
	for i, t := range list {
		shape := fmt.Sprintf("[%d,%d]", t.rows, t.cols)
		if t.cols == 0 {
			shape = fmt.Sprintf("[%d]", t.rows)
		}
		size := t.rows * max(t.cols, 1) * 2
		if i > 0 {
			header.WriteByte(',')
		}
		fmt.Fprintf(header, `%q:{"dtype":"BF16","shape":%s,"data_offsets":[%d,%d]}`, t.name, shape, offset, offset+size)
		offset += size
	}
	header.WriteByte('}')
	f, err := os.Create(filepath.Join(dir, "model.safetensors"))
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	err = binary.Write(w, binary.LittleEndian, uint64(header.Len()))
	if err == nil {
		_, err = w.Write(header.Bytes())
	}
	// Small numbers with random mantissas, from a multiplicative generator.
	noise := make([]byte, 8<<20)
	for i, x := 0, uint32(1); i < len(noise); i += 2 {
		x = x*1664525 + 1013904223
		binary.LittleEndian.PutUint16(noise[i:], uint16(x>>24<<15|0x3c00|x>>20&0xff))
	}
	for left := offset; left > 0 && err == nil; {
		n := min(left, len(noise))
		_, err = w.Write(noise[:n])
		left -= n
	}
	return errors.Join(err, w.Flush(), f.Close())
}
