package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strconv"
	"time"

	"weir/internal/jsontext"
)

// result is what one process measured, one line of the file of results.
type result struct {
	Cell    string             `json:"cell"`
	Engine  string             `json:"engine"`
	Round   int                `json:"round"`
	Time    time.Time          `json:"time"`
	Seconds float64            `json:"seconds"` // of the process
	Version string             `json:"version"`
	Rows    map[string]float64 `json:"tokens_per_second"` // by the names of rowNames
	Shares  map[string]shares  `json:"shares,omitempty"`  // of weir
}

// shares are the parts of the machine's limits that a row of weir reached.

type shares struct {
	Read     float64 `json:"read"`
	Products float64 `json:"products"`
	Floor    float64 `json:"floor"`
}

func prefillRow(n int) string { return fmt.Sprintf("prefill %d", n) }
func decodeRow(batch int) string {
	if batch == 1 {
		return "decode, 1 stream"
	}
	return fmt.Sprintf("decode, %d streams", batch)
}

// rowNames are the names of a unit's rows, in the order of the table.
func (u unit) rowNames() (names []string) {
	for _, n := range u.prefills {
		names = append(names, prefillRow(n))
	}
	if len(u.batches) == 0 && u.steps > 0 {
		names = append(names, decodeRow(1))
	}
	for _, n := range u.batches {
		names = append(names, decodeRow(n))
	}
	return names
}

// parseWeir reads the file that weir bench engine --json writes.
func (r *result) parseWeir(src []byte) error {
	var report struct {
		Version string `json:"version"`
		Rows    []struct {
			Phase    string  `json:"phase"`
			Batch    int     `json:"batch"`
			Context  int     `json:"context"`
			Rate     float64 `json:"tokens_per_second"`
			Read     float64 `json:"share_of_read_limit"`
			Products float64 `json:"share_of_peak_in_products"`
			Floor    float64 `json:"share_of_step_that_the_limits_allow"`
		} `json:"rows"`
	}
	if err := jsontext.Decode(src, &report); err != nil {
		return err
	}
	r.Version, r.Rows, r.Shares = report.Version, map[string]float64{}, map[string]shares{}
	for _, row := range report.Rows {
		name := decodeRow(row.Batch)
		if row.Phase == "prefill" {
			name = prefillRow(row.Context)
		}
		r.Rows[name], r.Shares[name] = row.Rate, shares{row.Read, row.Products, row.Floor}
	}
	return nil
}

// parseBench reads the output of llama-bench -o json.
func (r *result) parseBench(src []byte) error {
	var tests []struct {
		Commit string  `json:"build_commit"`
		Prompt int     `json:"n_prompt"`
		Gen    int     `json:"n_gen"`
		Rate   float64 `json:"avg_ts"`
	}
	if err := jsontext.Decode(src, &tests); err != nil {
		return err
	}
	r.Rows = map[string]float64{}
	for _, t := range tests {
		name := decodeRow(1)
		if t.Prompt > 0 {
			name = prefillRow(t.Prompt)
		}
		r.Version, r.Rows[name] = t.Commit, t.Rate
	}
	return nil
}

// batched is a line of llama-batched-bench's table:
//
//	|    PP |     TG |    B |   N_KV |   T_PP s | S_PP t/s |   T_TG s | S_TG t/s |      T s |    S t/s |
var batched = regexp.MustCompile(`(?m)^\|\s*\d+ \|\s*\d+ \|\s*(\d+) \|\s*\d+ \|\s*[\d.]+ \|\s*[\d.]+ \|\s*[\d.]+ \|\s*([\d.]+) \|`)

// parseBatched reads the decode rates from that table.
func (r *result) parseBatched(text string) error {
	r.Rows = map[string]float64{}
	for _, line := range batched.FindAllStringSubmatch(text, -1) {
		batch, err := strconv.Atoi(line[1])
		if err != nil {
			return err
		}
		if r.Rows[decodeRow(batch)], err = strconv.ParseFloat(line[2], 64); err != nil {
			return err
		}
	}
	return nil
}

// results are the results in a file, in its order.
type results struct{ list []result }

func readResults(path string) (*results, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &results{}, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	rs := &results{}
	for lines := bufio.NewScanner(f); ; {
		if !lines.Scan() {
			return rs, lines.Err()
		}
		var r result
		if err := jsontext.Decode(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", path, len(rs.list)+1, err)
		}
		rs.list = append(rs.list, r)
	}
}

// add appends r to the results, in memory and in the file.
func (rs *results) add(path string, r result) error {
	line, err := jsontext.Encode(r)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	rs.list = append(rs.list, r)
	return errors.Join(err, f.Close())
}

func (rs *results) has(cell, engine string, round int) bool {
	return rs.find(cell, engine, round) != nil
}

func (rs *results) find(cell, engine string, round int) *result {
	for i := range rs.list {
		if r := &rs.list[i]; r.Cell == cell && r.Engine == engine && r.Round == round {
			return r
		}
	}
	return nil
}

// rounds is how many rounds of a cell were begun.
func (rs *results) rounds(cell string) (n int) {
	for _, r := range rs.list {
		if r.Cell == cell {
			n = max(n, r.Round+1)
		}
	}
	return n
}
