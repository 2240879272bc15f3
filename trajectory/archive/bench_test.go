package archive

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkVisit is a query over a hundred thousand trajectories that selects none, so that
// only rows are read.
func BenchmarkVisit(b *testing.B) {
	s := newTestArchive(b)
	const many = 100_000
	var body strings.Builder
	body.WriteString(`{"split":"train","trajectory_groups":[{"trajectories":[`)
	for i := range many {
		fmt.Fprintf(&body, `{"reward":%d,"final_policy_version":%d,"metrics":{"duration":8.41,"max_tile":512},"metadata":{"scenario_id":"seed-%d"}},`, i%7, i%5, i)
	}
	body.WriteString(`{}]}]}`)
	s.mustLog("t", "m", body.String())
	f := &Filter{Finish: []string{"length"}}
	for b.Loop() {
		if err := s.View("t", func(v *View) error {
			var bad error
			err := v.Batches("m", ID{}, false, func(batch *Batch) bool {
				bad = v.Open(batch).Visit(f, Visitor{Trajectory: func(*Row) error { return errFound }})
				return bad == nil
			})
			if err == nil {
				err = bad
			}
			return err
		}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/many, "ns/row")
}
