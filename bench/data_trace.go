package bench

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/internal/jsontext"
)

// Trace are requests with the times at which they came to a server once, of which most traces know only the
// lengths. Words are made up for them.
type Trace struct {
	entries   []traceEntry
	BlockSize int // tokens of the block of a prompt that a hash stands for
}

// traceEntry is a request of a trace.
type traceEntry struct {
	at     time.Duration
	in     int
	hashes []int64 // of its blocks: equal blocks of different prompts have equal hashes
	prompt Prompt  // with a text or messages if the trace has them
}

// mooncakeBlock is the size of a block in Mooncake's traces.
const mooncakeBlock = 512

// Len is the number of requests in the trace.
func (t Trace) Len() int { return len(t.entries) }

// traceLine is a line of a timed file: one of Mooncake's traces (timestamp, input_length, output_length,
// hash_ids), or a line of a file of prompts with a timestamp.
type traceLine struct {
	promptLine
	Timestamp *float64 `json:"timestamp"`
	InputLong int      `json:"input_length"`
	Text      string   `json:"input_text"`
	Hashes    []int64  `json:"hash_ids"`
}

// ReadTrace reads a trace with a JSON object in each line: timestamp in units, output_length, and either
// input_length with or without hash_ids, as in Mooncake's traces, or what ReadPrompts reads.
func ReadTrace(r io.Reader, unit time.Duration) (Trace, error) {
	t := Trace{BlockSize: mooncakeBlock}
	err := eachLine(r, "trace", func(line []byte) error {
		var l traceLine
		if err := jsontext.Decode(line, &l); err != nil {
			return fmt.Errorf(": %w", err)
		}
		e, err := l.entry(unit)
		t.entries = append(t.entries, e)
		return err
	})
	if err != nil {
		return Trace{}, err
	}
	return t.sorted()
}

func (l *traceLine) entry(unit time.Duration) (e traceEntry, err error) {
	if l.Timestamp == nil || !(*l.Timestamp >= 0 && *l.Timestamp*float64(unit) < float64(maxSchedule)) {
		return e, errors.New(" needs a timestamp of at least 0")
	}
	e = traceEntry{at: time.Duration(*l.Timestamp * float64(unit)), in: l.InputLong, hashes: l.Hashes}
	l.Prompt = cmp.Or(l.Prompt, l.Text)
	if l.Prompt == "" && len(l.Messages) == 0 {
		e.prompt.OutputLen = l.outputLen(1)
		if e.in < 1 || e.in > maxPrompts || e.prompt.OutputLen < 1 || e.prompt.OutputLen > maxPrompts {
			return e, errors.New(" needs an input_length and an output_length of at least 1")
		}
		return e, nil
	}
	e.prompt, err = l.prompt(1)
	return e, err
}

// BurstGPT's columns (https://github.com/HPMLL/BurstGPT).
const (
	burstTime, burstModel, burstIn, burstOut = "Timestamp", "Model", "Request tokens", "Response tokens"
)

// ReadBurstGPT reads a CSV file of BurstGPT: Timestamp in seconds, Model, Request tokens, Response tokens.
// As in vLLM's benchmark, only rows of the model GPT-4 with an answer count, or of another model that is
// named; "" takes all.
func ReadBurstGPT(r io.Reader, model string) (Trace, error) {
	rows := csv.NewReader(r)
	rows.ReuseRecord = true
	head, err := rows.Read()
	if err != nil {
		return Trace{}, fmt.Errorf("bench: the trace: %w", err)
	}
	at := map[string]int{}
	for i, name := range head {
		at[strings.TrimSpace(strings.TrimPrefix(name, "\ufeff"))] = i
	}
	for _, name := range []string{burstTime, burstModel, burstIn, burstOut} {
		if _, ok := at[name]; !ok {
			return Trace{}, fmt.Errorf("bench: the trace has no column %q", name)
		}
	}
	t := Trace{BlockSize: mooncakeBlock}
	for n := 2; ; n++ {
		row, err := rows.Read()
		if err == io.EOF {
			return t.sorted()
		}
		if err != nil {
			return Trace{}, fmt.Errorf("bench: the trace: %w", err)
		}
		e, ok, err := burstEntry(row[at[burstTime]], row[at[burstIn]], row[at[burstOut]])
		if err != nil {
			return Trace{}, fmt.Errorf("bench: row %d of the trace: %w", n, err)
		}
		if ok && (model == "" || row[at[burstModel]] == model) {
			t.entries = append(t.entries, e)
		}
	}
}

func burstEntry(at, in, out string) (e traceEntry, ok bool, err error) {
	seconds, err := strconv.ParseFloat(at, 64)
	if err == nil && !(seconds >= 0 && seconds < maxSchedule.Seconds()) {
		err = fmt.Errorf("a time of %v seconds", seconds)
	}
	if err != nil {
		return e, false, err
	}
	if e.in, err = strconv.Atoi(in); err != nil {
		return e, false, err
	}
	if e.prompt.OutputLen, err = strconv.Atoi(out); err != nil {
		return e, false, err
	}
	if e.in > maxPrompts || e.prompt.OutputLen > maxPrompts {
		return e, false, fmt.Errorf("lengths of %d and %d tokens", e.in, e.prompt.OutputLen)
	}
	e.at = time.Duration(seconds * float64(time.Second))
	return e, e.in > 0 && e.prompt.OutputLen > 0, nil
}

// sorted brings a trace into the order of time, and lets it begin at 0.
func (t Trace) sorted() (Trace, error) {
	if len(t.entries) == 0 {
		return t, errors.New("bench: the trace has no requests")
	}
	slices.SortStableFunc(t.entries, func(a, b traceEntry) int { return cmp.Compare(a.at, b.at) })
	begin := t.entries[0].at
	for i := range t.entries {
		t.entries[i].at -= begin
	}
	return t, nil
}

func (t Trace) validate() error {
	if len(t.entries) == 0 || t.BlockSize < 1 {
		return fmt.Errorf("bench: a trace of %d requests with blocks of %d tokens", len(t.entries), t.BlockSize)
	}
	return nil
}

func (t Trace) draw(n int, d *drawing) ([]Prompt, error) {
	if n > len(t.entries) {
		return nil, fmt.Errorf("bench: the trace has %d requests, not %d", len(t.entries), n)
	}
	rnd, list := d.words(), make([]Prompt, n)
	for i := range list {
		e := &t.entries[i]
		list[i] = e.prompt
		list[i].At = e.at
		if e.prompt.Text == "" && len(e.prompt.Messages) == 0 {
			list[i].Text = t.text(e, rnd, d)
		}
	}
	return list, nil
}

// text makes up a prompt. The words of a block depend on its hash alone, so that prompts share what they
// shared in the trace.
func (t Trace) text(e *traceEntry, rnd *rand.Rand, d *drawing) string {
	var text []byte
	left := e.in
	for _, hash := range e.hashes {
		block := rand.New(rand.NewPCG(d.seed^uint64(hash)*0x9e3779b97f4a7c15, wordStream+d.variant))
		n := min(left, t.BlockSize)
		text, left = appendWords(text, n, block), left-n
	}
	return string(appendWords(text, left, rnd))
}
