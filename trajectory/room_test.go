package trajectory

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"weir/internal/testkit"
)

// hostileLogs are bodies that take much memory to read, of about size bytes each.
func hostileLogs(size int) map[string]string {
	many := func(one func(i int) string) string {
		var b strings.Builder
		for i := 0; b.Len() < size; i++ {
			b.WriteString(one(i))
			b.WriteByte(',')
		}
		return strings.TrimSuffix(b.String(), ",")
	}
	long := strings.Repeat("x", size)
	group := func(members string) string {
		return `{"split":"s","trajectory_groups":[{` + members + `}]}`
	}
	one := func(members string) string { return group(`"trajectories":[{` + members + `}]`) }
	return map[string]string{
		"text":                   one(`"logs":["` + long + `"]`),
		"metrics":                one(`"metrics":{` + many(func(i int) string { return fmt.Sprintf(`"%x":1`, i) }) + `}`),
		"metrics with no names":  one(`"metrics":{` + many(func(int) string { return `"":1` }) + `}`),
		"metadata":               one(`"metadata":{` + many(func(i int) string { return fmt.Sprintf(`"%x":"a"`, i) }) + `}`),
		"metadata, long":         one(`"metadata":{"a":"` + strings.Repeat(`\u0061`, size/6) + `"}`),
		"long name of a metric":  one(`"metrics":{"` + long + `":1}`),
		"long name of a member":  one(`"` + long + `":1`),
		"metrics of a group":     group(`"metrics":{` + many(func(i int) string { return fmt.Sprintf(`"%x":1`, i) }) + `}`),
		"texts of a group":       group(many(func(i int) string { return `"logs":["` + strings.Repeat("x", 10_000) + `"]` })),
		"finish reasons":         one(`"messages_and_choices":[` + many(func(i int) string { return fmt.Sprintf(`{"message":{},"finish_reason":"%d%s"}`, i, long[:size/20]) }) + `]`),
		"turns":                  one(`"messages_and_choices":[` + many(func(int) string { return `{}` }) + `]`),
		"a long number":          one(`"initial_policy_version":` + strings.Repeat("1", size)),
		"a long time":            one(`"start_time":"2026-01-01T00:00:00.` + strings.Repeat("1", size) + `Z"`),
		"a long split":           `{"split":"` + long + `"}`,
		"a long name":            `{"` + long + `":1}`,
		"errors with long names": group(`"trajectories":[` + strings.Repeat(`{"metrics":{"`+long+`":""}},`, 20) + `{}]`),
		"twice the metrics":      one(strings.TrimSuffix(strings.Repeat(`"metrics":{`+many(func(i int) string { return fmt.Sprintf(`"%x":1`, i) })+`},`, 2), ",")),
	}
}

// measured is a body that looks at the heap before it gives a piece.
type measured struct {
	io.Reader
	before, most int64
}

func (m *measured) Read(p []byte) (int, error) {
	m.most = max(m.most, testkit.Heap())
	return m.Reader.Read(p)
}

type nothing struct{}

func (nothing) Trajectory(*Trajectory) error { return nil }

func (nothing) Group(*Group) error { return nil }

// Reading holds no more than it has reserved, of the worst bodies there are.
func TestReadHoldsWhatItReserved(t *testing.T) {
	const size, slack = 1 << 20, 640 << 10 // slack: of the runtime and of other goroutines, and buffers that were replaced during a collection
	for name, body := range hostileLogs(size) {
		t.Run(name, func(t *testing.T) {
			var reserved, took int64
			for range 20 { // what is allocated during a collection counts as in use although it may be garbage
				reserved = 0
				l := DefaultLimits()
				l.Reserve = func(n int64) error { reserved += n; return nil }
				in := &measured{Reader: strings.NewReader(body), before: testkit.Heap()}
				took = testkit.Highest(func() {
					if _, err := Read(in, l, nothing{}); err != nil && !strings.HasPrefix(err.Error(), "trajectory: body") {
						t.Error(err)
					}
				})
				if took = max(took, in.most-in.before); took <= reserved+slack {
					break
				}
			}
			t.Logf("%d bytes: %d were used and %d reserved, %.2f and %.2f per byte", len(body), took, reserved, float64(took)/float64(len(body)), float64(reserved)/float64(len(body)))
			if took > reserved+slack {
				t.Error("more was used than reserved")
			}
		})
	}
}

// Names of members are cut in the paths of errors, between characters and escapes.
func TestShortName(t *testing.T) {
	for _, piece := range []string{"x", "é", "😀", `\u00e9`, `\"`, `\\`, `\ud83d\ude00`} {
		for lead := range 12 {
			name := Value(`"` + strings.Repeat("a", lead) + strings.Repeat(piece, 400) + `"`)
			got, whole := shortName(name), name.Text()
			if short, cut := strings.CutSuffix(got, "…"); cut != (len(name) > longName) || !strings.HasPrefix(whole, short) && !strings.HasPrefix(whole, strings.TrimSuffix(short, "\uFFFD")) {
				t.Errorf("%d and %s: %q", lead, piece, got)
			}
		}
	}
	if name := Value(`"` + strings.Repeat("x", longName-2) + `"`); shortName(name) != name.Text() {
		t.Error("a name of the usual length is cut")
	}
}
