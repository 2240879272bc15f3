package main

import (
	"strings"
	"testing"

	"weir/device/cpu"
	"weir/model"
	"weir/weights"
)

// blocksOf is a matrix of 64 rows of 512 numbers that are stored in blocks, all zero.
func blocksOf(d weights.DType) weights.Tensor {
	return weights.Tensor{Name: d.String(), DType: d, Shape: []int{64, 512}, Data: make([]byte, 64*d.RowBytes(512))}
}

// TestQuantizedFiles: weights that are quantized in their file are not rounded again and do not
// take much more memory than the file, unless the flags say so. What is done to them is in the log.
func TestQuantizedFiles(t *testing.T) {
	// No format of the CPU keeps IQ2_XS in about as few bits.
	none, coarse, plain := []weights.Tensor(nil), []weights.Tensor{blocksOf(weights.IQ2_XS), blocksOf(weights.IQ2_XS)}, []weights.Tensor{blocksOf(weights.Q8_0)}
	const widened = "weights in IQ2_XS are widened, without loss, to k8: 69KiB of memory instead of 19KiB"
	for _, c := range []struct {
		args  string
		list  []weights.Tensor
		line  string // "": no line
		wrong string // "": accepted
		usage bool
	}{
		{"", none, "", "", false},
		{"--quantization q4", none, "", "", false},
		{"--quantization q4 --requantize", none, "--requantize has no effect", "", false},
		{"", coarse, "", widened + ": --allow-converted-weights accepts that", false},
		{"--allow-converted-weights", coarse, widened, "", false},
		{"--dtype float32", coarse, widened, "", false},
		{"--dtype bfloat16", coarse, "", "--dtype bfloat16: weights in IQ2_XS are rounded to bfloat16: 128KiB of memory instead of 19KiB: --allow-converted-weights accepts that, and without --dtype", true},
		{"--dtype bfloat16 --allow-converted-weights", coarse, "weights in IQ2_XS are rounded to bfloat16", "", false},
		{"--quantization q4", coarse, "", "--quantization q4: the weights are quantized already (IQ2_XS)", true},
		{"--quantization q4 --allow-converted-weights", coarse, "", "add --requantize", true},
		{"--quantization q4 --requantize", coarse, "weights in IQ2_XS are rounded to q4", "", false},
		{"", plain, "", "", false},
		{"--dtype float32", plain, "", "", false},
		{"--quantization q8", plain, "", "--quantization q8: the weights are quantized already (Q8_0)", true},
		{"--quantization q8 --requantize", plain, "weights in Q8_0 are rounded to q8", "", false},
		{"--dtype float16", plain, "", "weights in Q8_0 are rounded to float16", true},
		{"--quantization w8a8", append(plain, coarse...), "", "(IQ2_XS, Q8_0)", true},
	} {
		o, _ := parseServe(t, strings.Fields(c.args)...)
		cfg := cpu.Default()
		cfg.WeightType, cfg.KVType, _ = o.engine.types()
		lines, err := o.engine.checkQuantized(c.list, cfg)
		switch text := strings.Join(lines, "\n"); {
		case c.wrong != "":
			if err == nil || !strings.Contains(err.Error(), c.wrong) || isUsageError(err) != c.usage {
				t.Errorf("%s: %v, want %q", c.args, err, c.wrong)
			}
		case err != nil, (text == "") != (c.line == ""), !strings.Contains(text, c.line):
			t.Errorf("%s: the log says %q, want %q: %v", c.args, text, c.line, err)
		}
	}
}

// TestServeQuantizedFile: the flags are looked at before anything is loaded, and only linear
// layers count.
func TestServeQuantizedFile(t *testing.T) {
	t.Parallel()
	s, err := openSource("", &modelOptions{contentFormat: "auto", reasoningParser: "auto", callParser: "auto", generationConfig: "auto", responseRole: "assistant"})
	if err != nil {
		t.Fatal(err)
	}
	plain := s.network
	defer plain.Close()
	quantized := 0
	s.network, err = model.FromTensors(plain.Config, func(name string, shape []int) weights.Tensor {
		tensor := weights.Tensor{Name: name, DType: weights.BF16, Shape: shape}
		if len(shape) == 2 {
			tensor.DType = weights.Q8_0
			if !strings.Contains(name, "embed") {
				quantized++
			}
			tensor.Data = make([]byte, shape[0]*weights.Q8_0.RowBytes(shape[1]))
		} else {
			tensor.Data = make([]byte, 2*shape[0])
		}
		return tensor
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	quantized++ // the head, which is the embedding
	if n := len(quantizedTensors(s.network)); n != quantized {
		t.Errorf("%d tensors of linear layers are quantized, not %d", n, quantized)
	}
	if n := len(quantizedTensors(plain)); n != 0 {
		t.Errorf("%d tensors of the bundled model are quantized", n)
	}
	for _, args := range []string{"--quantization q4", "--dtype bfloat16"} {
		o, _ := parseServe(t, strings.Fields("--device cpu --kv-cache-memory 64MiB "+args)...)
		if _, err := prepareEngine(t.Context(), s, &o.model, &o.engine, nil); err == nil || !strings.Contains(err.Error(), args) {
			t.Errorf("%s: %v", args, err)
		}
	}
	o, _ := parseServe(t, strings.Fields("--device cpu --kv-cache-memory 64MiB --quantization q4 --requantize")...)
	if e, err := prepareEngine(t.Context(), s, &o.model, &o.engine, nil); err != nil || len(e.notes) != 1 {
		t.Errorf("%v, notes %q", err, e.notes)
	}
}
