package grammar

import (
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"
)

// recordGenerator draws schemas like those that services publish, and values for them:
// records with named properties, which are mostly strings, some of them bounded or with
// a pattern or format, enumerations, lists, nested records, and alternatives.
type recordGenerator struct {
	rng   *rand.Rand
	words []string
}

func newRecordGenerator(seed uint64) *recordGenerator {
	o := &recordGenerator{rng: rand.New(rand.NewPCG(seed, 3))}
	tokens, _ := syntheticTokens(20_000, false)
	for _, t := range tokens {
		if w := strings.TrimPrefix(string(t), " "); len(w) > 2 && len(w) < 10 && strings.Trim(w, "abcdefghijklmnopqrstuvwxyz") == "" {
			o.words = append(o.words, w)
		}
	}
	return o
}

// one is true once in so many times.
func (o *recordGenerator) one(in int) bool { return o.rng.IntN(in) == 0 }
func (o *recordGenerator) word() string    { return o.words[o.rng.IntN(len(o.words))] }

// text draws up to n words.
func (o *recordGenerator) text(n int) string {
	w := make([]string, 1+o.rng.IntN(n))
	for i := range w {
		if w[i] = o.word(); o.one(9) {
			w[i] = strings.ToUpper(w[i][:1]) + w[i][1:] + ","
		}
		if o.one(60) {
			w[i] += " – 日本語 \"né\""
		}
	}
	return strings.Join(w, " ")
}

// record returns a schema and a function that draws values of it.
func (o *recordGenerator) record(depth int) (obj, func() any) {
	n := 2 + o.rng.IntN(4+3*depth)
	props := &object{m: map[string]any{}}
	draw := map[string]func() any{}
	required := []any{}
	for range n {
		name := o.word()
		if o.one(3) {
			name += "_" + o.word()
		}
		if _, ok := props.m[name]; ok {
			continue
		}
		s, d := o.value(depth)
		props.keys, props.m[name], draw[name] = append(props.keys, name), s, d
		if o.one(2) {
			required = append(required, name)
		}
	}
	s := obj{"type": "object", "properties": props}
	if len(required) > 0 {
		s["required"] = required
	}
	open := false
	switch o.rng.IntN(4) {
	case 0, 1:
		s["additionalProperties"] = false
	case 2:
		open = true
	}
	return s, func() any {
		v := &object{m: map[string]any{}}
		for _, k := range props.keys {
			if slices.Contains(required, any(k)) || o.one(2) {
				v.keys, v.m[k] = append(v.keys, k), draw[k]()
			}
		}
		if open && o.one(3) {
			k := "x" + o.word()
			if _, ok := props.m[k]; !ok {
				v.keys, v.m[k] = append(v.keys, k), o.text(3)
			}
		}
		return v
	}
}

// value returns any schema and a function that draws values of it.
func (o *recordGenerator) value(depth int) (any, func() any) {
	k := o.rng.IntN(30)
	if depth == 0 {
		k = o.rng.IntN(20)
	}
	number := func(s string) func() any { return func() any { return numeral(s) } }
	fixed := func(s obj, v any) (any, func() any) { return s, func() any { return v } }
	switch k {
	case 0, 1, 2, 3, 4, 5:
		return obj{"type": "string", "description": o.text(8)}, func() any { return o.text(12) }
	case 6:
		return obj{"type": "string", "minLength": 1, "maxLength": 255}, func() any { return o.text(8) }
	case 7:
		n := 10 + o.rng.IntN(40)
		return obj{"type": "string", "maxLength": n}, func() any { return string([]rune(o.text(9))[:min(n, 3)]) + o.word()[:2] }
	case 8:
		return obj{"type": "string", "pattern": "^[a-zA-Z0-9_-]{1,64}$"}, func() any { return o.word() + "-" + o.word() + "_7" }
	case 9:
		return fixed(obj{"type": "string", "pattern": `^v\d+\.\d+\.\d+(-[a-z]+)?$`}, "v1.12.30-beta")
	case 10:
		f := [][2]string{{"date-time", "2024-05-17T09:30:00Z"}, {"uri", "https://example.org/a/b?c=d#e"}, {"email", "jo.bloggs@example.org"}, {"uuid", "123e4567-e89b-12d3-a456-426614174000"}, {"date", "1999-02-28"}}[o.rng.IntN(5)]
		return fixed(obj{"type": "string", "format": f[0]}, f[1])
	case 11, 12:
		list := make([]any, 2+o.rng.IntN(8))
		for i := range list {
			list[i] = o.word()
		}
		return obj{"type": "string", "enum": list}, func() any { return list[o.rng.IntN(len(list))] }
	case 13:
		return obj{"type": "integer"}, number(fmt.Sprint(o.rng.IntN(100000)))
	case 14:
		return obj{"type": "integer", "minimum": 0, "maximum": 65535}, number("8080")
	case 15:
		return obj{"type": "number", "minimum": 0, "maximum": 1}, number("0.25")
	case 16:
		return obj{"type": "number"}, number("-12.5e3")
	case 17, 18:
		return fixed(obj{"type": "boolean"}, true)
	case 19:
		return obj{"type": []any{"string", "null"}}, func() any { return o.text(4) }
	case 20, 21, 22:
		s, d := o.value(depth - 1)
		return obj{"type": "array", "items": s, "minItems": 1}, func() any {
			l := make([]any, 1+o.rng.IntN(3))
			for i := range l {
				l[i] = d()
			}
			return l
		}
	case 23:
		a, d := o.record(depth - 1)
		return obj{"anyOf": []any{a, obj{"type": "null"}}}, d
	case 24:
		s, d := o.value(depth - 1)
		return obj{"type": "object", "additionalProperties": s}, func() any {
			k := o.word()
			return &object{keys: []string{k}, m: map[string]any{k: d()}}
		}
	case 25:
		return obj{"type": "object"}, func() any {
			return &object{keys: []string{"a", "b"}, m: map[string]any{"a": o.text(3), "b": []any{numeral("1"), nil, o.word()}}}
		}
	}
	return o.record(depth - 1)
}

// plain turns maps into objects, which dumpJSON can write.
func plain(v any) any {
	switch v := v.(type) {
	case obj:
		o := &object{m: map[string]any{}}
		for k := range v {
			o.keys = append(o.keys, k)
		}
		slices.Sort(o.keys)
		for _, k := range o.keys {
			o.m[k] = plain(v[k])
		}
		return o
	case *object:
		o := &object{keys: v.keys, m: map[string]any{}}
		for k, e := range v.m {
			o.m[k] = plain(e)
		}
		return o
	case []any:
		l := make([]any, len(v))
		for i, e := range v {
			l[i] = plain(e)
		}
		return l
	case int:
		return numeral(fmt.Sprint(v))
	case float64:
		return numeral(fmt.Sprint(v))
	}
	return v
}

// encode cuts text into the longest tokens, as a tokenizer roughly would.
func encode(v *Vocabulary, ids map[string]int32, text string) []int32 {
	var res []int32
	for len(text) > 0 {
		n := min(len(text), 24)
		for ; n > 1; n-- {
			if _, ok := ids[text[:n]]; ok {
				break
			}
		}
		res = append(res, ids[text[:n]])
		text = text[n:]
	}
	return res
}

// times are measurements; row is their line in the table.
type times []time.Duration

func (t times) row(name string) string {
	slices.Sort(t)
	q := func(p float64) float64 { return float64(t[min(len(t)-1, int(p*float64(len(t))))].Nanoseconds()) / 1000 }
	sum := time.Duration(0)
	for _, d := range t {
		sum += d
	}
	return fmt.Sprintf("%-12s %8d %9.1f %9.1f %9.1f %9.1f %9.1f %9.1f %9.1f %9.1f", name, len(t), float64(sum.Nanoseconds())/1000/float64(len(t)), q(.25), q(.5), q(.75), q(.9), q(.99), q(.999), q(1))
}

// BenchmarkMasks prints what a mask costs, in microseconds (make bench-grammar). For
// each schema, nothing has been built but what all grammars of a vocabulary share.
//
// BENCHMARKS.md has the figures. The schemas have two patterns and a few bounds in
// common, whose shapes are shared. Before shapes of patterns were shared, the mean was
// 26 and p99.9 was 1,900.
func BenchmarkMasks(b *testing.B) {
	for _, size := range []int{128_256, 256_000} {
		b.Run(fmt.Sprintf("%dk", size/1000), func(b *testing.B) {
			// The heap of a server has a model in it, so its collector runs less often
			// than it would with the small heap of this benchmark.
			defer debug.SetGCPercent(debug.SetGCPercent(400))
			for range b.N {
				tokens, eos := syntheticTokens(size, false)
				start := time.Now()
				v, err := NewVocabulary(tokens, eos)
				if err != nil {
					b.Fatal(err)
				}
				load := time.Since(start)
				start = time.Now()
				v.Warm()
				warm := time.Since(start)
				ids := make(map[string]int32, size)
				for i, t := range tokens {
					ids[string(t)] = int32(i)
				}
				masks, first, accept := measure(b, v, ids)
				fmt.Printf("\n%d tokens: tables %v, warm-up %v; microseconds\n%-12s %8s %9s %9s %9s %9s %9s %9s %9s %9s\n%s\n%s\n%s\n", size, load.Round(time.Millisecond), warm.Round(time.Millisecond),
					"", "n", "mean", "p25", "p50", "p75", "p90", "p99", "p99.9", "max", masks.row("mask"), first.row("first mask"), accept.row("accept"))
			}
		})
	}
}

// measure times Fill and Accept for three texts of each of 400 schemas, and the first
// mask with compiling.
func measure(b *testing.B, v *Vocabulary, ids map[string]int32) (masks, first, accept times) {
	o := newRecordGenerator(11)
	mask := make([]uint32, v.words())
	for i := range 400 {
		s, draw := o.record(i % 4)
		text := []byte(dumpJSON(plain(s)))
		start := time.Now()
		g, err := compileFor(Spec{Kind: JSONSchema, Schema: text}, v)
		if err != nil {
			b.Fatalf("%s: %v", text, err)
		}
		if err := g.NewMatcher().Fill(mask); err != nil {
			b.Fatal(err)
		}
		first = append(first, time.Since(start))
		for range 3 {
			m := g.NewMatcher()
			doc := dumpJSON(plain(draw()))
			for _, id := range encode(v, ids, doc) {
				start := time.Now()
				if err := m.Fill(mask); err != nil {
					b.Fatal(err)
				}
				masks = append(masks, time.Since(start))
				start = time.Now()
				if mask[id>>5]>>(id&31)&1 == 0 || !m.Accept(id) {
					b.Fatalf("%s\n%s: token %q is not legal", text, doc, v.tokens[id])
				}
				accept = append(accept, time.Since(start))
			}
			if !m.Done() {
				b.Fatalf("%s\n%s: not complete", text, doc)
			}
		}
	}
	return masks, first, accept
}

func BenchmarkCompile(b *testing.B) {
	v := testVocabulary
	o := newRecordGenerator(11)
	var specs [][]byte
	size := 0
	for i := range 60 {
		s, _ := o.record(i % 4)
		specs = append(specs, []byte(dumpJSON(plain(s))))
		size += len(specs[len(specs)-1])
	}
	b.ReportMetric(float64(size)/60, "bytes/schema")
	states := 0
	for i := range b.N {
		g, err := compileFor(Spec{Kind: JSONSchema, Schema: specs[i%60]}, v)
		if err != nil {
			b.Fatal(err)
		}
		states += len(g.m.net.states)
	}
	b.ReportMetric(float64(states)/float64(b.N), "states")
}
