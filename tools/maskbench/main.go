// Command maskbench runs MaskBench's schemas (github.com/guidance-ai/jsonschemabench, folder
// maskbench/data), as prepare.py wrote them, through package grammar.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"time"

	"weir/grammar"
	"weir/tokenizer"
)

type testCase struct {
	ID     string          `json:"id"`
	Schema json.RawMessage `json:"schema"`
	Tests  []struct {
		Text   string  `json:"text"`
		Tokens []int32 `json:"tokens"`
		Valid  bool    `json:"valid"`
	} `json:"tests"`
}

// result is what became of one schema.
type result struct {
	ID       string  `json:"id"`
	Error    string  `json:"error,omitempty"` // of compiling
	Wrong    string  `json:"wrong,omitempty"` // the first instance that was judged wrongly
	FirstUS  float64 `json:"first_us"`        // compiling and the first mask
	MaskUS   []int64 `json:"-"`
	Max      int64   `json:"max_ns"`
	MaxAfter string  `json:"max_after,omitempty"`
}

func main() {
	cases := flag.String("cases", "", "file that prepare.py wrote")
	tok := flag.String("tokenizer", "", "tokenizer.json")
	served := flag.Bool("served", false, "undeclared properties are never produced, as the server has it")
	match := flag.String("match", "", "only this id")
	text := flag.Bool("coverage", false, "no masks: instances are read byte after byte, which is much faster")
	out := flag.String("out", "", "file for a JSON line per schema")
	flag.Parse()
	if err := run(*cases, *tok, *match, *out, *served, *text); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func vocabulary(path string) (*grammar.Vocabulary, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	t, err := tokenizer.Load(data)
	if err != nil {
		return nil, err
	}
	tokens := make([][]byte, t.VocabSize())
	var eos []int32
	for i := range tokens {
		if !t.IsSpecial(int32(i)) {
			tokens[i] = t.Bytes(int32(i))
		}
	}
	for _, name := range []string{"<|eot_id|>", "<|end_of_text|>"} {
		if id, ok := t.ID(name); ok {
			eos = append(eos, id)
		}
	}
	return grammar.NewVocabulary(tokens, eos)
}

func run(cases, tok, match, out string, served, coverage bool) error {
	f, err := os.Open(cases)
	if err != nil {
		return err
	}
	defer f.Close()
	v, err := vocabulary(tok)
	if err != nil {
		return err
	}
	v.Warm()
	w := bufio.NewWriter(os.Stdout)
	if out != "" {
		o, err := os.Create(out)
		if err != nil {
			return err
		}
		defer o.Close()
		w = bufio.NewWriter(o)
	}
	defer w.Flush()
	s := bufio.NewScanner(f)
	s.Buffer(nil, 256<<20)
	var passed, refused, wrong int
	var first, masks []float64
	for s.Scan() {
		var c testCase
		if err := json.Unmarshal(s.Bytes(), &c); err != nil {
			return err
		}
		if match != "" && c.ID != match {
			continue
		}
		r := one(&c, v, served, coverage)
		switch {
		case r.Error != "":
			refused++
		case r.Wrong != "":
			wrong++
		default:
			passed++
		}
		if r.Error == "" {
			first = append(first, r.FirstUS)
			for _, m := range r.MaskUS {
				masks = append(masks, float64(m)/1000)
			}
		}
		line, _ := json.Marshal(r)
		w.Write(append(line, '\n'))
	}
	fmt.Fprintf(os.Stderr, "passed %d refused %d wrong %d\nfirst %s\nmask %s\n", passed, refused, wrong, quantiles(first), quantiles(masks))
	return s.Err()
}

func quantiles(t []float64) string {
	if len(t) == 0 {
		return "-"
	}
	slices.Sort(t)
	sum := 0.0
	for _, x := range t {
		sum += x
	}
	q := func(p float64) float64 { return t[min(len(t)-1, int(p*float64(len(t))))] }
	return fmt.Sprintf("n %d mean %.1f p25 %.1f p50 %.1f p75 %.1f p90 %.1f p99 %.1f p99.9 %.1f p99.99 %.1f max %.1f us", len(t), sum/float64(len(t)), q(.25), q(.5), q(.75), q(.9), q(.99), q(.999), q(.9999), q(1))
}

func one(c *testCase, v *grammar.Vocabulary, served, coverage bool) *result {
	r := &result{ID: c.ID}
	compiler, err := grammar.NewCompiler(v, grammar.DefaultConfig(), nil)
	if err != nil {
		panic(err)
	}
	mask := make([]uint32, (v.Size()+31)/32)
	start := time.Now()
	g, err := compiler.Compile(context.Background(), grammar.Spec{Kind: grammar.JSONSchema, Schema: c.Schema,
		Options: grammar.Options{DisableAdditionalProperties: served}})
	if err != nil {
		r.Error = err.Error()
		return r
	}
	if err := g.NewMatcher().Fill(mask); err != nil {
		r.Error = err.Error()
		return r
	}
	r.FirstUS = float64(time.Since(start).Nanoseconds()) / 1000
	for i, t := range c.Tests {
		m := g.NewMatcher()
		ok := true
		for k, id := range t.Tokens {
			if !coverage {
				start := time.Now()
				if err := m.Fill(mask); err != nil {
					r.Wrong = fmt.Sprintf("instance %d, token %d: %v", i, k, err)
					return r
				}
				d := time.Since(start).Nanoseconds()
				r.MaskUS = append(r.MaskUS, d)
				if d > r.Max {
					r.Max = d
					r.MaxAfter = fmt.Sprintf("instance %d, token %d", i, k)
				}
				if mask[id>>5]>>(id&31)&1 == 0 {
					ok = false
				}
			}
			if ok && !m.Accept(id) {
				ok = false
				if !coverage {
					r.Wrong = fmt.Sprintf("instance %d, token %d: Fill and Accept disagree", i, k)
					return r
				}
			}
			if !ok {
				if t.Valid && r.Wrong == "" {
					r.Wrong = fmt.Sprintf("valid instance %d is rejected at token %d of %.2000s", i, k, t.Text)
				}
				break
			}
		}
		if ok && !m.Done() {
			ok = false
			if t.Valid && r.Wrong == "" {
				r.Wrong = fmt.Sprintf("valid instance %d is not complete", i)
			}
		}
		if ok && !t.Valid {
			r.Wrong = fmt.Sprintf("INVALID instance %d is accepted: %.2000s", i, t.Text)
		}
	}
	return r
}
