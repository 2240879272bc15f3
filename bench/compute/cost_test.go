package compute

import (
	"fmt"
	"testing"

	"weir/device/cpu"
	"weir/model"
)

// calculated is what a step of a network whose layers are alike has to do, by its sizes. In the last
// layer everything after writing the cache is done for drawn rows only, except for attention, which is
// left out only if no row is drawn.
func calculated(c *model.Config, runs []run, perToken float64) Cost {
	d, q, kv := c.Hidden, c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	qkv, rest, head := d*(q+2*kv), q*d+3*d*c.Intermediate, d*c.VocabSize
	var rows, drawn int
	var cost Cost
	for _, r := range runs {
		rows += r.end - r.first
		if r.draw {
			drawn++
		}
	}
	for _, r := range runs {
		for l, window := range c.Windows {
			if l == len(c.Windows)-1 && drawn == 0 {
				continue
			}
			seen := map[int]bool{}
			for pos := r.first; pos < r.end; pos++ {
				for other := range pos + 1 {
					if window == 0 || pos-other < window {
						seen[other] = true
						cost.Attention += float64(4 * q)
					}
				}
			}
			cost.KVBytes += float64(len(seen)) * perToken / float64(c.Layers)
		}
	}
	read := c.Layers*qkv + (c.Layers-1)*rest
	cost.Products = float64(2*rows*read + 2*drawn*(rest+head))
	if drawn > 0 {
		read += rest + head
	}
	cost.WeightBytes = float64(2 * read) // bfloat16
	return cost
}

// A run is positions of a sequence.
type run struct {
	seq, first, end int
	draw            bool
}

// measured opens a network in order to count what its steps cost.
func measured(t *testing.T, c model.Config) *driver {
	t.Helper()
	cfg := cpu.Default()
	cfg.Threads, cfg.HugePages = 1, false
	dev, err := cpu.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	watch := Watch(dev, dev)
	runner, err := model.NewRunner(t.Context(), watch, synthetic(t, c), model.Options{MaxTokens: 64, MaxSeqs: 8, MaxSeqTokens: 128, NumBlocks: 65, StateSlots: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { runner.Close() })
	return newDriver(Subject{Network: &c, Runner: runner, Stopwatch: watch, KVBytesPerToken: 768}, Config{MaxTokens: 64, BlockTokens: 16}, []int{128, 128, 128})
}

// cost is what a step of these runs costs.
func (d *driver) cost(t *testing.T, runs ...run) Cost {
	t.Helper()
	d.begin()
	for _, r := range runs {
		d.chunk(r.seq, r.first, r.end, r.draw)
	}
	d.s.Stopwatch.ledger.take()
	if err := d.step(); err != nil {
		t.Fatal(err)
	}
	return d.s.Stopwatch.ledger.take()
}

// TestCostOfAlikeLayers: what is counted is what follows from the sizes, in decode and
// prefill, with and without drawn rows, inside and beyond a sliding window.
func TestCostOfAlikeLayers(t *testing.T) {
	c := small(t)
	d := measured(t, c)
	for name, runs := range map[string][]run{
		"decode":                   {{0, 7, 8, true}, {1, 0, 1, true}, {2, 100, 101, true}},
		"a chunk, nothing drawn":   {{0, 0, 40, false}},
		"the last chunk":           {{0, 40, 75, true}},
		"short of a window":        {{1, 0, 19, true}},
		"a prompt beside a decode": {{0, 30, 31, true}, {1, 10, 40, false}},
	} {
		got, want := d.cost(t, runs...), calculated(&c, runs, 768)
		// Biases, and rows that fill up a tile of 16, are read, too.
		if more := got.WeightBytes - want.WeightBytes; more < 0 || more > 0.02*want.WeightBytes {
			t.Errorf("%s: %v bytes of weights, by calculation %v", name, got.WeightBytes, want.WeightBytes)
		}
		if got.WeightBytes = want.WeightBytes; got != want {
			t.Errorf("%s: %+v, by calculation %+v", name, got, want)
		}
		if got.Bytes() != got.WeightBytes+got.KVBytes {
			t.Errorf("%s: %v bytes", name, got.Bytes())
		}
	}
}

func parse(t *testing.T, config string) model.Config {
	t.Helper()
	c, err := model.ParseConfig([]byte(config))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestCostOfExperts: weights of experts count once for all rows that chose them, and those that no
// row chose do not.
func TestCostOfExperts(t *testing.T) {
	const layers, experts, topK, hidden, inner, vocab = 3, 16, 2, 64, 32, 320
	c := parse(t, fmt.Sprintf(`{"architectures": ["Qwen3MoeForCausalLM"], "vocab_size": %d, "hidden_size": %d, "intermediate_size": 96, "num_hidden_layers": %d,
		"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "max_position_embeddings": 512, "tie_word_embeddings": true,
		"num_experts": %d, "num_experts_per_tok": %d, "moe_intermediate_size": %d, "norm_topk_prob": true}`, vocab, hidden, layers, experts, topK, inner))
	d := measured(t, c)
	const expert = 3 * hidden * inner
	const dense = layers*(hidden*(128+2*64)+128*hidden) + hidden*vocab
	const router = layers * hidden * experts
	check := func(name string, got Cost, rows int) {
		t.Helper()
		if want := 2*dense + 4*router + 2*expert*got.Experts; got.WeightBytes != want { // the router is float32
			t.Errorf("%s: %v bytes of weights with %v experts, not %v", name, got.WeightBytes, got.Experts, want)
		}
		if want := 2 * float64(rows) * (dense + router + layers*topK*expert); got.Products != want || got.Mixtures != layers {
			t.Errorf("%s: %v operations, not %v; %v mixtures", name, got.Products, want, got.Mixtures)
		}
	}
	one := d.cost(t, run{0, 0, 1, true})
	check("one row", one, 1)
	if one.Experts != layers*topK || one.ExpertsPerMixture() != topK {
		t.Errorf("one row reads %v experts", one.Experts)
	}
	// Rows that are equal choose the same experts.
	d.begin()
	for s := range 3 {
		d.chunk(s, 0, 1, true)
		d.batch.Tokens[s] = d.batch.Tokens[0]
	}
	if err := d.step(); err != nil {
		t.Fatal(err)
	}
	equal := d.s.Stopwatch.ledger.take()
	if check("equal rows", equal, 3); equal.Experts != layers*topK {
		t.Errorf("equal rows read %v experts", equal.Experts)
	}
	// Others choose others, as far as there are some.
	other := d.cost(t, run{0, 0, 1, true}, run{1, 0, 1, true}, run{2, 0, 1, true})
	if check("three rows", other, 3); other.Experts <= layers*topK || other.Experts > 3*layers*topK {
		t.Errorf("three rows read %v experts", other.Experts)
	}
	last := d.cost(t, run{0, 1, 64, true}) // of the last layer only the drawn row is computed
	if all := float64((layers - 1) * experts); last.Experts <= all*0.9+topK || last.Experts > all+topK {
		t.Errorf("63 rows read %v experts", last.Experts)
	}
}

// TestCostOfStates: a state is written once per sequence and step, and read unless the sequence begins.
func TestCostOfStates(t *testing.T) {
	c := parse(t, `{"architectures": ["Qwen3_5ForCausalLM"], "vocab_size": 320, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4,
		"num_key_value_heads": 2, "head_dim": 32, "max_position_embeddings": 512, "tie_word_embeddings": true, "full_attention_interval": 4, "linear_num_key_heads": 2,
		"linear_num_value_heads": 4, "linear_key_head_dim": 16, "linear_value_head_dim": 32, "linear_conv_kernel_dim": 4, "rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.25}}`)
	d := measured(t, c)
	const layers, columns, state = 3, 2*2*16 + 4*32, 4 * 16 * 32
	perState := float64(4 * layers * (3*columns + state))
	if float64(c.StateBytes()) != perState {
		t.Fatalf("a state has %v bytes", c.StateBytes())
	}
	for _, x := range []struct {
		runs  []run
		moved float64 // states read and written
		rows  float64
		seen  float64 // positions, by the one layer that has attention
	}{
		{[]run{{0, 0, 1, true}}, 1, 1, 1},
		{[]run{{0, 1, 40, true}}, 2, 39, 40},
		{[]run{{0, 40, 41, true}, {1, 0, 20, true}, {2, 0, 1, true}}, 4, 22, 41 + 20 + 1},
	} {
		got := d.cost(t, x.runs...)
		if got.StateBytes != x.moved*perState || got.Recurrence != x.rows*layers*(7*state+2*4*columns) || got.KVBytes != x.seen*768 {
			t.Errorf("%v: %+v", x.runs, got)
		}
		if got.Bytes() != got.WeightBytes+got.KVBytes+got.StateBytes {
			t.Errorf("%v: %v bytes", x.runs, got.Bytes())
		}
	}
}

// TestVisible counts positions and pairs of every kind of attention with the simplest loops.
func TestVisible(t *testing.T) {
	for _, a := range []model.Attention{{}, {Window: 5}, {Window: 40}, {Chunk: 8}, {Window: 6, Chunk: 8}, {Bidirectional: true}, {Bidirectional: true, Window: 4}} {
		for kv := 1; kv < 30; kv++ {
			for rows := 1; rows <= kv; rows++ {
				wantPositions, wantPairs := look(kv, rows, &a)
				if positions, pairs := visible(kv, rows, &a); positions != wantPositions || pairs != wantPairs {
					t.Fatalf("%+v, %d rows of %d: %d positions, %d pairs, not %d, %d", a, rows, kv, positions, pairs, wantPositions, wantPairs)
				}
			}
		}
	}
}

// look is visible, one pair after the other.
func look(kv, rows int, a *model.Attention) (positions, pairs int) {
	seen := map[int]bool{}
	for pos := kv - rows; pos < kv; pos++ {
		for other := range kv {
			near := a.Window == 0 || pos-other < a.Window && other-pos < a.Window
			if near && (a.Bidirectional || other <= pos) && (a.Chunk == 0 || other >= pos/a.Chunk*a.Chunk) {
				seen[other] = true
				pairs++
			}
		}
	}
	return len(seen), pairs
}
