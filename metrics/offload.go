package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"weir/engine"
)

// addOffload adds the series of the engine about copies of the prefix cache outside of the device. Servers without such copies do not have them.
func addOffload(add func(gauge bool, name, help string, value func(*engine.Stats, *tally) float64, more ...string)) {
	of := func(gauge bool, name, help string, value func(*engine.OffloadStats) float64, more ...string) {
		add(gauge, name, help, func(st *engine.Stats, _ *tally) float64 { return value(&st.Offload) }, more...)
	}
	const bytes = "Bytes of KV blocks and states that were copied: out of the device to be kept, and back into it."
	of(false, "weir:kv_offload_bytes_total", bytes, func(st *engine.OffloadStats) float64 { return float64(st.SavedBytes) }, "direction", "out")
	of(false, "weir:kv_offload_bytes_total", bytes, func(st *engine.OffloadStats) float64 { return float64(st.LoadedBytes) }, "direction", "in")
	const copies = "KV blocks and states that were copied: out of the device to be kept, and back into it."
	of(false, "weir:kv_offload_copies_total", copies, func(st *engine.OffloadStats) float64 { return float64(st.Saved) }, "direction", "out")
	of(false, "weir:kv_offload_copies_total", copies, func(st *engine.OffloadStats) float64 { return float64(st.Loaded) }, "direction", "in")
	of(false, "weir:kv_offload_uncopied_total", "KV blocks and states that were given up before they could be copied.", func(st *engine.OffloadStats) float64 { return float64(st.Uncopied) })
	of(false, "weir:kv_offload_failed_loads_total", "Copies that were not there any more, or damaged, when they were to be brought back.", func(st *engine.OffloadStats) float64 { return float64(st.Failed) })
	const computed = "Sequences that were computed although copies of their prefix were there: because that was quicker, as measured, or because the copies came too late."
	of(false, "weir:kv_offload_computed_total", computed, func(st *engine.OffloadStats) float64 { return float64(st.Slower) }, "reason", "quicker")
	of(false, "weir:kv_offload_computed_total", computed, func(st *engine.OffloadStats) float64 { return float64(st.TimedOut) }, "reason", "late")
	of(false, "weir:kv_offload_load_seconds_total", "Time in which copies were brought back.", func(st *engine.OffloadStats) float64 { return st.LoadTime.Seconds() })
	of(true, "weir:kv_offload_loading", "Sequences that wait for copies of their prefix.", func(st *engine.OffloadStats) float64 { return float64(st.Loading) })
}

// Copies is what keeps copies of the prefix cache, since the process started, and its present state.
type Copies struct {
	FileBytes, MemoryBytes       int64
	Files                        int
	Dropped, WriteErrors         uint64
	Damaged, Evicted, FromMemory uint64
	Reading, Writing             float64 // seconds
}

// copies collects the series of what keeps copies.
type copies func() Copies

// SetCopies adds the series of what keeps copies of the prefix cache. It may be called once.
func (m *Metrics) SetCopies(read func() Copies) { m.registry.MustRegister(copies(read)) }

func (c copies) Describe(chan<- *prometheus.Desc) {}

func (c copies) Collect(ch chan<- prometheus.Metric) {
	of := c()
	collect(ch, []plain{
		{"weir:kv_offload_disk_bytes", "Space that copies of KV blocks and states take on the disk.", prometheus.GaugeValue, float64(of.FileBytes)},
		{"weir:kv_offload_disk_files", "Copies of KV blocks and states on the disk, those of other builds and models included.", prometheus.GaugeValue, float64(of.Files)},
		{"weir:kv_offload_memory_bytes", "Copies of KV blocks and states in the memory of the machine.", prometheus.GaugeValue, float64(of.MemoryBytes)},
		{"weir:kv_offload_dropped_total", "Copies that were not written: the disk was full or failed, or they were erased.", prometheus.CounterValue, float64(of.Dropped)},
		{"weir:kv_offload_write_errors_total", "Copies that the disk did not take.", prometheus.CounterValue, float64(of.WriteErrors)},
		{"weir:kv_offload_damaged_total", "Files of copies that were not what they should have been.", prometheus.CounterValue, float64(of.Damaged)},
		{"weir:kv_offload_evicted_total", "Files of copies that were removed to make room.", prometheus.CounterValue, float64(of.Evicted)},
		{"weir:kv_offload_memory_hits_total", "Copies brought back that were in the memory of the machine.", prometheus.CounterValue, float64(of.FromMemory)},
		{"weir:kv_offload_read_seconds_total", "Time in which files of copies were read.", prometheus.CounterValue, of.Reading},
		{"weir:kv_offload_write_seconds_total", "Time in which files of copies were written.", prometheus.CounterValue, of.Writing},
	})
}

// plain is a series without labels.
type plain struct {
	name, help string
	kind       prometheus.ValueType
	value      float64
}

func collect(ch chan<- prometheus.Metric, series []plain) {
	for _, s := range series {
		ch <- prometheus.MustNewConstMetric(prometheus.NewDesc(s.name, s.help, nil, nil), s.kind, s.value)
	}
}

// Events is what is published of changes of the prefix cache, since the process started, and who listens now.
type Events struct {
	Batches, Lost uint64
	Subscribers   int
}

// events collects the series of what is published.
type events func() Events

// SetEvents adds the series of what is published of changes of the prefix cache. It may be called once.
func (m *Metrics) SetEvents(read func() Events) { m.registry.MustRegister(events(read)) }

func (e events) Describe(chan<- *prometheus.Desc) {}

func (e events) Collect(ch chan<- prometheus.Metric) {
	of := e()
	collect(ch, []plain{
		{"weir:kv_event_batches_total", "Batches of KV events that were published.", prometheus.CounterValue, float64(of.Batches)},
		{"weir:kv_event_losses_total", "Times that changes of the prefix cache were lost because too many waited to be published.", prometheus.CounterValue, float64(of.Lost)},
		{"weir:kv_event_subscribers", "Connections that subscribe to KV events.", prometheus.GaugeValue, float64(of.Subscribers)},
	})
}

// Transfers is what went to other servers and came from them, since the process started, and what is held for them now.
type Transfers struct {
	Leases                          int
	Held                            int64
	Granted, Refused, Expired       uint64
	Sent, Received                  uint64 // bytes
	Offers, OffersFailed, Strangers uint64
	Failed, Damaged                 uint64
}

// transfers collects the series of what goes to other servers and comes from them.
type transfers func() Transfers

// SetTransfers adds the series of KV blocks that go to other servers and come from them. It may be called once.
func (m *Metrics) SetTransfers(read func() Transfers) { m.registry.MustRegister(transfers(read)) }

func (t transfers) Describe(chan<- *prometheus.Desc) {}

func (t transfers) Collect(ch chan<- prometheus.Metric) {
	of := t()
	collect(ch, []plain{
		{"weir:kv_transfer_leases", "Prompts whose KV blocks are held for partners.", prometheus.GaugeValue, float64(of.Leases)},
		{"weir:kv_transfer_held_bytes", "KV blocks and states that are held for partners.", prometheus.GaugeValue, float64(of.Held)},
		{"weir:kv_transfer_leases_total", "Prompts whose KV blocks were held for partners.", prometheus.CounterValue, float64(of.Granted)},
		{"weir:kv_transfer_leases_refused_total", "Prompts whose KV blocks were not held, because there was no room.", prometheus.CounterValue, float64(of.Refused)},
		{"weir:kv_transfer_leases_expired_total", "Prompts whose KV blocks were given up because no partner had said that it has them.", prometheus.CounterValue, float64(of.Expired)},
		{"weir:kv_transfer_sent_bytes_total", "KV blocks and states that went to partners.", prometheus.CounterValue, float64(of.Sent)},
		{"weir:kv_transfer_received_bytes_total", "KV blocks and states that came from partners.", prometheus.CounterValue, float64(of.Received)},
		{"weir:kv_transfer_offers_total", "Prompts of which a partner has said what it holds.", prometheus.CounterValue, float64(of.Offers)},
		{"weir:kv_transfer_offers_failed_total", "Prompts that were computed because their partner could not be reached, was late or answered wrongly.", prometheus.CounterValue, float64(of.OffersFailed)},
		{"weir:kv_transfer_strangers_total", "Prompts that were computed because their partner has another fingerprint.", prometheus.CounterValue, float64(of.Strangers)},
		{"weir:kv_transfer_failed_total", "KV blocks and states that a partner was asked for and that did not come.", prometheus.CounterValue, float64(of.Failed)},
		{"weir:kv_transfer_damaged_total", "KV blocks and states that came with another checksum.", prometheus.CounterValue, float64(of.Damaged)},
	})
}
