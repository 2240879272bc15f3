package bench

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// drawn are n prompts of a data set, whose tokens are its words.
func drawn(t *testing.T, data Data, n int, seed, variant uint64) []Prompt {
	t.Helper()
	if err := data.validate(); err != nil {
		t.Fatal(err)
	}
	list, err := data.draw(n, &drawing{seed, variant, func(text string) int { return len(strings.Fields(text)) }})
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != n {
		t.Fatalf("%d prompts, not %d", len(list), n)
	}
	return list
}

// TestRandom: random prompts have the lengths that were asked for, and share the prefix and
// nothing else.
func TestRandom(t *testing.T) {
	data := Random{InputLen: 20, OutputLen: 10, PrefixLen: 5, RangeRatio: 0.5}
	list := drawn(t, data, 210, 0, 0)
	ins, outs := map[int]bool{}, map[int]bool{}
	seen := map[string]bool{}
	for _, p := range list {
		w := strings.Fields(p.Text)
		ins[len(w)-5], outs[p.OutputLen] = true, true
		if !strings.HasPrefix(p.Text, strings.Join(strings.Fields(list[0].Text)[:5], " ")+" ") || seen[p.Text] {
			t.Fatalf("%q", p.Text)
		}
		seen[p.Text] = true
	}
	within := func(m map[int]bool, low, high int) bool {
		for n := range m {
			if n < low || n > high {
				return false
			}
		}
		return m[low] && m[high]
	}
	if !within(ins, 10, 30) || !within(outs, 5, 15) {
		t.Errorf("in %v, out %v", ins, outs)
	}
}

// TestDataSeeds: every data set that makes prompts up depends on the seed alone; another variant has
// other words and the same lengths.
func TestDataSeeds(t *testing.T) {
	trace, err := ReadTrace(strings.NewReader(`{"timestamp":0,"input_length":30,"output_length":5,"hash_ids":[1]}`+"\n"+`{"timestamp":9,"input_length":7,"output_length":6}`), 1)
	if err != nil {
		t.Fatal(err)
	}
	structured := DefaultStructured()
	structured.Kind = "json-unique"
	for name, data := range map[string]Data{
		"random": Random{InputLen: 9, OutputLen: 9, RangeRatio: 0.4}, "prefix": DefaultPrefixRepetition(), "sonnet": DefaultSonnet(),
		"conversations": DefaultConversations(), "structured": structured, "trace": trace,
	} {
		n := 20
		if name == "trace" {
			n = trace.Len()
		}
		list := drawn(t, data, n, 7, 0)
		if !reflect.DeepEqual(list, drawn(t, data, n, 7, 0)) {
			t.Errorf("%s: the same seed, other prompts", name)
		}
		for _, p := range drawn(t, data, n, 8, 0) {
			if strings.Contains(fmt.Sprint(list), p.Text) {
				t.Errorf("%s: another seed, the same prompt %q", name, p.Text)
			}
		}
		for i, p := range drawn(t, data, n, 7, 1) {
			if p.Text == list[i].Text || name != "sonnet" && len(strings.Fields(p.Text)) != len(strings.Fields(list[i].Text)) || p.OutputLen != list[i].OutputLen || p.Think != list[i].Think {
				t.Errorf("%s: the variant of %q is %q", name, list[i].Text, p.Text)
			}
		}
	}
}

// TestPrefixRepetition: each prefix begins as many prompts as every other, and prompts differ.
func TestPrefixRepetition(t *testing.T) {
	data := PrefixRepetition{PrefixLen: 6, SuffixLen: 4, OutputLen: 3, Prefixes: 4}
	count, seen := map[string]int{}, map[string]bool{}
	for _, p := range drawn(t, data, 40, 1, 0) {
		w := strings.Fields(p.Text)
		if len(w) != 10 || p.OutputLen != 3 || seen[p.Text] {
			t.Fatalf("%q", p.Text)
		}
		seen[p.Text] = true
		count[strings.Join(w[:6], " ")]++
	}
	if len(count) != 4 {
		t.Errorf("%v", count)
	}
	for prefix, n := range count {
		if n != 10 {
			t.Errorf("%q begins %d", prefix, n)
		}
	}
}

// TestSonnet: prompts have about the length that was asked for, begin alike, and are poems that rhyme.
func TestSonnet(t *testing.T) {
	list := drawn(t, DefaultSonnet(), 20, 3, 0)
	for _, p := range list {
		lines := strings.SplitAfter(strings.TrimSuffix(p.Text, "\n"), "\n")
		tokens := sonnetLeast
		for _, line := range lines[1:] {
			tokens += lineTokens(line)
		}
		if tokens < 500 || tokens > 600 || p.OutputLen != 150 || !strings.HasPrefix(p.Text, strings.Join(strings.SplitAfter(list[0].Text, "\n")[:10], "")) {
			t.Fatalf("%d tokens: %q", tokens, p.Text)
		}
	}
	if list[0].Text == list[1].Text {
		t.Error("two prompts are the same")
	}
	d := drawing{seed: 5}
	for range 50 {
		lines := sonnet(d.words())
		end := func(i int) string { return strings.Trim(lines[i], ",.\n")[strings.LastIndexByte(lines[i], ' ')+1:] }
		for _, pair := range [][2]int{{0, 2}, {1, 3}, {4, 6}, {5, 7}, {8, 10}, {9, 11}, {12, 13}} {
			if a, b := end(pair[0]), end(pair[1]); a == b || rhyme(a) != rhyme(b) {
				t.Fatalf("%q and %q in\n%s", a, b, strings.Join(lines, ""))
			}
		}
	}
	own := DefaultSonnet()
	own.Lines = []string{"one two three\n", "four five six\n"}
	if p := drawn(t, own, 1, 0, 0)[0]; !strings.HasPrefix(p.Text, sonnetTask+"one two three\n") {
		t.Errorf("%q", p.Text)
	}
}

// rhyme is the row of a word.
func rhyme(word string) int {
	for i, row := range sonnetRhymes {
		for _, w := range row {
			if w == word {
				return i
			}
		}
	}
	return -1
}

// TestConversationsData: the turns of a conversation follow each other, and people think for the time that was
// asked for, as a mean.
func TestConversationsData(t *testing.T) {
	c := DefaultConversations()
	list := drawn(t, c, 5000, 1, 0)
	var sum, n float64
	for i, p := range list {
		if p.Follows != (i%5 != 0) || !p.Follows && (p.Think != 0 || len(strings.Fields(p.Text)) != 400) || p.Follows && len(strings.Fields(p.Text)) != 50 {
			t.Fatalf("%d: %+v", i, p)
		}
		if p.Follows {
			sum, n = sum+p.Think.Seconds(), n+1
		}
	}
	if mean := sum / n; mean < 0.95 || mean > 1.05 {
		t.Errorf("they think for %v s", mean)
	}
	c.Even = true
	if p := drawn(t, c, 2, 1, 0)[1]; p.Think != c.Think {
		t.Errorf("%v", p.Think)
	}
}

// TestStructured: each kind of constraint has its fields, and as many requests as the ratio says have them.
func TestStructured(t *testing.T) {
	fields := map[string]string{"json": "response_format", "json-unique": "response_format", "regex": "structured_outputs", "choice": "structured_outputs", "grammar": "structured_outputs", "tools": "tools"}
	for _, kind := range StructuredKinds() {
		data := Structured{Kind: kind, InputLen: 5, OutputLen: 9, Ratio: 0.5}
		n, different := 0, map[string]bool{}
		for _, p := range drawn(t, data, 400, 2, 0) {
			if len(p.Fields) > 0 {
				n++
				different[string(p.Fields[fields[kind]])] = true
			}
		}
		if n < 160 || n > 240 || different[""] || (len(different) > 1) != (kind == "json-unique") {
			t.Errorf("%s: %d of 400 have constraints, %d different ones", kind, n, len(different))
		}
	}
}

// TestList: prompts of a file are used in turn, or in an order of the seed that keeps conversations together.
func TestList(t *testing.T) {
	data := List{Prompts: []Prompt{{Text: "a"}, {Text: "b", Follows: true}, {Text: "c"}, {Text: "d"}}}
	texts := func(list []Prompt) (s string) {
		for _, p := range list {
			s += p.Text
		}
		return s
	}
	if got := texts(drawn(t, data, 10, 1, 0)); got != "abcdabcdab" {
		t.Error(got)
	}
	data.Shuffle = true
	orders := map[string]bool{}
	for seed := range uint64(50) {
		got := texts(drawn(t, data, 4, seed, 0))
		if orders[got] = true; !strings.Contains(got, "ab") {
			t.Error(got)
		}
	}
	if len(orders) != 6 {
		t.Errorf("%v", orders)
	}
}

// TestReadPrompts: files are read line by line.
func TestReadPrompts(t *testing.T) {
	for text, want := range map[string]string{
		"{\"prompt\":\"a\",\"output_len\":3}\n\n {\"prompt\":\"b\",\"output_tokens\":1,\"x\":2}": "[a/3/ b/1/] <nil>",
		`{"prompt":"a"}`: "[a/77/] <nil>",
		`{"messages":[{"role":"user","content":"a"}],"max_tokens":5,"tools":[1],"extra_body":{"top_k":3}}`: `[[{"role":"user","content":"a"}]/5/map[tools:[1] top_k:3]] <nil>`,
		"":                               "[] bench: no prompts",
		`{"prompt":"a","output_len":-1}`: "[] bench: line 1 of the prompts needs a prompt or messages, and an output_len of at least 1",
		"{\"prompt\":\"\"}":              "[] bench: line 1 of the prompts needs a prompt or messages, and an output_len of at least 1",
		"\n{\"prompt\":1}":               "[] bench: line 2 of the prompts: json: cannot unmarshal number into Go struct field promptLine.prompt of type string",
		"{\"prompt\":\"a\",\"output_len": "[] bench: line 1 of the prompts: unterminated string at byte 25",
	} {
		list, err := ReadPrompts(strings.NewReader(text), 77)
		short := []string{}
		for _, p := range list {
			s := p.Text
			if len(p.Messages) > 0 {
				s = fmt.Sprintf("%s", p.Messages)
			}
			fields := ""
			if len(p.Fields) > 0 {
				fields = fmt.Sprintf("%s", p.Fields)
			}
			short = append(short, fmt.Sprintf("%s/%d/%s", s, p.OutputLen, fields))
		}
		if got := fmt.Sprint(short, err); got != want {
			t.Errorf("%q:\n%s, want\n%s", text, got, want)
		}
	}
}

// TestShareGPT: the first question and the length of the first answer are taken, within the limits of vLLM's
// benchmark.
func TestShareGPT(t *testing.T) {
	long := strings.Repeat("x ", 1500)
	text := fmt.Sprintf(`[{"conversations":[{"from":"human","value":"one two three four"},{"value":"five six seven eight nine"},{"value":"more"}]},
		{"conversations":[{"value":"one two three"},{"value":"five six seven eight nine"}]},
		{"conversations":[{"value":"one two three four five"},{"value":"short"}]},
		{"conversations":[{"value":"alone"}]}, {"x":1}, {"conversations":[{"value":%q},{"value":"five six seven eight nine"}]}]`, long)
	data, err := ReadShareGPT(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range drawn(t, data, 3, 0, 0) {
		if p.Text != "one two three four" || p.OutputLen != 5 {
			t.Errorf("%+v", p)
		}
	}
	data.OutputLen = 3
	seen := map[string]int{}
	for _, p := range drawn(t, data, 4, 0, 0) {
		seen[fmt.Sprint(p.Text, p.OutputLen)]++
	}
	if want := map[string]int{"one two three four3": 2, "one two three four five3": 2}; !reflect.DeepEqual(seen, want) {
		t.Errorf("%v", seen)
	}
	for _, bad := range []string{"", "{}", "[]", `[{"conversations":[{"value":"a"}]}]`} {
		if data, err := ReadShareGPT(strings.NewReader(bad)); err == nil {
			t.Errorf("%q: %+v", bad, data)
		}
	}
}

// TestTrace: the times and lengths of a trace are kept, and prompts share the blocks that have the same hash.
func TestTrace(t *testing.T) {
	trace, err := ReadTrace(strings.NewReader(`
		{"timestamp": 3052, "input_length": 9, "output_length": 7, "hash_ids": [0, 2]}
		{"timestamp": 1000, "input_length": 10, "output_length": 5, "hash_ids": [0, 1, 4]}
		{"timestamp": 4000, "prompt": "said", "output_len": 2}
		{"timestamp": 5000, "messages": [{"role":"user","content":"x"}], "max_tokens": 3, "tools": []}
		{"timestamp": 6000, "input_length": 3, "output_length": 1}`), 1e6)
	if err != nil {
		t.Fatal(err)
	}
	trace.BlockSize = 4
	list := drawn(t, trace, 5, 1, 0)
	var got []string
	for _, p := range list {
		got = append(got, fmt.Sprint(p.At, " ", len(strings.Fields(p.Text)), " ", p.OutputLen))
	}
	if want := "[0s 10 5 2.052s 9 7 3s 1 2 4s 0 3 5s 3 1]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
	a, b := strings.Fields(list[0].Text), strings.Fields(list[1].Text)
	if !reflect.DeepEqual(a[:4], b[:4]) || reflect.DeepEqual(a[4:8], b[4:8]) || list[2].Text != "said" || len(list[3].Messages) != 1 || list[3].Fields["tools"] == nil {
		t.Errorf("%q\n%q\n%+v", a, b, list[2:])
	}
	if _, err := trace.draw(6, &drawing{}); err == nil {
		t.Error("more requests than the trace has")
	}
	for text, want := range map[string]string{
		"":                                     "no requests",
		`{"input_length":1,"output_length":1}`: "line 1 of the trace needs a timestamp",
		`{"timestamp":-1,"input_length":1}`:    "timestamp",
		`{"timestamp":1e300,"input_length":1}`: "timestamp",
		`{"timestamp":1,"output_length":1}`:    "an input_length",
		`{"timestamp":1,"input_length":1,"output_length":-4}`: "an output_length",
		`{"timestamp":1,"prompt":"a","output_length":-4}`:     "output_len",
		`[`: "line 1 of the trace: ",
	} {
		if _, err := ReadTrace(strings.NewReader(text), 1e6); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestBurstGPT: rows of one model that were answered are taken.
func TestBurstGPT(t *testing.T) {
	const head = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
	text := head + "5,ChatGPT,472,18,490,Conversation log\n45.5,GPT-4,8,230,1317,Conversation log\n118,GPT-4,9,0,3,API log\n199,GPT-4,12,276,693,API log\n"
	for model, want := range map[string]string{"GPT-4": "[0s 8 230 2m33.5s 12 276]", "": "[0s 472 18 40.5s 8 230 3m14s 12 276]"} {
		trace, err := ReadBurstGPT(strings.NewReader(text), model)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range drawn(t, trace, trace.Len(), 0, 0) {
			got = append(got, fmt.Sprint(p.At, " ", len(strings.Fields(p.Text)), " ", p.OutputLen))
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%q: %v, want %s", model, got, want)
		}
	}
	for text, want := range map[string]string{
		"":                               "EOF",
		"a,b\n":                          "no column",
		head:                             "no requests",
		head + "x,GPT-4,1,1,1,\n":        "row 2",
		head + "1,GPT-4,x,1,1,\n":        "row 2",
		head + "1,GPT-4,1,x,1,\n":        "row 2",
		head + "-1,GPT-4,1,1,1,\n":       "row 2",
		head + "1,GPT-4,1\n":             "wrong number of fields",
		head + "1,GPT-4,99999999,1,1,\n": "row 2",
	} {
		if _, err := ReadBurstGPT(strings.NewReader(text), ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// FuzzReadTrace: no trace makes the readers panic, and what they accept can be drawn.
func FuzzReadTrace(f *testing.F) {
	f.Add(`{"timestamp": 0, "input_length": 10, "output_length": 5, "hash_ids": [0, 1]}`)
	f.Add("Timestamp,Model,Request tokens,Response tokens\n1,GPT-4,3,4\n")
	f.Add(`[{"conversations":[{"value":"a b c d"},{"value":"e"}]}]`)
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1000 {
			return
		}
		if trace, err := ReadTrace(strings.NewReader(text), 1e6); err == nil && len(trace.entries) < 10 && trace.entries[0].in < 1000 {
			if _, err := trace.draw(1, &drawing{}); err != nil {
				t.Error(err)
			}
		}
		if trace, err := ReadBurstGPT(strings.NewReader(text), ""); err == nil && trace.entries[0].in < 1000 {
			if _, err := trace.draw(1, &drawing{}); err != nil {
				t.Error(err)
			}
		}
		if s, err := ReadShareGPT(strings.NewReader(text)); err == nil {
			_, _ = s.draw(3, &drawing{count: func(text string) int { return len(text) }})
		}
		_, _ = ReadPrompts(strings.NewReader(text), 1)
	})
}
