package testkit

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"path"
	"path/filepath"
	"testing"

	"weir/internal/jsontext"
	"weir/weights"
)

// Converted describes the GGUF file that llama.cpp's converter makes of a checkpoint, as tools/golden/gguf_families.py
// has found it out.
type Converted struct {
	Keys    [][3]jsontext.RawMessage // name, type, value
	Tensors []ConvertedTensor
	SHA256  string // of the numbers of all tensors, as the converter wrote them
}

// ConvertedTensor describes a tensor.
type ConvertedTensor struct {
	Name  string
	Shape []uint64 // innermost first
	Data  string   // the numbers as they are, in hexadecimal; "": the parts have them
	Parts []ConvertedPart
	Plus  float32 // a summand on each number
}

// ConvertedPart has numbers of a tensor of the checkpoint: all, or those of the loops, which each have a
// count and a stride.
type ConvertedPart struct {
	From  string
	At    int
	Loops [][2]int
	Times *float32
}

// ReadConverted reads a description.
func ReadConverted(t testing.TB, file string) *Converted {
	t.Helper()
	c := &Converted{}
	b, err := os.ReadFile(file)
	if err = errors.Join(err, jsontext.Decode(b, c)); err != nil {
		t.Fatal(err)
	}
	return c
}

// File makes the file of the checkpoint in a folder. Its tensors are float32. Tensors of a folder within it are named with its name and
// a slash in front.
func (c *Converted) File(t testing.TB, folder string) *GGUF {
	t.Helper()
	g := &GGUF{}
	for _, k := range c.Keys {
		var key string
		if err := jsontext.Decode(k[0], &key); err != nil {
			t.Fatal(err)
		}
		g.Keys = append(g.Keys, GGUFKey{Key: key, Value: convertedValue(t, k[1], k[2])})
	}
	open := map[string]*weights.Checkpoint{}
	tensor := func(name string) (weights.Tensor, bool) {
		below, name := path.Split(name)
		if open[below] == nil {
			checkpoint, err := weights.OpenFS(os.DirFS(filepath.Join(folder, below)))
			if err != nil {
				t.Fatal(err)
			}
			open[below] = checkpoint
		}
		return open[below].Tensor(name)
	}
	hash := sha256.New()
	for i := range c.Tensors {
		d := &c.Tensors[i]
		data, err := d.Numbers(tensor)
		if err != nil {
			t.Fatalf("%s: %v", d.Name, err)
		}
		hash.Write(data)
		g.Tensors = append(g.Tensors, GGUFTensor{Name: d.Name, Shape: d.Shape, Data: data})
	}
	for _, c := range open {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if got := hex.EncodeToString(hash.Sum(nil)); got != c.SHA256 {
		t.Fatalf("the numbers have the hash %s, and those of the converter's file %s", got, c.SHA256)
	}
	return g
}

// Numbers are the tensor's numbers as float32.
func (d *ConvertedTensor) Numbers(tensor func(name string) (weights.Tensor, bool)) ([]byte, error) {
	if d.Data != "" {
		return hex.DecodeString(d.Data)
	}
	var out []byte
	for _, p := range d.Parts {
		t, ok := tensor(p.From)
		if !ok {
			return nil, fmt.Errorf("there is no %s", p.From)
		}
		x := make([]float32, t.Len())
		t.Shape = []int{len(x)}
		t.Widen(x, 0, 0)
		if p.Loops == nil {
			p.Loops = [][2]int{{len(x), 1}}
		}
		p.each(p.At, p.Loops, func(at int) {
			f := x[at]
			if p.Times != nil {
				f *= *p.Times
			}
			f += d.Plus
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(f))
		})
	}
	return out, nil
}

func (p *ConvertedPart) each(at int, loops [][2]int, do func(at int)) {
	if len(loops) == 0 {
		do(at)
		return
	}
	for i := range loops[0][0] {
		p.each(at+i*loops[0][1], loops[1:], do)
	}
}

// convertedValue is a value of the metadata.
func convertedValue(t testing.TB, kind, value jsontext.RawMessage) any {
	t.Helper()
	into := map[string]any{`"string"`: new(string), `"uint32"`: new(uint32), `"int32"`: new(int32), `"float32"`: new(float32), `"bool"`: new(bool),
		`"array string"`: new([]string), `"array uint32"`: new([]uint32), `"array int32"`: new([]int32), `"array float32"`: new([]float32), `"array bool"`: new([]bool), `"array uint8"`: new([]uint16)}[string(kind)]
	if err := jsontext.Decode(value, into); err != nil {
		t.Fatalf("%s of type %s: %v", value, kind, err)
	}
	switch v := into.(type) {
	case *string:
		return *v
	case *uint32:
		return *v
	case *int32:
		return *v
	case *float32:
		return *v
	case *bool:
		return *v
	case *[]string:
		return *v
	case *[]uint32:
		return *v
	case *[]int32:
		return *v
	case *[]float32:
		return *v
	case *[]bool:
		return *v
	case *[]uint16: // JSON has texts for []uint8
		var b []uint8
		for _, x := range *v {
			b = append(b, uint8(x))
		}
		return b
	}
	t.Fatalf("the type %s is not known", kind)
	return nil
}
