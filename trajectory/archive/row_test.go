package archive

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"weir/trajectory"
)

// TestRecords encodes and decodes rows.
func TestRecords(t *testing.T) {
	x := &Row{Group: 1 << 40, Index: 3, text: textRange{1 << 50, 7}, Facts: trajectory.Facts{
		Reward: -0.1, Scored: true, Initial: trajectory.Some(-1 << 63), Final: trajectory.Some(1<<63 - 1), Start: time.Unix(-5, 999).UTC(), Tools: true,
		Finish: []string{"", "stop"}, Choices: 2, Tokens: trajectory.Some(0), Metrics: []trajectory.Score{{Name: "", Value: 1e300}, {Name: "b"}},
		Metadata: []trajectory.Label{{Name: "a", Value: "x"}, {Name: "b", Value: "c"}},
	}}
	g := &GroupRow{Index: 5, Trajectories: 6, Exceptions: 7, Scored: 2, Mean: 0.1, Deviation: 0.2, Metrics: []trajectory.Score{{Name: "j", Value: 1}}, text: textRange{3, 4}}
	for _, want := range []*Row{x, {}, {Facts: trajectory.Facts{Start: time.Unix(0, 0).UTC()}}} {
		b := want.append(nil)
		var got Row
		if err := got.parse(b); err != nil || !reflect.DeepEqual(&got, want) {
			t.Errorf("%+v %v, want %+v", got, err, want)
		}
		for n := range b {
			if got.parse(b[:n]) == nil {
				t.Errorf("cut at %d: no error", n)
			}
		}
		if got.parse(append(b, 0)) == nil {
			t.Error("too long: no error")
		}
	}
	var got GroupRow
	if err := got.parse(g.append(nil)); err != nil || !reflect.DeepEqual(&got, g) {
		t.Errorf("%+v %v, want %+v", got, err, g)
	}
	if len(rowLabel(strings.Repeat("x", 1000))) != longLabel || rowLabel(strings.Repeat("x", 1000)) == rowLabel(strings.Repeat("x", 1001)) || rowLabel("short") != "short" {
		t.Error("label")
	}
}

// FuzzRecords decodes any bytes, which must not panic.
func FuzzRecords(f *testing.F) {
	f.Add((&Row{Facts: trajectory.Facts{Scored: true, Finish: []string{"stop"}, Metadata: []trajectory.Label{{Name: "a", Value: "b"}}}}).append(nil))
	f.Add((&GroupRow{Metrics: []trajectory.Score{{Name: "a", Value: 1}}}).append(nil))
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Fuzz(func(_ *testing.T, b []byte) {
		var r Row
		var g GroupRow
		_, _ = r.parse(b), g.parse(b)
		_, _ = decodeBatch("m", ID{}, b)
	})
}
