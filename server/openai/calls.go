package openai

import (
	"crypto/rand"
	"encoding/binary"
	randv2 "math/rand/v2"
	"slices"
	"strings"

	"weir/api"
	"weir/chat"
	"weir/chat/reasoning"
	"weir/chat/toolcall"
)

// calling is what an answer needs whose model may call tools.
type calling struct {
	format *toolcall.Format
	tools  []toolcall.Tool
	strict []bool // by tool: its schema may not be loosened
	choice toolcall.Choice
	// constrained says that a grammar makes the calls obey the schemas of their tools.
	constrained bool
	before      int      // calls in the conversation so far
	seed        [32]byte // of the ids of the calls

	loosened []string // tools whose schema the compiler refuses: any object is allowed
}

// callModes are the modes of package toolcall.
var callModes = map[api.ChoiceMode]toolcall.Mode{
	api.ChoiceAuto: toolcall.Auto, api.ChoiceRequired: toolcall.Required, api.ChoiceFunction: toolcall.Function,
}

// unparsed is what the header X-Tools-Not-Parsed says.
const unparsed = "The form in which this model calls tools is not known: its calls remain text. The server's flag --tool-call-parser names it."

// calls returns what the answer to a request needs to call tools; nil: it calls none, or what
// it writes is not read.
func (s *Service) calls(q *api.ChatRequest, prompt *chat.Prompt, r *reply) (*calling, *api.Error) {
	if q.ToolChoice.Mode == api.ChoiceNone {
		return nil, nil
	}
	if prompt.Calls == nil {
		if q.ToolChoice.Mode != api.ChoiceAuto {
			return nil, api.ErrUnknownCalls()
		}
		r.setHeader("X-Tools-Not-Parsed", unparsed)
		return nil, nil
	}
	k := &calling{
		format: prompt.Calls, constrained: !s.cfg.UnconstrainedCalls,
		choice: toolcall.Choice{Mode: callModes[q.ToolChoice.Mode], Name: q.ToolChoice.Name, Parallel: q.ParallelToolCalls},
	}
	only := q.ToolChoice.Only
	for i := range q.Functions {
		f := &q.Functions[i]
		if only != nil && !slices.Contains(only, f.Name) {
			continue
		}
		k.tools = append(k.tools, toolcall.Tool{Name: f.Name, Parameters: f.Parameters})
		k.strict = append(k.strict, f.Strict)
	}
	k.constrained = k.constrained || k.choice.Mode != toolcall.Auto || only != nil || slices.Contains(k.strict, true)
	for i := range q.Messages {
		k.before += len(q.Messages[i].ToolCalls)
	}
	_, _ = rand.Read(k.seed[:]) // it never fails
	return k, nil
}

// constrains reports whether k, which may be nil, makes a grammar.
func (k *calling) constrains() bool { return k != nil && k.constrained }

// own lets go of the body of the request.
func (k *calling) own() {
	for i := range k.tools {
		t := &k.tools[i]
		t.Name, t.Parameters = strings.Clone(t.Name), slices.Clone(t.Parameters)
	}
	k.choice.Name = strings.Clone(k.choice.Name)
}

// size is what k holds, and the grammar's text while it is compiled.
func (k *calling) size() (n int64) {
	if k == nil {
		return 0
	}
	for i := range k.tools {
		n += 64 + 4*int64(len(k.tools[i].Name)+len(k.tools[i].Parameters))
	}
	return n
}

// alphabet is what ids are made of.
const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

// id is the id of a call of a choice. It is the same whenever it is asked for, so that an
// answer and its record have the same.
func (k *calling) id(choice, call int, name string) string {
	seed := k.seed
	binary.LittleEndian.PutUint64(seed[:], binary.LittleEndian.Uint64(seed[:])+uint64(choice))
	binary.LittleEndian.PutUint64(seed[8:], binary.LittleEndian.Uint64(seed[8:])+uint64(call))
	source := randv2.New(randv2.NewChaCha8(seed))
	return k.format.ID(func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = alphabet[source.IntN(len(alphabet))]
		}
		return string(b)
	}, name, k.before+call)
}

// split takes the calls out of the content of a whole choice.
func (k *calling) split(choice int, text []byte) (content []byte, calls []api.AnswerCall) {
	content, found := k.format.Split(text, k.tools)
	for i, c := range found {
		calls = append(calls, api.AnswerCall{ID: k.id(choice, i, c.Name), Name: c.Name, Arguments: string(c.Arguments)})
	}
	return content, calls
}

// finish is the finish_reason of a choice that has called a tool, and that ended for a reason. A
// choice whose only call was named by the request ends by stop, as OpenAI's and vLLM's do, and
// one that was cut says so.
func (k *calling) finish(reason string) string {
	if reason == api.FinishStop && k.choice.Mode != toolcall.Function {
		return api.FinishCalls
	}
	return reason
}

// divider takes the text of one choice apart, piece by piece: into thoughts, content and
// calls.
type divider struct {
	split  reasoning.Splitter
	parser *toolcall.Parser // nil: nothing is called
	called bool             // a call has begun

	text   []byte // content of a piece that has several parts of it
	deltas []api.CallDelta
}

func (a *chatAnswer) divider() divider {
	d := divider{split: a.marks.New(a.output)}
	if a.calls != nil {
		d.split.KeepCalls()
		d.parser = a.calls.format.NewParser(a.calls.tools)
	}
	return d
}

// plain reports that text is content as it is.
func (d *divider) plain() bool { return d.parser == nil && d.split.Answering() }

// next takes the next piece. Without a parser, content is all that is not thought; otherwise
// deltas are. What is returned is valid until next is called again.
func (d *divider) next(text []byte, last bool) (thought, content []byte, deltas []toolcall.Delta) {
	thought, content = d.split.Next(text, last)
	if d.parser == nil {
		return thought, content, nil
	}
	deltas = d.parser.Next(content, last)
	return thought, nil, deltas
}

// call is a delta of a call as it is sent.
func (d *divider) call(k *calling, choice int, c *toolcall.Delta) api.CallDelta {
	out := api.CallDelta{Index: c.Call, Name: c.Name, Arguments: c.Arguments, End: c.End}
	if c.Name != "" {
		d.called = true
		out.ID = k.id(choice, c.Call, c.Name)
	}
	return out
}

// joined is the content of deltas as one text, and their calls.
func (d *divider) joined(k *calling, choice int, deltas []toolcall.Delta) (content []byte, calls []api.CallDelta) {
	d.text, d.deltas = d.text[:0], d.deltas[:0]
	for i := range deltas {
		if c := &deltas[i]; c.Text != nil {
			d.text = append(d.text, c.Text...)
		} else {
			d.deltas = append(d.deltas, d.call(k, choice, c))
		}
	}
	return d.text, d.deltas
}
