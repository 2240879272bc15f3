package toolcall

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"weir/chat/reasoning"
	"weir/grammar"
)

// golden is testdata/golden.json: turns of assistants as the chat templates that are published
// with models write them (tools/golden/toolcalls.py).
type golden struct {
	Tools []struct {
		Name       string
		Parameters json.RawMessage
	}
	Families []goldenFamily
}

type goldenFamily struct {
	Format, Template string
	Turns            []goldenTurn
}

type goldenTurn struct {
	Name, Prompt, Turn string
	Content, Reasoning string
	Calls              []struct {
		Name      string
		Arguments json.RawMessage
	}
}

func readGolden(t *testing.T) (g golden, tools []Tool) {
	t.Helper()
	text, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &g); err != nil {
		t.Fatal(err)
	}
	for _, tool := range g.Tools {
		tools = append(tools, Tool{Name: tool.Name, Parameters: tool.Parameters})
	}
	return g, tools
}

// kind is how the family writes its thoughts, as it is found out by its template.
func (f *goldenFamily) kind() reasoning.Kind {
	var all strings.Builder
	for _, turn := range f.Turns {
		all.WriteString(turn.Prompt + turn.Turn)
	}
	return reasoning.Auto.For(all.String())
}

// divided is a turn without its thoughts.
func (g *goldenTurn) divided(kind reasoning.Kind) (thought, content string) {
	marks := kind.Marks()
	s := marks.New(kind.Start(marks.AtEnd(g.Prompt), false))
	s.KeepCalls()
	a, b := s.Next([]byte(g.Turn), true)
	return string(a), string(b)
}

// goldenFormat is the format of a family, in the variant whose calls its turns have.
func goldenFormat(t *testing.T, family *goldenFamily) *Format {
	t.Helper()
	f := format(t, family.Format)
	switch turn := family.Turns[0].Turn; {
	case family.Format == "longcat" && strings.Contains(turn, "<longcat_arg_key>"):
		return longcatTagged
	case f == phi4 && strings.HasPrefix(turn, "<|tool_call|>["):
		return phi4Tokens
	case f == phi4 && strings.HasPrefix(turn, "<|tool_call|>{"):
		return phi4Each
	case family.Format == "glm45" && strings.Contains(turn, "</arg_key><arg_value>"):
		return glmDense
	case family.Format != "mistral":
		return f
	case strings.Contains(turn, "[CALL_ID]"):
		return mistralIDs
	case !strings.Contains(turn, "[ARGS]"):
		return mistralOld
	}
	return f
}

// TestGolden: what the templates of all families make of conversations with calls is read back as
// the same thoughts, text and calls, however the turn is cut.
func TestGolden(t *testing.T) {
	g, tools := readGolden(t)
	for i := range g.Families {
		family := &g.Families[i]
		f, kind := goldenFormat(t, family), family.kind()
		if len(family.Turns) == 0 {
			t.Errorf("%s: no turns", family.Template)
		}
		for j := range family.Turns {
			turn := &family.Turns[j]
			thought, text := turn.divided(kind)
			content, calls := f.Split([]byte(text), tools)
			if strings.TrimSpace(thought) != turn.Reasoning || strings.TrimSpace(string(content)) != turn.Content {
				t.Errorf("%s, %s: %q\nthought %q, want %q, content %q, want %q", family.Template, turn.Name, turn.Turn, thought, turn.Reasoning, content, turn.Content)
			}
			if !sameCalls(t, calls, turn) {
				t.Errorf("%s, %s: %q\ncalls %s, want %s", family.Template, turn.Name, turn.Turn, shown(calls), turn.Calls)
			}
			checkPieces(t, f, text)
		}
	}
}

func sameCalls(t *testing.T, calls []Call, turn *goldenTurn) bool {
	t.Helper()
	if len(calls) != len(turn.Calls) {
		return false
	}
	for i, c := range calls {
		if want := turn.Calls[i]; c.Name != want.Name || !c.Complete || !reflect.DeepEqual(decoded(t, c.Arguments), decoded(t, want.Arguments)) {
			return false
		}
	}
	return true
}

// decoded is a JSON value whose numbers are as they were written.
func decoded(t *testing.T, text []byte) (v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Errorf("%s: %v", text, err)
	}
	return v
}

// other says of which turn of a template ("": of all) the grammar does not allow the spelling, and
// why not. The parser reads them all.
type other struct{ turn, why string }

var others = map[string]other{
	"ByteDance-Seed-OSS.jinja":                {"nested", "a dict and a list as Python prints them, whose strings could not be told from text; the prompt describes no such value"},
	"tool_chat_template_llama4_json.jinja":    {"two calls", "nothing stands between the objects; the template is vLLM's, and its prompt asks for one call"},
	"tool_chat_template_granite.jinja":        {"", "the JSON is indented; the template is vLLM's, and the model's own shows no calls"},
	"tool_chat_template_internlm2_tool.jinja": {"", "the arguments are called \"arguments\"; the template is vLLM's, and the model was trained with \"parameters\""},
}

// otherwise says why the grammar does not allow the spelling of a turn; "": it does.
func (f *goldenFamily) otherwise(turn *goldenTurn) string {
	if o := others[f.Template]; o.turn == "" || o.turn == turn.Name {
		return o.why
	}
	return ""
}

// checkOther checks that a turn has to be one of others.
func checkOther(t *testing.T, auto, required *grammar.Grammar, turn *goldenTurn, text, why string) {
	t.Helper()
	_, whole := accepts(auto, text)
	if _, also := accepts(required, text); whole && (also || turn.Content != "") {
		t.Errorf("%s: %q is allowed, so it is not to be listed as %q", turn.Name, text, why)
	}
}

// TestGoldenGrammar: the grammar of a format accepts what the templates of its families write. Line
// breaks at the very end are left out: it ends an answer with its last call.
func TestGoldenGrammar(t *testing.T) {
	g, tools := readGolden(t)
	for i := range g.Families {
		family := &g.Families[i]
		f, kind := goldenFormat(t, family), family.kind()
		auto := mustCompile(t, f, tools, Choice{Mode: Auto, Parallel: true}, "")
		required := mustCompile(t, f, tools, Choice{Mode: Required, Parallel: true}, "")
		for j := range family.Turns {
			turn := &family.Turns[j]
			text := turn.Turn
			if f.Whole() {
				text += "<|call|>"
			} else {
				_, text = turn.divided(kind)
				text = strings.TrimRight(text, "\n")
			}
			if why := family.otherwise(turn); why != "" {
				checkOther(t, auto, required, turn, text, why)
				continue
			}
			if n, whole := accepts(auto, text); !whole {
				t.Errorf("%s, %s, auto: %q is refused after %q", family.Template, turn.Name, text, text[:n])
			}
			if turn.Content != "" && !f.Whole() {
				continue
			}
			if n, whole := accepts(required, text); !whole {
				t.Errorf("%s, %s, required: %q is refused after %q", family.Template, turn.Name, text, text[:n])
			}
		}
	}
}

// TestVectorsDetect finds the formats out by the templates of the vectors (WEIR_VECTORS names
// their directory, see make vectors).
func TestVectorsDetect(t *testing.T) {
	dir := os.Getenv("WEIR_VECTORS")
	if dir == "" {
		t.Skip("WEIR_VECTORS is not set")
	}
	g, _ := readGolden(t)
	found := 0
	for i := range g.Families {
		family := &g.Families[i]
		source, err := os.ReadFile(filepath.Join(dir, "templates", "llamacpp", family.Template))
		if err != nil {
			continue
		}
		found++
		if f := Detect(string(source)); f != goldenFormat(t, family) {
			t.Errorf("%s: %+v, want %s", family.Template, f, family.Format)
		}
	}
	if found < 20 {
		t.Errorf("only %d templates", found)
	}
}
