package cpu

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"weir/backend"
	"weir/model"
)

// TestHeadBounds: logits are scaled and then bounded, after the bias; the host sees them so, and
// log-probabilities and draws from parts of the vocabulary are of the same numbers.
func TestHeadBounds(t *testing.T) {
	eachImpl(t, func(t *testing.T, im *impl) {
		rnd := newRand(50)
		for _, head := range []model.Head{{Scale: 1}, {Scale: 0.25}, {Scale: 1, Softcap: 20}, {Scale: 0.5, Softcap: 4}} {
			for _, vocab := range []int{1, 33, 1000} {
				t.Run(fmt.Sprintf("%+v/%d", head, vocab), func(t *testing.T) {
					h := newHeadTest(t, rnd, Config{Threads: 3, WeightType: F32, KVType: BF16, Impl: im.name}, vocab)
					h.head.Scale, h.head.Softcap = head.Scale, head.Softcap
					for _, n := range []int{1, 13, drawRows + 1} {
						h.check(t, randomRows(rnd, n))
						h.checkLogits(t, n)
					}
				})
			}
		}
	})
}

// checkLogits compares logits and log-probabilities with double precision.
func (h *headTest) checkLogits(t *testing.T, n int) {
	t.Helper()
	rows := make([]backend.Draw, n)
	for i := range rows {
		rows[i] = backend.Draw{Mask: -1, Allow: -1, Target: int32(i % h.vocab), Logprobs: backend.RawLogprobs}
	}
	out := h.draw(t, rows, true)
	if h.productJob.logits {
		t.Fatal("the products of the next step are taken for logits")
	}
	w, b := values(h.w), values(h.b)
	for r := range n {
		x := h.view(model.Act{Width: headColumns}).row(r)
		want, sum := make([]float64, h.vocab), 0.0
		for v := range want {
			y := b[v]
			for k, f := range x {
				y += w[v*headColumns+k] * float64(f)
			}
			y *= float64(h.head.Scale)
			if c := float64(h.head.Softcap); c > 0 {
				y = c * math.Tanh(y/c)
			}
			want[v] = y
			sum += math.Exp(y)
			if got := out.Logits[r*h.vocab+v]; !(math.Abs(float64(got)-y) <= 2e-5) {
				t.Fatalf("row %d of %d, token %d: logit %v, want %v", r, n, v, got, y)
			}
		}
		if got, want := float64(out.Logprobs[r]), want[rows[r].Target]-math.Log(sum); !(math.Abs(got-want) <= 5e-5) {
			t.Fatalf("row %d of %d: log-probability %v, want %v", r, n, got, want)
		}
	}
}

// TestHiddenRows: rows that report their vectors draw nothing, and change nothing for the others,
// which draw with drafts or from their logits. Without a head all rows are such.
func TestHiddenRows(t *testing.T) {
	rnd := newRand(51)
	for _, host := range []bool{false, true} {
		h := newHeadTest(t, rnd, Config{Threads: 3, KVType: BF16}, 500)
		rows := randomRows(rnd, drawRows+5)
		want := h.draw(t, rows, host)
		h.checkHidden(t, rows, want.Tokens, 3, host)
		h.head.W = model.NoWeight
		h.checkHidden(t, rows, want.Tokens, 1, false)
	}
}

// checkHidden has every so many of the rows reported, which draw the tokens want otherwise.
func (h *headTest) checkHidden(t *testing.T, rows []backend.Draw, want []int32, every int, host bool) {
	t.Helper()
	rows = slices.Clone(rows)
	for i := 0; i < len(rows); i += every {
		rows[i].Hidden, rows[i].Mask = true, 7 // what such a row asks for otherwise is not looked at
	}
	out := h.draw(t, rows, host)
	hidden := out.Hidden
	for i, token := range out.Tokens {
		switch {
		case !rows[i].Hidden && token != want[i]:
			t.Fatalf("one row of %d is reported: row %d drew %d, alone %d", every, i, token, want[i])
		case !rows[i].Hidden:
			continue
		case token != -1:
			t.Fatalf("row %d is reported and drew %d", i, token)
		}
		if !slices.Equal(hidden[:headColumns], h.view(model.Act{Width: headColumns}).row(i)) {
			t.Fatalf("one row of %d is reported: the vector of row %d is another's", every, i)
		}
		hidden = hidden[headColumns:]
	}
}
