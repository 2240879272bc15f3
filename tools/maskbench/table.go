package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"

	"weir/internal/jsontext"
)

// summary is what the table says: verdicts are counted, and times are kept, because
// percentiles need all of them.
type summary struct {
	names      []string
	schemas    int
	counts     []map[outcome]int
	undeclared []int // instances that are apart
	wrong      []int // other instances that are judged wrongly
	results    [][]*result
}

func newSummary(engines []engine) *summary {
	s := &summary{}
	for _, e := range engines {
		s.names = append(s.names, e.name())
		s.counts = append(s.counts, map[outcome]int{})
	}
	n := len(engines)
	s.undeclared, s.wrong, s.results = make([]int, n), make([]int, n), make([][]*result, n)
	return s
}

// add books what engine at did with the next schema.
func (s *summary) add(at int, v verdict, r *result) {
	if at == 0 {
		s.schemas++
	}
	s.counts[at][v.Outcome]++
	s.undeclared[at] += v.Undeclared
	s.wrong[at] += v.Wrong
	s.results[at] = append(s.results[at], r)
}

// times returns what f gives for the schemas that an engine takes; with common, for those
// that every engine takes.
func (s *summary) times(at int, common bool, f func(*result) []int64) (all []int64) {
	for i, r := range s.results[at] {
		if r.Error != "" || common && slices.ContainsFunc(s.results, func(of []*result) bool { return of[i].Error != "" }) {
			continue
		}
		all = append(all, f(r)...)
	}
	return all
}

// write writes the tables in Markdown.
func (s *summary) write(out io.Writer, o *options, about string) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\n\n| %d schemas | passed | passed but for undeclared properties | refused | a valid instance is rejected | an invalid instance is accepted | such instances: apart, other |\n|---|--:|--:|--:|--:|--:|--:|\n", about, s.schemas)
	for at, name := range s.names {
		c := s.counts[at]
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d | %d | %d, %d |\n", name, c[passed], c[undeclared], c[refused], c[rejected], c[accepted], s.undeclared[at], s.wrong[at])
	}
	b.WriteString("\nA schema passes if the engine takes it and judges every instance rightly. As served, properties that a schema does not declare are never produced: valid\n" +
		"instances that have some are counted apart. Such an instance is one that is accepted as JSON Schema says, and that, read byte after byte as served, is\n" +
		"rejected at the comma before a property or in its name.\n")
	if !o.coverage {
		b.WriteString("\nIn the table below, times are of the schemas that each engine takes, and then of those that all take. Each schema starts cold: weir has a new compiler for\n" +
			"each, and keeps its vocabulary with what all grammars share; llguidance keeps its tokenizer with its slices. *Compile and first mask* begins with the text of the\n" +
			"schema, *mask* is one fill, *accept* is one token; all without the Python around the call. weir runs with one processor and with its garbage collector as in a server.\n")
		for _, common := range []bool{false, true} {
			if common && len(s.names) > 1 || !common {
				s.writeTimes(&b, common)
			}
		}
	}
	_, err := out.Write(b.Bytes())
	return err
}

func (s *summary) writeTimes(b *bytes.Buffer, common bool) {
	title := "schemas that each takes"
	if common {
		title = "schemas that all take"
	}
	fmt.Fprintf(b, "\n| microseconds, %s | n | mean | p25 | p50 | p75 | p90 | p99 | p99.9 | p99.99 | max |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n", title)
	for _, row := range []struct {
		what string
		of   func(*result) []int64
	}{
		{"mask", func(r *result) []int64 { return r.Masks }},
		{"compile and first mask", func(r *result) []int64 { return []int64{r.First} }},
		{"accept", func(r *result) []int64 { return r.Commits }},
	} {
		for at, name := range s.names {
			fmt.Fprintf(b, "| %s: %s %s\n", row.what, name, distribution(s.times(at, common, row.of)))
		}
	}
}

// distribution is a row of the table, from the number of times on.
func distribution(ns []int64) string {
	if len(ns) == 0 {
		return "| 0 " + strings.Repeat("| – ", 9) + "|"
	}
	slices.Sort(ns)
	sum := int64(0)
	for _, t := range ns {
		sum += t
	}
	var b strings.Builder
	fmt.Fprintf(&b, "| %d | %s |", len(ns), micro(float64(sum)/float64(len(ns))))
	for _, p := range []float64{.25, .5, .75, .9, .99, .999, .9999, 1} {
		fmt.Fprintf(&b, " %s |", micro(float64(ns[min(len(ns)-1, int(p*float64(len(ns))))])))
	}
	return b.String()
}

// micro is nanoseconds in microseconds, with decimals if there are few.
func micro(ns float64) string {
	switch us := ns / 1000; {
	case us < 10:
		return fmt.Sprintf("%.2f", us)
	case us < 100:
		return fmt.Sprintf("%.1f", us)
	default:
		return fmt.Sprintf("%.0f", us)
	}
}

// line is what became of a schema in an engine, a line of the file of -lines.
type line struct {
	id, engine string
	verdict    verdict
	result     *result
}

// lineFile is the file of -lines. A nil one takes nothing.
type lineFile struct {
	f   *os.File
	w   *bufio.Writer
	err error
}

func newLineFile(path string) (*lineFile, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return &lineFile{f: f, w: bufio.NewWriter(f)}, nil
}

func (l *lineFile) add(of line) {
	if l == nil || l.err != nil {
		return
	}
	at, longest, sum := 0, int64(0), int64(0)
	for i, t := range of.result.Masks {
		if sum += t; t > longest {
			at, longest = i, t
		}
	}
	text, err := jsontext.Encode(struct {
		ID     string `json:"id"`
		Engine string `json:"engine"`
		verdict
		First   int64 `json:"first_ns,omitempty"`
		Masks   int   `json:"masks,omitempty"`
		Sum     int64 `json:"masks_ns,omitempty"`
		Longest int64 `json:"longest_mask_ns,omitempty"`
		At      int   `json:"longest_mask,omitempty"` // counted over all instances
	}{of.id, of.engine, of.verdict, of.result.First, len(of.result.Masks), sum, longest, at})
	if err == nil {
		_, err = l.w.Write(append(text, '\n'))
	}
	l.err = err
}

func (l *lineFile) close() error {
	if l == nil {
		return nil
	}
	return errors.Join(l.err, l.w.Flush(), l.f.Close())
}

// machine describes the processor.
func machine() string {
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range bytes.Lines(info) {
			if key, value, ok := strings.Cut(string(line), ":"); ok && strings.TrimSpace(key) == "model name" {
				return strings.TrimSpace(value)
			}
		}
	}
	return runtime.GOARCH
}
