package metrics

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"weir/backend"
)

// hybrid has recurrent states, and layers that see all positions and a window of them.
var hybrid = func() backend.Spec {
	s := simple
	s.StateSlots, s.Groups = 9, []backend.KVGroup{{}, {Window: 32}}
	return s
}()

// TestStates: the slots of recurrent states and the blocks of windows are counted while a sequence runs, after it, and when
// another one begins with the state that was kept.
func TestStates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, hybrid, nil)
		defer h.stop()
		check := func(when string, want map[string]float64) {
			t.Helper()
			p := scrape(t, h.m, false)
			for key, value := range want {
				name, label, _ := strings.Cut(key, " ")
				labels := []string{}
				if label != "" {
					labels = append(labels, label)
				}
				if got := p.value(t, name, labels...); got != value {
					t.Errorf("%s: %s is %v, want %v", when, key, got, value)
				}
			}
		}
		ended := make(chan struct{})
		go func() {
			h.run(t, ask(1, 96, 100))
			close(ended)
		}()
		time.Sleep(500 * time.Millisecond) // about half of the answer, so that the window has moved on
		synctest.Wait()                    // until a step that ends at this moment has been reported
		used := h.Stats()
		if used.BlocksWindowed == 0 || used.BlocksUsed-used.BlocksWindowed <= used.BlocksWindowed || used.StatesUsed == 0 {
			t.Errorf("in the middle of an answer: %+v", used)
		}
		check("in the middle", map[string]float64{
			"weir:state_slots state=used": float64(used.StatesUsed), "weir:state_slots state=cached": float64(used.StatesKept), "weir:state_checkpoint_hits_total": 0,
			"weir:state_slots state=free": float64(8 - used.StatesUsed - used.StatesKept), "weir:kv_blocks_used layers=window": float64(used.BlocksWindowed),
			"weir:kv_blocks_used layers=all": float64(used.BlocksUsed - used.BlocksWindowed),
		})
		<-ended
		kept := float64(h.Stats().StatesKept)
		if kept == 0 {
			t.Error("no checkpoint is kept")
		}
		check("after the answer", map[string]float64{"weir:state_slots state=used": 0, "weir:state_slots state=cached": kept, "weir:state_slots state=free": 8 - kept,
			"weir:kv_blocks_used layers=window": 0, "weir:kv_blocks_used layers=all": 0, "weir:state_checkpoint_hits_total": 0})
		h.run(t, ask(1, 100, 1))
		check("after a second one", map[string]float64{"weir:state_checkpoint_hits_total": 1})
		h.run(t, ask(2, 100, 1))
		check("after another one", map[string]float64{"weir:state_checkpoint_hits_total": 1})
		plain := start(t, simple, nil)
		defer plain.stop()
		for name := range scrape(t, plain.m, false) {
			if strings.HasPrefix(name, "weir:state_") || strings.HasPrefix(name, "weir:kv_blocks") {
				t.Errorf("a network without states and windows has %s", name)
			}
		}
	})
}
