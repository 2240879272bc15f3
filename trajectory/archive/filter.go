package archive

import (
	"slices"
	"time"

	"weir/trajectory"
)

// Filter selects trajectories. Every condition that is set has to hold; the zero value
// selects all (docs/interface/trajectories.md, section 11).
type Filter struct {
	Splits []string // any of them; nil: all
	Log    ID       // zero: any
	Step   trajectory.Int

	// From (inclusive) and To (exclusive) bound when the batch was received, or
	// with ByStart the trajectory's start_time, if it has one. Zero: no bound.
	From, To time.Time
	ByStart  bool

	MinVersion, MaxVersion trajectory.Int // inclusive
	MinReward, MaxReward   *float64       // inclusive; a trajectory without a reward is in no range
	Finish                 []string       // any of them; nil: all
	Tools                  *bool
	Metadata               []trajectory.Label // names and the texts of values
	Metrics                []Range
	Text                   string // in the text of a message
}

// Range bounds a metric. The bounds are inclusive; nil stands for no bound.
type Range struct {
	Name     string
	Min, Max *float64
}

func within(x float64, low, high *float64) bool {
	return (low == nil || x >= *low) && (high == nil || x <= *high)
}

// batchesOnly reports whether all conditions are about batches, so that a batch is selected
// as a whole or not at all.
func (f *Filter) batchesOnly() bool {
	return !f.Step.Given && !(f.ByStart && (!f.From.IsZero() || !f.To.IsZero())) && !f.MinVersion.Given && !f.MaxVersion.Given &&
		f.MinReward == nil && f.MaxReward == nil && f.Finish == nil && f.Tools == nil && f.Metadata == nil && f.Metrics == nil && f.Text == ""
}

// inTime reports whether a time is within From and To.
func (f *Filter) inTime(t time.Time) bool {
	return (f.From.IsZero() || !t.Before(f.From)) && (f.To.IsZero() || t.Before(f.To))
}

// mayMatch reports whether a batch may have trajectories that the filter selects.
func (f *Filter) mayMatch(b *Batch) bool {
	switch {
	case f.Splits != nil && !slices.Contains(f.Splits, b.Split),
		f.Log != ID{} && f.Log != b.ID,
		f.Step.Given && b.Step.Given && f.Step != b.Step,
		!f.ByStart && !f.inTime(b.Received),
		f.MinVersion.Given && (!b.Versions.Given || b.Versions.Max < f.MinVersion.N),
		f.MaxVersion.Given && (!b.Versions.Given || b.Versions.Min > f.MaxVersion.N),
		f.MinReward != nil && (b.Rewards == nil || b.Rewards[1] < *f.MinReward),
		f.MaxReward != nil && (b.Rewards == nil || b.Rewards[0] > *f.MaxReward):
		return false
	}
	return true
}

// StepOf is the training step of a trajectory: that of the batch, or else its policy version
// (docs/interface/trajectories.md, section 9.3).
func (b *Batch) StepOf(r *Row) trajectory.Int { return b.Step.Or(r.Version()) }

// MayHaveStep reports whether trajectories of the batch may have a training step.
func (b *Batch) MayHaveStep(n int64) bool {
	if b.Step.Given {
		return b.Step.N == n
	}
	return b.Versions.Given && b.Versions.Min <= n && n <= b.Versions.Max
}

// matches reports whether a trajectory of a batch that may match is selected, apart from
// f.Text.
func (f *Filter) matches(b *Batch, r *Row) bool {
	version := r.Version()
	switch {
	case f.Step.Given && b.StepOf(r) != f.Step,
		f.MinVersion.Given && (!version.Given || version.N < f.MinVersion.N),
		f.MaxVersion.Given && (!version.Given || version.N > f.MaxVersion.N),
		(f.MinReward != nil || f.MaxReward != nil) && !(r.Scored && within(r.Reward, f.MinReward, f.MaxReward)),
		f.Tools != nil && *f.Tools != r.Tools,
		f.Finish != nil && !slices.ContainsFunc(f.Finish, func(s string) bool { return slices.Contains(r.Finish, s) }):
		return false
	}
	if f.ByStart {
		at := r.Start
		if at.IsZero() {
			at = b.Received
		}
		if !f.inTime(at) {
			return false
		}
	}
	for _, want := range f.Metadata {
		i := slices.IndexFunc(r.Metadata, func(l trajectory.Label) bool { return l.Name == want.Name })
		if i < 0 || r.Metadata[i].Value != rowLabel(want.Value) {
			return false
		}
	}
	for _, want := range f.Metrics {
		i := slices.IndexFunc(r.Metrics, func(s trajectory.Score) bool { return s.Name == want.Name })
		if i < 0 || !within(r.Metrics[i].Value, want.Min, want.Max) {
			return false
		}
	}
	return true
}

func sortedIndex(list []string, s string) (int, bool) { return slices.BinarySearch(list, s) }
