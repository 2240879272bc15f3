package export

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"weir/internal/pace"
	"weir/trajectory/archive"
)

// largeTrajectory is the size in bytes of the trajectory that TestStopInOneTrajectory stops in.
const largeTrajectory = 4 << 20

// TestStopInOneTrajectory: a query of one huge trajectory is asked all the time whether it is
// to go on, in every format and in a search, and if not it ends at once with the reason.
func TestStopInOneTrajectory(t *testing.T) {
	part := largeTrajectory / 4
	numbers := strings.Repeat(`{"token":"a","logprob":-0.5},`, part/29)
	large := `{"messages_and_choices":[{"role":"user","content":[{"type":"text","text":"` + strings.Repeat(`a\n`, part/3) + `"}]},` +
		`{"finish_reason":"stop","logprobs":{"content":[` + numbers + `{}]},"message":{"role":"assistant","content":"` + strings.Repeat("b ", part/2) + `"}}],` +
		`"reward":1,"logs":[` + strings.Repeat(`"line",`, part/7) + `""]}`
	a := newArchive(t, `{"split":"train","trajectory_groups":[{"trajectories":[`+large+`]}]}`)
	stop := errors.New("stop")
	// write exports, and stops at the n-th question, if n is not 0.
	write := func(f *archive.Filter, o Options, n int) (asked int, longest time.Duration, err error) {
		last := time.Now()
		ctx := pace.With(context.Background(), func() error {
			longest, last = max(longest, time.Since(last)), time.Now()
			if asked++; asked == n {
				return stop
			}
			return nil
		})
		o.TempDir = t.TempDir()
		err = a.Query(ctx, "t", func(v *archive.View) error { return Write(Paced(io.Discard, v), v, "a/m", f, o) })
		return asked, max(longest, time.Since(last)), err
	}
	for _, format := range Formats() {
		o := Options{Format: format, DropLogprobs: format == SFT}
		testStops(t, string(format), func(n int) (int, time.Duration, error) { return write(&archive.Filter{}, o, n) }, stop)
	}
	testStops(t, "search", func(n int) (int, time.Duration, error) {
		return write(&archive.Filter{Text: "nowhere"}, Options{Format: JSONL}, n)
	}, stop)
}

func testStops(t *testing.T, what string, write func(n int) (int, time.Duration, error), stop error) {
	t.Helper()
	asked, longest, err := write(0)
	t.Logf("%s: asked %d times, at most %v apart", what, asked, longest)
	if err != nil || asked < largeTrajectory/(64<<10) {
		t.Errorf("%s: asked %d times, %v", what, asked, err)
	}
	for _, n := range []int{1, asked / 2, asked} {
		if again, _, err := write(n); !errors.Is(err, stop) || again != n {
			t.Errorf("%s: stopped at question %d of %d: %v after %d", what, n, asked, err, again)
		}
	}
}
