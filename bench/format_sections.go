package bench

// figures writes the statistics of one metric.
func (r *Report) figures(t *table, label string, s Samples) {
	t.number("Mean "+label+" (ms):", s.Mean())
	t.number("Median "+label+" (ms):", s.Percentile(50))
	for _, p := range r.Config.Percentiles {
		t.number("P"+decimal(p)+" "+label+" (ms):", s.Percentile(p))
	}
}

// addFigures adds the statistics of one metric to an object.
func (r *Report) addFigures(o *object, name string, s Samples) {
	o.add("mean_"+name+"_ms", s.Mean())
	o.add("median_"+name+"_ms", s.Percentile(50))
	o.add("std_"+name+"_ms", s.Std())
	for _, p := range r.Config.Percentiles {
		o.add("p"+decimal(p)+"_"+name+"_ms", s.Percentile(p))
	}
}

// writeScheduled writes the latencies from when requests were due.
func (r *Report) writeScheduled(t *table) {
	if !r.Config.Open() {
		return
	}
	t.title("Latency from the Scheduled Time", "-")
	r.figures(t, "scheduled TTFT", r.Scheduled.TTFT)
	r.figures(t, "scheduled E2EL", r.Scheduled.E2EL)
}

func (r *Report) addScheduled(o *object) {
	if r.Config.Open() {
		r.addFigures(o, "scheduled_ttft", r.Scheduled.TTFT)
		r.addFigures(o, "scheduled_e2el", r.Scheduled.E2EL)
	}
}

// writeSteady writes what was measured in the steady state.
func (r *Report) writeSteady(t *table) {
	w := r.Steady
	if w == nil {
		return
	}
	t.title("Steady State", "-")
	t.number("Steady-state duration (s):", (w.End - w.Begin).Seconds())
	t.count("Steady-state requests completed:", w.Completed)
	t.number("Steady-state requests (req/s):", w.perSecond(float64(w.Completed)))
	t.number("Steady-state output tokens (tok/s):", w.perSecond(w.OutputTokens))
	r.each(func(name string, _ Samples) {
		if s, ok := w.samples(name); ok {
			r.figures(t, "steady "+metricNames[name][0], s)
		}
	})
}

func (w *Window) samples(metric string) (s Samples, ok bool) {
	s, ok = map[string]Samples{"ttft": w.TTFT, "tpot": w.TPOT, "itl": w.ITL, "e2el": w.E2EL}[metric]
	return s, ok
}

func (r *Report) addSteady(o *object) {
	w := r.Steady
	if w == nil {
		o.add("steady_state", nil)
		return
	}
	var own object
	own.add("begin", w.Begin.Seconds())
	own.add("duration", (w.End - w.Begin).Seconds())
	own.add("completed", w.Completed)
	own.add("requests_measured", len(w.E2EL))
	own.add("request_throughput", w.perSecond(float64(w.Completed)))
	own.add("output_throughput", w.perSecond(w.OutputTokens))
	r.each(func(name string, _ Samples) {
		if s, ok := w.samples(name); ok {
			r.addFigures(&own, name, s)
		}
	})
	o.nest("steady_state", &own)
}
