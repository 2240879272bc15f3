package pooling

import (
	"math"
	"slices"
	"strings"
	"testing"
)

// near reports whether two vectors differ by no more than a rounding.
func near(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Abs(float64(x-y)) <= 1e-6 })
}

func TestApply(t *testing.T) {
	swap := Dense{In: 2, Out: 3, W: []float32{0, 1, 1, 0, 1, 1}, B: []float32{0, 0, 0.5}} // (y, x, x+y+0.5)
	tanh := swap
	tanh.Activation = Tanh
	head := Dense{In: 3, Out: 1, W: []float32{1, 0, 0}, Activation: Sigmoid}
	classes := Dense{In: 2, Out: 2, W: []float32{1, 0, 0, 1}, Activation: Softmax}
	x := []float32{3, 4}
	th := func(v float64) float32 { return float32(math.Tanh(v)) }
	for _, c := range []struct {
		name string
		p    Plan
		o    Options
		want []float32
	}{
		{"as it is", Plan{}, Options{}, x},
		{"normalized", Plan{Normalize: true}, Options{}, []float32{0.6, 0.8}},
		{"not normalized", Plan{Normalize: true}, Options{Raw: true}, x},
		{"cut, then normalized", Plan{Normalize: true}, Options{Dimensions: 1}, []float32{1}},
		{"cut", Plan{}, Options{Dimensions: 1}, []float32{3}},
		{"a layer", Plan{Layers: []Dense{swap}}, Options{}, []float32{4, 3, 7.5}},
		{"a layer, then normalized", Plan{Layers: []Dense{swap}, Normalize: true}, Options{Dimensions: 2}, []float32{0.8, 0.6}},
		{"tanh", Plan{Layers: []Dense{tanh}}, Options{}, []float32{th(4), th(3), th(7.5)}},
		{"a head", Plan{Layers: []Dense{tanh, head}, Labels: 1}, Options{}, []float32{float32(1 / (1 + math.Exp(-math.Tanh(4))))}},
		{"a head without its activation", Plan{Layers: []Dense{tanh, head}, Labels: 1}, Options{Raw: true}, []float32{th(4)}},
		{"classes", Plan{Layers: []Dense{classes}, Labels: 2}, Options{}, []float32{float32(1 / (1 + math.E)), float32(math.E / (1 + math.E))}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.p.Hidden = 2
			if err := c.p.Validate(2); err != nil {
				t.Fatal(err)
			}
			if got := c.p.Apply([]float32{9}, x, c.o); got[0] != 9 || !near(got[1:], c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
	if x[0] != 3 || x[1] != 4 {
		t.Errorf("the vector itself was changed: %v", x)
	}
}

// TestExtremes: no activation gives a number that is none.
func TestExtremes(t *testing.T) {
	x := []float32{-3e38, 0, 3e38}
	for _, a := range []Activation{Tanh, Sigmoid, Softmax} {
		got := slices.Clone(x)
		if a.apply(got); slices.ContainsFunc(got, func(v float32) bool { return v != v || v < -1 || v > 1 }) {
			t.Errorf("activation %d of %v is %v", a, x, got)
		}
	}
	zero := []float32{0, 0}
	if Normalize(zero); zero[0] != 0 || zero[1] != 0 {
		t.Errorf("a vector of zeros became %v", zero)
	}
}

func TestValidate(t *testing.T) {
	layer := func(in, out, w, b int) Dense {
		return Dense{In: in, Out: out, W: make([]float32, w), B: make([]float32, b)}
	}
	for _, c := range []struct {
		p    Plan
		text string
	}{
		{Plan{Hidden: 3}, "vectors of 3 components, but the network has 2"},
		{Plan{Hidden: 2, Kind: 9}, "kind 9"},
		{Plan{Hidden: 2, Layers: []Dense{layer(3, 1, 3, 1)}}, "layer 0 of 1 by 3"},
		{Plan{Hidden: 2, Layers: []Dense{layer(2, 1, 3, 1)}}, "with 3 weights"},
		{Plan{Hidden: 2, Layers: []Dense{layer(2, 2, 4, 1)}}, "1 biases"},
		{Plan{Hidden: 2, Layers: []Dense{layer(2, 3, 6, 3), layer(2, 1, 2, 1)}}, "layer 1 of 1 by 2"},
		{Plan{Hidden: 2, Dimensions: []int{3}}, "cannot be cut to 3"},
		{Plan{Hidden: 2, Labels: 1}, "1 labels, but the last layer has 2 rows"},
	} {
		if err := c.p.Validate(2); err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%+v: %v, want %s", c.p, err, c.text)
		}
	}
}

func TestMayCut(t *testing.T) {
	any, some := Plan{Hidden: 8}, Plan{Hidden: 8, Dimensions: []int{2, 4}}
	for n := -1; n < 10; n++ {
		if any.MayCut(n) != (n >= 1 && n <= 8) || some.MayCut(n) != (n == 2 || n == 4) {
			t.Errorf("%d: %v, %v", n, any.MayCut(n), some.MayCut(n))
		}
	}
}

// TestLayers: activations that torch has, and a norm behind one.
func TestLayers(t *testing.T) {
	x := []float32{-1, 2}
	for _, c := range []struct {
		d    Dense
		want []float32
	}{
		{Dense{Activation: ReLU}, []float32{0, 2}},
		{Dense{Activation: GELU}, []float32{-0.15865526, 1.9544997}},
		{Dense{Norm: &LayerNorm{W: []float32{1, 1}}}, []float32{-1, 1}},
		{Dense{Norm: &LayerNorm{W: []float32{2, 3}, B: []float32{0.5, -0.5}, Eps: 6.75}}, []float32{-0.5, 1}},
	} {
		c.d.In, c.d.Out, c.d.W = 2, 2, []float32{1, 0, 0, 1}
		p := Plan{Hidden: 2, Layers: []Dense{c.d}}
		if err := p.Validate(2); err != nil {
			t.Error(err)
		}
		for i, got := range p.Apply(nil, x, Options{}) {
			if math.Abs(float64(got-c.want[i])) > 1e-6 {
				t.Errorf("%+v: component %d is %v instead of %v", c.d, i, got, c.want[i])
			}
		}
	}
	wrong := Plan{Hidden: 1, Layers: []Dense{{In: 1, Out: 1, W: []float32{1}, Norm: &LayerNorm{W: []float32{1, 2}}}}}
	if wrong.Validate(1) == nil {
		t.Error("a norm of another size is taken")
	}
}
