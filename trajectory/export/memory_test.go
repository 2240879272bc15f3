package export

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"weir/internal/memory"
	"weir/internal/pace"
	"weir/trajectory/archive"
)

// reserved runs an export and returns what it has reserved, and the most memory on the heap
// that was in use beyond what was there before. take may refuse a reservation.
func reserved(t *testing.T, a *archive.Archive, f *archive.Filter, o Options, take func(n int64) error) (sum, most int64, err error) {
	t.Helper()
	o.TempDir = t.TempDir()
	heap := func() int64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	runtime.GC()
	runtime.GC() // pools
	before := heap()
	asked := 0
	ctx := pace.With(context.Background(), func() error {
		if asked++; asked%64 == 0 {
			most = max(most, heap()-before)
		}
		return nil
	})
	ctx = memory.With(ctx, func(n int64) error {
		sum += n
		return take(sum)
	})
	err = a.Query(ctx, "t", func(v *archive.View) error { return Write(Paced(io.Discard, v), v, "a/m", f, o) })
	return sum, max(most, heap()-before), err
}

// bound is the most that may be held where sum bytes are reserved: a quarter is for garbage, and
// some for what is held anyway.
func bound(sum int64) int64 { return sum*5/4 + 2<<20 }

// leastHeld is reserved with nothing refused. The collector of garbage is late on a busy machine,
// so a run may hold more than it needs; then another one tells.
func leastHeld(t *testing.T, a *archive.Archive, f *archive.Filter, o Options) (sum, most int64, err error) {
	t.Helper()
	for range 5 {
		if sum, most, err = reserved(t, a, f, o, func(int64) error { return nil }); err != nil || most <= bound(sum) {
			break
		}
	}
	return sum, most, err
}

// TestExportsReserve: what an export and a search take of the heap was reserved before, with
// trajectories of one large text, of very many turns, and with several of them in a row group,
// and an export whose reservation is refused ends with that error.
func TestExportsReserve(t *testing.T) {
	const size = 4 << 20
	noise := make([]byte, size/2)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	turn := `{"role":"user","content":"` + hex.EncodeToString(noise) + `"}`
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	for name, text := range map[string]string{
		"large": `{"messages_and_choices":[` + turn + `],"reward":1}`,
		"turns": `{"messages_and_choices":[` + strings.Repeat(`{},`, size/3/16) + `{}],"reward":1}`,
	} {
		a := newArchive(t, `{"split":"train","trajectory_groups":[{"trajectories":[`+text+`,`+text+`,`+text+`]}]}`)
		check := func(what string, f *archive.Filter, o Options) {
			sum, most, err := leastHeld(t, a, f, o)
			t.Logf("%s, %s: %d KiB reserved, %d KiB held", name, what, sum>>10, most>>10)
			if err != nil || most > bound(sum) {
				t.Errorf("%s, %s: %v, %d bytes reserved, %d held", name, what, err, sum, most)
			}
			for _, part := range []int64{2, 1} {
				full := errors.New("full")
				if _, _, err := reserved(t, a, f, o, func(n int64) error {
					if n >= sum/part {
						return full
					}
					return nil
				}); !errors.Is(err, full) {
					t.Errorf("%s, %s: refused at %d of %d: %v", name, what, sum/part, sum, err)
				}
			}
		}
		for _, format := range Formats() {
			check(string(format), &archive.Filter{}, Options{Format: format})
		}
		check("without log-probabilities", &archive.Filter{}, Options{Format: JSONL, DropLogprobs: true})
		check("search", &archive.Filter{Text: "nowhere"}, Options{Format: JSONL})
	}
}
