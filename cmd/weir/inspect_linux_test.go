package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"weir/model"
	"weir/weights"
)

// TestInspectReadsHeadersOnly: weights in memory that may not be read are inspected. Reading any
// byte of them would end the process.
func TestInspectReadsHeadersOnly(t *testing.T) {
	forbidden, err := unix.Mmap(-1, 0, 64<<20, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	s, err := openFiles("")
	if err != nil {
		t.Fatal(err)
	}
	defer s.network.Close()
	for _, d := range []weights.DType{weights.BF16, weights.Q8_0} {
		m, err := model.FromTensors(s.network.Config, func(name string, shape []int) weights.Tensor {
			tensor := weights.Tensor{Name: name, DType: weights.BF16, Shape: shape}
			if len(shape) == 2 {
				tensor.DType = d
			}
			rows := tensor.Len() / shape[len(shape)-1]
			tensor.Data = forbidden[:rows*tensor.DType.RowBytes(shape[len(shape)-1])]
			return tensor
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		o := &inspectOptions{}
		o.bind(newFlagSet("test"))
		x := &inspection{}
		o.describeNetwork(x, m)
		if len(x.Unsupported) > 0 || x.Parameters != s.network.Parameters() || x.Memory.Weights == 0 {
			t.Errorf("%+v", x)
		}
	}
	if err := unix.Munmap(forbidden); err != nil {
		t.Error(err)
	}
}

// TestInspectSparseFile: a checkpoint whose weights are a hole of 50 GiB is inspected, and none of
// the hole's pages have been read.
func TestInspectSparseFile(t *testing.T) {
	const layers, width, vocabulary, inner = 50, 8192, 128000, 28672
	dir := copyModel(t)
	if err := os.WriteFile(filepath.Join(dir, "config.json"), fmt.Appendf(nil, `{"architectures": ["LlamaForCausalLM"], "vocab_size": %d, "hidden_size": %d,
		"intermediate_size": %d, "num_hidden_layers": %d, "num_attention_heads": 64, "num_key_value_heads": 8, "hidden_act": "silu", "rms_norm_eps": 1e-5, "eos_token_id": 2}`,
		vocabulary, width, inner, layers), 0o600); err != nil {
		t.Fatal(err)
	}
	var entries []string
	size := 0
	add := func(name string, shape ...int) {
		n := 2
		for _, s := range shape {
			n *= s
		}
		entries = append(entries, fmt.Sprintf(`%q:{"dtype":"BF16","shape":%s,"data_offsets":[%d,%d]}`, name, strings.ReplaceAll(fmt.Sprint(shape), " ", ","), size, size+n))
		size += n
	}
	add("model.embed_tokens.weight", vocabulary, width)
	for i := range layers {
		p := fmt.Sprintf("model.layers.%d.", i)
		add(p+"input_layernorm.weight", width)
		add(p+"post_attention_layernorm.weight", width)
		add(p+"self_attn.q_proj.weight", width, width)
		add(p+"self_attn.k_proj.weight", width/8, width)
		add(p+"self_attn.v_proj.weight", width/8, width)
		add(p+"self_attn.o_proj.weight", width, width)
		add(p+"mlp.gate_proj.weight", inner, width)
		add(p+"mlp.up_proj.weight", inner, width)
		add(p+"mlp.down_proj.weight", width, inner)
	}
	add("model.norm.weight", width)
	add("lm_head.weight", vocabulary, width)
	header := "{" + strings.Join(entries, ",") + "}"
	path := filepath.Join(dir, "model.safetensors")
	if err := os.WriteFile(path, append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...), 0o600); err != nil {
		t.Fatal(err)
	}
	total := int64(8 + len(header) + size)
	if err := os.Truncate(path, total); err != nil {
		t.Skip("no sparse file of this size: ", err)
	}
	code, out, errOut := runWeir("inspect", "--quantization", "q4", dir)
	if code != 0 || !strings.Contains(out, "LlamaForCausalLM") || !strings.Contains(out, "parameters        44,879,880,192\n") {
		t.Fatalf("exit %d:\n%s%s", code, out, errOut)
	}
	if n := resident(t, path, 64<<20); n != 0 {
		t.Errorf("%d pages of weights have been read", n)
	}
}

// resident counts the pages of a file from a place on that are in memory.
func resident(t *testing.T, path string, from int64) (pages int) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	data, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(data)
	in := make([]byte, (info.Size()+4095)/4096)
	if _, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&data[0])), uintptr(len(data)), uintptr(unsafe.Pointer(&in[0]))); errno != 0 {
		t.Skip(errno)
	}
	for _, b := range in[from/4096:] {
		pages += int(b & 1)
	}
	return pages
}
