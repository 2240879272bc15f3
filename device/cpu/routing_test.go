package cpu

import (
	"math"
	"slices"
	"testing"

	"weir/model"
)

// route is what routeRow makes of a row of logits.
func route(r model.Router, bias, scale, logits []float32) (chosen []int32, weights []float32) {
	d := &Device{}
	d.experts.router, d.experts.topK, d.experts.bias, d.experts.scale = &r, r.TopK, bias, scale
	d.experts.chosen, d.experts.weight = make([]int32, r.TopK), make([]float32, r.TopK)
	x := slices.Clone(logits)
	routeRow(&rowJob{d: d, src: view{data: x, width: len(x), stride: len(x)}}, 0)
	return d.experts.chosen, d.experts.weight
}

// TestRouting: which experts are chosen by groups and with biases, and what they weigh, computed by hand. A logit of
// ln(p/(1-p)) has a sigmoid of p.
func TestRouting(t *testing.T) {
	logit := func(scores ...float64) (x []float32) {
		for _, p := range scores {
			x = append(x, float32(math.Log(p/(1-p))))
		}
		return x
	}
	ln := func(parts ...float64) (x []float32) {
		for _, p := range parts {
			x = append(x, float32(math.Log(p)))
		}
		return x
	}
	sigmoid := model.Router{TopK: 2, Score: model.SigmoidScore, Scale: 1}
	with := func(r model.Router, change func(*model.Router)) model.Router {
		change(&r)
		return r
	}
	grouped := func(best2 bool, groups int) model.Router {
		return with(sigmoid, func(r *model.Router) { r.Groups, r.TopGroups, r.GroupBest2 = 4, groups, best2 })
	}
	for _, c := range []struct {
		name        string
		r           model.Router
		bias, scale []float32
		logits      []float32
		chosen      []int32
		weights     []float64
	}{
		{"the greatest", sigmoid, nil, nil, logit(.1, .6, .4, .5), []int32{1, 3}, []float64{.6, .5}},
		{"equal ones: the lower numbers", sigmoid, nil, nil, logit(.5, .5, .5, .5), []int32{0, 1}, []float64{.5, .5}},
		{"a bias decides the choice, and is no part of the weight", sigmoid, []float32{.8, 0, 0, -.4}, nil, logit(.1, .6, .4, .5), []int32{0, 1}, []float64{.1, .6}},
		{"divided by their sum", with(sigmoid, func(r *model.Router) { r.Renorm = true }), nil, nil, logit(.1, .6, .3, .2), []int32{1, 2}, []float64{2. / 3, 1. / 3}},
		{"divided by no less than the floor", with(sigmoid, func(r *model.Router) { r.Renorm, r.Floor = true, 1.8 }), nil, nil, logit(.1, .6, .3, .2), []int32{1, 2}, []float64{1. / 3, 1. / 6}},
		{"divided by a little more, times the factor", with(sigmoid, func(r *model.Router) { r.Renorm, r.RenormAdd, r.Scale = true, .1, 2.5 }), nil, nil, logit(.1, .6, .3, .2), []int32{1, 2}, []float64{1.5, .75}},
		{"times a factor of each", sigmoid, nil, []float32{1, 10, 100, 1000}, logit(.1, .6, .3, .2), []int32{1, 2}, []float64{6, 30}},
		{"a softmax over all", model.Router{TopK: 2, Score: model.Softmax, Scale: 1}, nil, nil, ln(1, 4, 2, 1), []int32{1, 2}, []float64{.5, .25}},
		{"a softmax over the chosen", model.Router{TopK: 2, Score: model.SoftmaxTop, Scale: 1}, nil, nil, ln(1, 4, 2, 1), []int32{1, 2}, []float64{2. / 3, 1. / 3}},

		// Groups {0, 1}, {2, 3}, {4, 5} and {6, 7}.
		{"groups by their best", grouped(false, 2), nil, nil, logit(.9, .1, .6, .5, .2, .3, .7, .1), []int32{0, 6}, []float64{.9, .7}},
		{"groups by the sum of their best two", grouped(true, 2), nil, nil, logit(.9, .1, .6, .5, .2, .3, .7, .1), []int32{0, 2}, []float64{.9, .6}},
		{"all of one group", grouped(false, 1), nil, nil, logit(.9, .1, .6, .5, .2, .3, .7, .8), []int32{0, 1}, []float64{.9, .1}},
		{"a bias decides between groups", grouped(true, 1), []float32{-1, 0, 0, 0, .5, .5, 0, 0}, nil, logit(.9, .1, .6, .5, .2, .3, .7, .1), []int32{4, 5}, []float64{.2, .3}},
		{"a great score beside one that its bias makes small", grouped(true, 1), []float32{0, -3, 0, 0, 0, 0, 0, -9}, nil, logit(.9, .1, .01, .02, .02, .01, .9, .1), []int32{2, 3}, []float64{.01, .02}},
		{"equal groups: the lower numbers", grouped(true, 1), nil, nil, logit(.2, .3, .3, .2, .1, .1, .2, .3), []int32{0, 1}, []float64{.2, .3}},
	} {
		chosen, weights := route(c.r, c.bias, c.scale, c.logits)
		ok := slices.Equal(chosen, c.chosen)
		for i, w := range weights {
			ok = ok && math.Abs(float64(w)-c.weights[i]) <= 1e-6*math.Max(1, c.weights[i])
		}
		if !ok {
			t.Errorf("%s: experts %d with %v, not %d with %v", c.name, chosen, weights, c.chosen, c.weights)
		}
	}
}
