package metrics

import (
	"strings"
	"testing"
	"testing/synctest"

	"weir/backend"
	"weir/backend/sim"
	"weir/engine"
	"weir/kvcache"
	"weir/sampler"
)

// start starts an engine without copies of the prefix cache.
func start(t testing.TB, spec backend.Spec, hook func(sim.Call, int) error) fixture {
	t.Helper()
	return startKeeping(t, spec, hook, nil)
}

func ask(salt byte, prompt, output int) engine.Request {
	r := engine.Request{Tokens: make([]int32, prompt), Salt: [16]byte{salt}, Limits: engine.Limits{MaxTokens: output, EOS: -1}, Sampling: sampler.DefaultParams()}
	for i := range r.Tokens {
		r.Tokens[i] = int32(1 + i)
	}
	return r
}

// kept keeps copies of blocks in memory, and gives nothing up.
type kept struct {
	copies map[kvcache.Key][]byte
	asked  []kvcache.Key
	onDisk bool
}

func (k *kept) Has(key kvcache.Key) bool          { return k.copies[key] != nil }
func (k *kept) Wants(key kvcache.Key) bool        { return !k.Has(key) }
func (k *kept) Buffer(n int) []byte               { return make([]byte, n) }
func (k *kept) Save(key kvcache.Key, data []byte) { k.copies[key] = data }
func (k *kept) Drop()                             {}

func (k *kept) Fetch(key kvcache.Key, n int) bool {
	k.asked = append(k.asked, key)
	return true
}

func (k *kept) Fetched(dst []kvcache.Content, most int) []kvcache.Content {
	for _, key := range k.asked {
		dst = append(dst, kvcache.Content{Key: key, Data: k.copies[key], InMemory: !k.onDisk})
	}
	k.asked = nil
	return dst
}

// TestOffload: copies of the prefix cache are counted, and servers without them have no series of them.
func TestOffload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		copies := &kept{copies: map[kvcache.Key][]byte{}}
		h := startKeeping(t, simple, nil, copies)
		defer h.stop()
		h.m.SetCopies(func() Copies {
			return Copies{FileBytes: 1, MemoryBytes: 2, Files: 3, Dropped: 4, WriteErrors: 5, Damaged: 6, Evicted: 7, FromMemory: 8, Reading: 9, Writing: 10}
		})
		h.run(t, ask(1, 96, 20))
		if err := h.ForgetPrefixes(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		h.run(t, ask(1, 96, 1))
		st := h.Stats().Offload
		if st.Saved == 0 || st.Loaded == 0 || st.Hits != 80 {
			t.Errorf("%+v", st)
		}
		p := scrape(t, h.m, false)
		for key, want := range map[string]float64{
			"weir:kv_offload_bytes_total direction=out": float64(st.SavedBytes), "weir:kv_offload_bytes_total direction=in": float64(st.LoadedBytes),
			"weir:kv_offload_copies_total direction=out": float64(st.Saved), "weir:kv_offload_copies_total direction=in": float64(st.Loaded),
			"weir:kv_offload_loading": 0, "weir:kv_offload_failed_loads_total": 0, "weir:kv_offload_computed_total reason=late": 0, "weir:kv_offload_computed_total reason=quicker": 0,
			"vllm:external_prefix_cache_hits_total": 80, "vllm:external_prefix_cache_queries_total": float64(st.Queried),
			"weir:kv_offload_disk_bytes": 1, "weir:kv_offload_memory_bytes": 2, "weir:kv_offload_disk_files": 3, "weir:kv_offload_dropped_total": 4, "weir:kv_offload_write_errors_total": 5,
			"weir:kv_offload_damaged_total": 6, "weir:kv_offload_evicted_total": 7, "weir:kv_offload_memory_hits_total": 8, "weir:kv_offload_read_seconds_total": 9,
			"weir:kv_offload_write_seconds_total": 10,
		} {
			name, label, _ := strings.Cut(key, " ")
			var labels []string
			if label != "" {
				labels = append(labels, label)
			}
			if got := p.value(t, name, labels...); got != want {
				t.Errorf("%s is %v, want %v", key, got, want)
			}
		}
	})
	h := start(t, simple, nil)
	defer h.stop()
	for name := range scrape(t, h.m, false) {
		if strings.HasPrefix(name, "weir:kv_offload") {
			t.Errorf("a server without copies has %s", name)
		}
	}
}

// TestEvents: what is published of changes is counted.
func TestEvents(t *testing.T) {
	h := start(t, simple, nil)
	defer h.stop()
	h.m.SetEvents(func() Events { return Events{Batches: 1, Lost: 2, Subscribers: 3} })
	p := scrape(t, h.m, false)
	for name, want := range map[string]float64{"weir:kv_event_batches_total": 1, "weir:kv_event_losses_total": 2, "weir:kv_event_subscribers": 3} {
		if got := p.value(t, name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}

// TestCachedBySource: cached tokens count for the place that they were in, and add up.
func TestCachedBySource(t *testing.T) {
	for _, onDisk := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			h := startKeeping(t, simple, nil, &kept{copies: map[kvcache.Key][]byte{}, onDisk: onDisk})
			defer h.stop()
			told := func(want map[string]float64) {
				t.Helper()
				p, sum := scrape(t, h.m, false), 0.
				for _, source := range []string{"device", "host", "p2p", "disk", "external_unspecified"} {
					got := p.value(t, "vllm:prompt_tokens_cached_by_source_total", "source="+source)
					if sum += got; got != want[source] {
						t.Errorf("%s: %v, want %v", source, got, want)
					}
				}
				if got := p.value(t, "vllm:prompt_tokens_cached_total"); got != sum {
					t.Errorf("together %v, want %v", got, sum)
				}
			}
			h.run(t, ask(1, 96, 20))
			told(nil)
			h.run(t, ask(1, 96, 1))
			told(map[string]float64{"device": 80})
			if err := h.ForgetPrefixes(t.Context(), true); err != nil {
				t.Fatal(err)
			}
			h.run(t, ask(1, 96, 1))
			told(map[string]float64{"device": 80, map[bool]string{false: "host", true: "disk"}[onDisk]: 80})
		})
	}
}
