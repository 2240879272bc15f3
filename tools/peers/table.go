package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// seconds is about how long a run takes, by unit and engine, for a model of 1.2 billion
// parameters with two threads, on two processors of 2026. It is used until a run has been
// measured.
var seconds = map[string]map[string]float64{
	"single":            {weir: 11, llama: 17, ik: 10},
	"streams":           {weir: 14, llama: 28, ik: 15},
	"prefill-4k":        {weir: 35, llama: 60, ik: 30},
	"streams-4k":        {weir: 25, llama: 480, ik: 160},
	"streams-4k-int8kv": {weir: 25, llama: 480, ik: 160},
}

// billions are the parameters of shapes that take another time; of experts, about as many as a few streams read.
var billions = map[string]float64{"qwen3-0.6b": 0.6, "llama-3.2-1b": 1.2, "llama-3.1-8b": 8, "qwen3-30b-a3b": 10, "gpt-oss-20b": 8, "qwen3.5-0.8b": 0.8}

func estimate(c cell, engine string, done *results) time.Duration {
	total, n := 0.0, 0
	for _, r := range done.list {
		if r.Cell == c.name() && r.Engine == engine {
			total, n = total+r.Seconds, n+1
		}
	}
	if n == 0 {
		total, n = seconds[c.unit.name][engine]*2/float64(min(c.threads, 2)), 1
		if b, ok := billions[c.shape]; ok {
			total *= b / 1.2
		}
	}
	return time.Duration(total / float64(n) * float64(time.Second))
}

func listCells(w io.Writer, cells []cell, engines []string, rounds func(cell) int, done *results) error {
	var sum time.Duration
	for _, c := range cells {
		var left time.Duration
		missing := 0
		for round := range rounds(c) {
			for _, e := range engines {
				if !done.has(c.name(), e, round) {
					left += estimate(c, e, done)
					missing++
				}
			}
		}
		sum += left
		if _, err := fmt.Fprintf(w, "%-42s %3d runs, about %v\n", c.name(), missing, left.Round(time.Second)); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "%-42s about %v\n", "all", sum.Round(time.Minute))
	return err
}

// machine describes the machine that this runs on.
func machine() string {
	model, memory := runtime.GOARCH, ""
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range bytes.Lines(info) {
			if key, value, ok := strings.Cut(string(line), ":"); ok && strings.TrimSpace(key) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	if info, err := os.ReadFile("/proc/meminfo"); err == nil {
		var kb int64
		if _, err := fmt.Sscanf(string(info), "MemTotal: %d kB", &kb); err == nil {
			memory = fmt.Sprintf(", %d GiB", kb>>20)
		}
	}
	return fmt.Sprintf("%d processors of %s%s, %s", runtime.NumCPU(), model, memory, runtime.GOOS)
}

// writeTable writes the tables of BENCHMARKS.md: the median of each rate in tokens per second over the rounds,
// with the range in brackets, and the shares of weir. A
// ratio is the median of the ratios of the rounds, so that what the runs of a round have in
// common, such as the memory's speed in that minute, cancels out.
func writeTable(w io.Writer, machine string, cells []cell, done *results) error {
	var b bytes.Buffer
	versions, first, last := summarize(cells, done)
	if first.IsZero() {
		return fmt.Errorf("none of these cells has been measured")
	}
	fmt.Fprintf(&b, "%s to %s; %s; %s; %s.\n", first.UTC().Format("2006-01-02 15:04"), last.UTC().Format("15:04 UTC"), machine,
		strings.Join(slices.Concat(versions[weir], versions[llama], versions[ik]), ", "), roundsText(cells, done))
	title := ""
	for _, c := range cells {
		n := done.rounds(c.name())
		if n == 0 {
			continue
		}
		if t := fmt.Sprintf("%s, %s, %s", c.shape, c.kind, plural(c.threads, "thread")); t != title {
			title = t
			fmt.Fprintf(&b, "\n| %s | weir | llama.cpp | ik_llama.cpp | × llama.cpp | × ik_llama.cpp | read | int8 | floor |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|\n", title)
		}
		for _, row := range c.unit.rowNames() {
			writeRow(&b, c, row, n, done)
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

// roundsText says how many rounds the cells have.
func roundsText(cells []cell, done *results) string {
	var least, most int
	for _, c := range cells {
		if n := done.rounds(c.name()); n > 0 {
			most = max(most, n)
			if least == 0 || n < least {
				least = n
			}
		}
	}
	if least < most {
		return fmt.Sprintf("%d to %s", least, plural(most, "round"))
	}
	return plural(most, "round")
}

// summarize returns which versions of each engine measured these cells, and when the first
// and the last run was.
func summarize(cells []cell, done *results) (versions map[string][]string, first, last time.Time) {
	versions = map[string][]string{}
	for _, r := range done.list {
		if !slices.ContainsFunc(cells, func(c cell) bool { return c.name() == r.Cell }) {
			continue
		}
		if v := r.Engine + " " + r.Version; r.Version != "" && !slices.Contains(versions[r.Engine], v) {
			versions[r.Engine] = append(versions[r.Engine], v)
		}
		if first.IsZero() || r.Time.Before(first) {
			first = r.Time
		}
		if r.Time.After(last) {
			last = r.Time
		}
	}
	return versions, first, last
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// writeRow writes a row of the table.
func writeRow(b *bytes.Buffer, c cell, row string, rounds int, done *results) {
	rates, ratios, ours := map[string][]float64{}, map[string][]float64{}, [3][]float64{}
	for round := range rounds {
		mine := done.find(c.name(), weir, round)
		for _, e := range []string{weir, llama, ik} {
			r := done.find(c.name(), e, round)
			if r == nil {
				continue
			}
			rates[e] = append(rates[e], r.Rows[row])
			if mine != nil && r.Rows[row] > 0 {
				ratios[e] = append(ratios[e], mine.Rows[row]/r.Rows[row])
			}
		}
		if mine != nil {
			s := mine.Shares[row]
			for i, v := range []float64{s.Read, s.Products, s.Floor} {
				ours[i] = append(ours[i], v)
			}
		}
	}
	name := row
	if c.unit.context >= 1024 {
		name += fmt.Sprintf(" at %d", c.unit.context)
	}
	if c.unit.int8KV {
		name += ", int8 keys and values"
	}
	fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", name, rate(rates[weir]), rate(rates[llama]), rate(rates[ik]),
		times(ratios[llama]), times(ratios[ik]), percent(ours[0]), percent(ours[1]), percent(ours[2]))
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	n := len(s)
	return (s[(n-1)/2] + s[n/2]) / 2
}

func rate(v []float64) string {
	if len(v) == 0 {
		return "–"
	}
	digits := 1
	if median(v) >= 100 {
		digits = 0
	}
	return fmt.Sprintf("%.*f (%.*f–%.*f)", digits, median(v), digits, slices.Min(v), digits, slices.Max(v))
}

func times(v []float64) string {
	if len(v) == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f", median(v))
}

func percent(v []float64) string {
	if len(v) == 0 {
		return "–"
	}
	return fmt.Sprintf("%.0f %%", 100*median(v))
}
