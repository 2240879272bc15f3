package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Store is what a database has done since the process started, and its present state.
type Store struct {
	Updates, Commits, Written uint64  // Written is in bytes
	Committing, Syncing       float64 // in seconds
	Failures, Damaged         uint64
	Doubts                    int
	Waiting                   int
	Size                      int64 // of its files, in bytes
}

// stores collects the series of databases, by their names.
type stores map[string]func() Store

// SetStores adds the series of databases, by their names. It may be called once.
func (m *Metrics) SetStores(read map[string]func() Store) { m.registry.MustRegister(stores(read)) }

func (s stores) Describe(chan<- *prometheus.Desc) {}

func (s stores) Collect(ch chan<- prometheus.Metric) {
	for name, read := range s {
		of := read()
		for _, c := range []struct {
			name, help string
			kind       prometheus.ValueType
			value      float64
		}{
			{"weir:store_updates_total", "Updates that are on the disk, by store.", prometheus.CounterValue, float64(of.Updates)},
			{"weir:store_commits_total", "Syncs that made them last; updates that wait together share one.", prometheus.CounterValue, float64(of.Commits)},
			{"weir:store_written_bytes_total", "Keys and values written.", prometheus.CounterValue, float64(of.Written)},
			{"weir:store_commit_seconds_total", "Time spent in commits.", prometheus.CounterValue, of.Committing},
			{"weir:store_sync_seconds_total", "Time of that spent in syncs of files.", prometheus.CounterValue, of.Syncing},
			{"weir:store_failed_commits_total", "Commits that the disk did not take.", prometheus.CounterValue, float64(of.Failures)},
			{"weir:store_damaged_values_total", "Damaged values that were met.", prometheus.CounterValue, float64(of.Damaged)},
			{"weir:store_possible_losses", "Parts of files that were written between the last account and a crash, so that nothing tells whether they are whole.", prometheus.GaugeValue, float64(of.Doubts)},
			{"weir:store_waiting_updates", "Updates that wait for the writer.", prometheus.GaugeValue, float64(of.Waiting)},
			{"weir:store_size_bytes", "Space that the files take.", prometheus.GaugeValue, float64(of.Size)},
		} {
			ch <- prometheus.MustNewConstMetric(prometheus.NewDesc(c.name, c.help, []string{"store"}, nil), c.kind, c.value, name)
		}
	}
}

// Logged counts a batch of trajectories that a client has logged.
func (m *Metrics) Logged(trajectories int, bytes int64) {
	m.logged.Add(float64(trajectories))
	m.loggedBytes.Add(float64(bytes))
}

// Recorded counts chat completions that were recorded, and those that should have been
// recorded and were lost.
func (m *Metrics) Recorded(completions, lost int) {
	m.recorded.Add(float64(completions))
	m.lost.Add(float64(lost))
}

// RewardUnset counts feedback that is about the reward of a chat completion and set none.
func (m *Metrics) RewardUnset() { m.unset.Inc() }

// CallsWritten counts chat completions that were written as calls, and those that should have
// been written and were lost.
func (m *Metrics) CallsWritten(calls, lost int) {
	m.called.Add(float64(calls))
	m.callsLost.Add(float64(lost))
}
