package api

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A row of a table of fields: path, type or value, the rest.
var cells = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]+) \\|([^|]*)\\|$")

// A proof says which tests prove what a document says of a field.
type proof struct {
	holders string // fields of ChatRequest that hold what was sent
	tests   []string
}

// readProofs reads a file of proofs by section and field: lines of a field, the
// holders if there is such a column, and tests, separated by bars. The document
// has to have each of the fields.
func readProofs(t *testing.T, path, document string) map[string]map[string]proof {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	section, all := "", map[string]map[string]proof{}
	for line := range strings.Lines(string(text)) {
		if title, ok := strings.CutPrefix(line, "## "); ok {
			section = strings.TrimSpace(title)
			continue
		}
		columns := strings.Split(strings.TrimSpace(line), " | ")
		if line[0] == '#' || len(columns) < 2 {
			continue
		}
		if all[section] == nil {
			all[section] = map[string]proof{}
		}
		p := proof{tests: strings.Fields(columns[len(columns)-1])}
		if len(columns) == 3 {
			p.holders = columns[1]
		}
		all[section][columns[0]] = p
		if !strings.Contains(document, "| `"+columns[0]+"` |") {
			t.Errorf("%s: the document has no %s", path, columns[0])
		}
	}
	return all
}

// check fails unless there are tests, and all of them exist.
func (p proof) check(t *testing.T, tests map[string]bool, field string) {
	t.Helper()
	if len(p.tests) == 0 {
		t.Errorf("%s has no test", field)
	}
	for _, name := range p.tests {
		if !tests[name] {
			t.Errorf("%s: there is no %s", field, name)
		}
	}
}

// theTable is what follows a heading, up to the next one.
func theTable(t *testing.T, doc, heading string) string {
	t.Helper()
	_, text, ok := strings.Cut(doc, heading+"\n")
	if !ok {
		t.Fatalf("there is no %q", heading)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	return text
}

// TestInnerFieldsDocument: the second table of docs/interface/fields.md has every key that the
// decoders look up inside a field, and no other.
func TestInnerFieldsDocument(t *testing.T) {
	doc, err := os.ReadFile("../docs/interface/fields.md")
	if err != nil {
		t.Fatal(err)
	}
	inner := theTable(t, string(doc), "## Fields inside them")
	proofs := readProofs(t, "testdata/fields.txt", string(doc))[""]
	read := map[string]bool{}
	for _, key := range append(slices.Concat(slices.Collect(maps.Values(textKeys)), slices.Collect(maps.Values(mediaKeys))), constraintKeys[:]...) {
		read[key] = true
	}
	files, _ := filepath.Glob("*.go")
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		// x.Member("key"), case "key": key = value, {"key", &to}
		for _, re := range []string{`\.Member\("(\w+)"\)`, `case "(\w+)":\n\t+[\w.]+ = value`, `\{"(\w+)", &\w+\.\w+\}`} {
			for _, m := range regexp.MustCompile(re).FindAllSubmatch(src, -1) {
				read[string(m[1])] = true
			}
		}
	}
	if len(read) < 40 {
		t.Fatalf("only %d keys found in the decoders: %v", len(read), read)
	}
	tests, documented := testNames(t), map[string]bool{}
	for _, m := range cells.FindAllStringSubmatch(inner, -1) {
		path, null := m[1], strings.TrimSpace(m[3])
		if null != "yes" && null != "no" && null != "some" {
			t.Errorf("%s: null %q", path, null)
		}
		proofs[path].check(t, tests, path)
		key := path[strings.LastIndexByte(path, '.')+1:]
		if documented[key] = true; !read[key] && !strings.HasSuffix(key, "[]") {
			t.Errorf("%s: nobody reads that", path)
		}
		parent, _, _ := strings.Cut(path, ".")
		if !slices.ContainsFunc(fields, func(f field[*ChatRequest]) bool { return f.name == strings.TrimSuffix(parent, "[]") }) {
			t.Errorf("%s: there is no such field", path)
		}
	}
	for key := range read {
		if !documented[key] {
			t.Errorf("fields.md does not say what %q is", key)
		}
	}
}

// TestPartKeys: every media type is one, with and without its type.
func TestPartKeys(t *testing.T) {
	for typ, key := range mediaKeys {
		if !accept(t, `"messages":[{"role":"user","content":[{"type":"`+typ+`","`+key+`":"x"}]}]`).HasMedia() {
			t.Errorf("%s: no media", typ)
		}
		refuse(t, `"messages":[{"role":"user","content":[{"type":"`+typ+`"}]}]`, want{"messages", "messages[0].content[0]"})
		if typ == key && !accept(t, `"messages":[{"role":"user","content":[{"`+key+`":"x"}]}]`).HasMedia() {
			t.Errorf("%s alone: no media", key)
		}
	}
}

// TestInnerTypes: what no conformance row says of the fields inside others.
func TestInnerTypes(t *testing.T) {
	for _, function := range []string{`{"name":"f","description":5}`, `{"name":"f","parameters":[]}`, `{"name":"f","parameters":"{}"}`} {
		refuse(t, `"tools":[{"function":`+function+`}]`, want{"schema", "tools[0].function"})
	}
	for _, function := range []string{`{"name":"f","description":null,"parameters":null}`, `{"name":"f","description":"d","parameters":{},"strict":true}`} {
		if got := string(accept(t, `"tools":[{"function":`+function+`}]`).Tools); got != `[{"type":"function","function":`+function+`}]` {
			t.Errorf("%s: %s", function, got)
		}
	}
}

// TestResponsesDocument: the tables of docs/interface/responses.md are what the encoders write.
func TestResponsesDocument(t *testing.T) {
	doc, err := os.ReadFile("../docs/interface/responses.md")
	if err != nil {
		t.Fatal(err)
	}
	written := map[string]map[string]map[string]bool{} // section, path, type
	add := func(section string, body []byte) {
		t.Helper()
		if written[section] == nil {
			written[section] = map[string]map[string]bool{}
		}
		dec := json.NewDecoder(bytes.NewReader(body))
		dec.UseNumber()
		var v any
		if err := dec.Decode(&v); err != nil {
			t.Fatalf("%v: %s", err, body)
		}
		shape(written[section], "", v)
	}
	for _, r := range responses {
		add("chat.completion", AppendResponse(nil, r.meta, r.form, &r.r))
	}
	add("chat.completion", AppendResponse(nil, meta, Form{Reasoning: ReasoningContentOnly}, &Response{Choices: []Choice{{}}}))
	for _, tr := range transcripts() {
		for ev := range bytes.SplitSeq(tr.b, []byte("\n\n")) {
			if data, ok := bytes.CutPrefix(ev, []byte("data: {")); ok {
				section := "chat.completion.chunk"
				if bytes.HasPrefix(data, []byte(`"error"`)) {
					section = "error"
				}
				add(section, append([]byte{'{'}, data...))
			}
		}
	}
	add("error", ErrInternal().AppendJSON(nil))
	add("error", ErrModelNotFound("x").AppendJSON(nil))
	add("usage by project", AppendProjectUsage(nil, 1, []ProjectUsage{{}, {Project: "a/b"}}))

	tests, proofs := testNames(t), readProofs(t, "testdata/responses.txt", string(doc))
	for section, text := range sections(string(doc)) {
		compareTable(t, section, text, written[section])
		for _, m := range cells.FindAllStringSubmatch(text, -1) {
			proofs[section][m[1]].check(t, tests, section+" "+m[1])
		}
		delete(written, section)
	}
	for section := range written {
		t.Errorf("responses.md says nothing about %s", section)
	}
}

// compareTable compares the table of a section with the types that were written,
// by path.
func compareTable(t *testing.T, section, text string, written map[string]map[string]bool) {
	t.Helper()
	documented := map[string]bool{}
	for _, m := range cells.FindAllStringSubmatch(text, -1) {
		path, types := m[1], strings.Split(m[2], ", ")
		documented[path] = true
		for typ := range written[path] {
			if !slices.Contains(types, typ) {
				t.Errorf("%s: %s is documented as %v and was written as %s", section, path, types, typ)
			}
		}
		if n := len(written[path]); n != len(types) {
			t.Errorf("%s: %s is documented as %v, written were %v", section, path, types, written[path])
		}
	}
	for path := range written {
		if !documented[path] {
			t.Errorf("%s: %s is not documented", section, path)
		}
	}
}

// sections are the texts under the headings of a document.
func sections(doc string) map[string]string {
	all := map[string]string{}
	for _, part := range strings.Split(doc, "\n## ")[1:] {
		title, text, _ := strings.Cut(part, "\n")
		all[title] = text
	}
	return all
}

// shape notes the type of every value below v.
func shape(paths map[string]map[string]bool, path string, v any) {
	note := func(typ string) {
		if path == "" {
			return
		}
		if paths[path] == nil {
			paths[path] = map[string]bool{}
		}
		paths[path][typ] = true
	}
	switch v := v.(type) {
	case nil:
		note("null")
	case bool:
		note("boolean")
	case string:
		note("string")
	case json.Number:
		if strings.ContainsAny(v.String(), ".e") {
			note("number")
		} else {
			note("integer")
		}
	case []any:
		note("array")
		for _, e := range v {
			if m, ok := e.(map[string]any); ok && !strings.HasPrefix(path, "prompt_logprobs") {
				shape(paths, path+"[]", m)
				delete(paths, path+"[]") // the element's own fields say that it is an object
				continue
			}
			shape(paths, path+"[]", e)
		}
	case map[string]any:
		note("object")
		for key, e := range v {
			switch {
			case path == "kv_transfer_params":
				continue // not ours
			case path == "":
				shape(paths, key, e)
			case path == "prompt_logprobs[]":
				shape(paths, path+".<id>", e)
			default:
				shape(paths, path+"."+key, e)
			}
		}
	}
}
