package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"
)

// median of what f gives for each result.
func median[T cmp.Ordered](results []result, f func(result) T) T {
	values := make([]T, len(results))
	for i, r := range results {
		values[i] = f(r)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// report writes a table in Markdown.
func report(out io.Writer, o *options, results map[string][]result) error {
	w := &writer{out: out}
	w.line("%d runs, %v of quiet and %v of attack each, beside %d plain and %d structured streams; medians. Times in ms.", o.runs, o.quiet, o.attack, o.plain, o.structured)
	w.line("")
	w.line("| Attack | quiet p99.9 | p99.9 | quiet longest | longest | first token | memory, MiB of %d | answers of the last run |", o.memory)
	w.line("|---|---|---|---|---|---|---|---|")
	for _, a := range attacks {
		rs := results[a.name]
		if len(rs) == 0 {
			continue
		}
		ms := func(f func(result) time.Duration) float64 { return float64(median(rs, f).Microseconds()) / 1000 }
		w.line("| %s | %.1f | %.1f | %.1f | %.1f | %.1f | %d | %v |", a.name,
			ms(func(r result) time.Duration { return r.quiet.p999 }), ms(func(r result) time.Duration { return r.attack.p999 }),
			ms(func(r result) time.Duration { return r.quiet.longest }), ms(func(r result) time.Duration { return r.attack.longest }),
			ms(func(r result) time.Duration { return r.attack.firstToken }),
			median(rs, func(r result) int64 { return r.memory })>>20, rs[len(rs)-1].statuses)
	}
	w.line("")
	return w.err
}

// writer keeps the first error.
type writer struct {
	out io.Writer
	err error
}

func (w *writer) line(format string, args ...any) {
	if w.err == nil {
		_, w.err = fmt.Fprintf(w.out, format+"\n", args...)
	}
}
