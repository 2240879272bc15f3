package compute

import (
	"encoding/binary"
	"math"
	"testing"

	"weir/model"
	"weir/weights"
)

// published are the numbers of parameters according to the models' cards; of qwen3.5-0.8b, whose card
// counts a vision tower, what transformers counts in Qwen3_5ForCausalLM.
var published = map[string]int64{
	"qwen3-30b-a3b": 30_532_122_624, "qwen3.5-0.8b": 752_393_024,
	"qwen2.5-0.5b": 494_032_768, "qwen3-0.6b": 596_049_920, "qwen3-1.7b": 1_720_574_976, "qwen3-4b": 4_022_468_096, "qwen3-8b": 8_190_735_360,
	"llama-3.2-1b": 1_235_814_400, "llama-3.2-3b": 3_212_749_824, "llama-3.1-8b": 8_030_261_248, "mistral-7b-v0.3": 7_248_023_552,
}

// TestShapesArePublished: a shape has as many parameters as the published model, and the room
// for its weights holds the largest of them.
func TestShapesArePublished(t *testing.T) {
	if len(Shapes()) != len(published) {
		t.Errorf("shapes %v", Shapes())
	}
	for _, name := range Shapes() {
		c, err := model.ParseConfig([]byte(shapes[name]))
		if err != nil {
			t.Fatal(err)
		}
		var parameters int64
		tensor, vector := largest(c)
		eachTensor(c, func(t weights.Tensor) { parameters += int64(t.Len()) })
		if hidden := 2 * c.Hidden; tensor < hidden*c.VocabSize || vector < hidden || vector > tensor {
			t.Errorf("%s: the largest tensor has %d bytes, the largest vector %d", name, tensor, vector)
		}
		if parameters != published[name] {
			t.Errorf("%s: %d parameters, published are %d", name, parameters, published[name])
		}
	}
}

// small is a small network that has every kind of part.
func small(t *testing.T) model.Config {
	t.Helper()
	c, err := model.ParseConfig([]byte(`{"architectures": ["Qwen3ForCausalLM"], "vocab_size": 300, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3,
		"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "max_position_embeddings": 512, "attention_bias": true, "tie_word_embeddings": true,
		"use_sliding_window": true, "sliding_window": 20, "max_window_layers": 2}`))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func synthetic(t *testing.T, c model.Config) *model.Model {
	t.Helper()
	m, err := synthesize(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// tensors is a device that keeps the matrices that it is given.
type tensors struct {
	model.Device
	loaded []model.Matrix
}

func (d *tensors) Plan(model.Shape) error { return nil }
func (d *tensors) Close() error           { return nil }
func (d *tensors) Load(m model.Matrix) (model.Weight, error) {
	d.loaded = append(d.loaded, m)
	return model.Weight(len(d.loaded) - 1), nil
}

// TestSyntheticWeights: the weights are the same in every run, different in every tensor and
// distributed as weights are, and none of them is a number that processors are slow with.
func TestSyntheticWeights(t *testing.T) {
	c := small(t)
	load := func() []model.Matrix {
		d := &tensors{}
		if _, err := model.NewRunner(t.Context(), d, synthetic(t, c), model.Options{}); err != nil {
			t.Fatal(err)
		}
		return d.loaded
	}
	a, b := load(), load()
	seen := map[string]string{}
	for i, m := range a {
		for k, x := range m.Rows {
			if string(x.Data) != string(b[i].Rows[k].Data) {
				t.Errorf("%s differs from run to run", x.Name)
			}
			if other, ok := seen[string(x.Data)]; ok && other != x.Name {
				t.Errorf("%s is %s", x.Name, other)
			}
			seen[string(x.Data)] = x.Name
			mean, deviation := moments(t, x)
			wantMean, wantDeviation := 0.0, 0.02
			if m.Use == model.Vector {
				wantMean, wantDeviation = 1, 0.1
			}
			if n := math.Sqrt(float64(x.Len())); math.Abs(mean-wantMean) > 5*wantDeviation/n || math.Abs(deviation/wantDeviation-1) > 4/n {
				t.Errorf("%s: mean %.4f, standard deviation %.4f", x.Name, mean, deviation)
			}
		}
		for _, x := range m.Bias {
			if mean, _ := moments(t, x); math.Abs(mean) > 0.02 {
				t.Errorf("%s: mean %.4f", x.Name, mean)
			}
		}
	}
}

func moments(t *testing.T, x weights.Tensor) (mean, deviation float64) {
	t.Helper()
	var sum, squares float64
	for i := 0; i < len(x.Data); i += 2 {
		v := float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(x.Data[i:])) << 16))
		if !(math.Abs(v) > 1e-7 && math.Abs(v) < 10) {
			t.Fatalf("%s holds %v", x.Name, v)
		}
		sum, squares = sum+v, squares+v*v
	}
	n := float64(x.Len())
	return sum / n, math.Sqrt(squares/n - sum/n*sum/n)
}

func TestUnknownShape(t *testing.T) {
	if _, err := Synthetic("llama-9"); err == nil {
		t.Error("no error")
	}
}
