package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"weir/chat"
	"weir/chat/toolcall"
	"weir/device/cpu"
	"weir/internal/jsontext"
	"weir/model"
)

const inspectAbout = `Prints what a model is and what it needs: architecture, parameters, types of the weights by kind of layer, context, memory for the weights and for keys and values, chat template, tokenizer, special tokens, and the formats of reasoning and of tool calls that its template shows. Flags of weir serve that change the types of weights are taken, so that the memory is what the server would take with them.

Only headers are read, never weights, but for the few of a classifier's head or of what makes a vector. Of a model of the hub that is not on this machine they are read from the hub, and nothing is kept. The exit status is 1 if weir serve would refuse the model: the last part of the table, "unsupported", says why. A model of an architecture that weir does not know is described as far as its files tell.`

// inspectOptions are the flags of weir inspect.
type inspectOptions struct {
	cpuOptions
	model modelOptions
	json  bool
}

func setupInspect(f *flagSet, env *environment) action {
	o := &inspectOptions{}
	o.bind(f)
	return func(args []string) error {
		dir, err := optionalModel("inspect", args)
		if err != nil {
			return err
		}
		x, err := o.inspectNamed(dir, env)
		if err != nil {
			return err
		}
		return errors.Join(x.print(env.out, o.json), x.refusal())
	}
}

func (o *inspectOptions) bind(f *flagSet) {
	f.BoolVar(&o.json, "json", false, "print JSON instead of a table")
	f.group("Model")
	f.StringVar(&o.model.tokenizer, "tokenizer", "", "`folder` with the tokenizer, tokenizer_config.json and chat template to use, or the name of a model on the hub that has them (default: the model's folder)")
	f.StringVar(&o.model.chatTemplate, "chat-template", "", "`file` with a chat template to use instead of the model's own, or the text of one")
	o.model.hub.bind(f)
	o.model.generationConfig, o.model.contentFormat, o.model.reasoningParser, o.model.callParser, o.model.responseRole = "auto", "auto", "auto", "auto", "assistant"
	f.group("Types")
	o.bindTypes(f)
	o.pin, o.kvDtype = cpu.PinNone, "auto"
}

// print prints the inspection as a table, or as JSON in one line.
func (x *inspection) print(w io.Writer, asJSON bool) error {
	if !asJSON {
		return x.write(w)
	}
	text, err := jsontext.Encode(x)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", text)
	return err
}

// refusal is the error of a model that cannot be served, nil if it can.
func (x *inspection) refusal() error {
	if len(x.Unsupported) == 0 {
		return nil
	}
	return errors.New("the model cannot be served: " + x.Unsupported[0])
}

// An inspection is what weir inspect says of a model. Its JSON is part of the command line's
// interface: members are added, and not renamed.
type inspection struct {
	Model        string `json:"model"`
	Format       string `json:"format,omitempty"` // safetensors or GGUF
	Architecture string `json:"architecture,omitempty"`
	// Parameters are the stored numbers that the network uses, ActiveParameters those that a
	// token meets: of the experts of a layer only some are computed for it.
	Parameters       int64           `json:"parameters"`
	ActiveParameters int64           `json:"active_parameters"`
	StoredBytes      int64           `json:"stored_bytes"`
	Context          int             `json:"context,omitempty"`
	Sizes            *networkSizes   `json:"sizes,omitempty"`
	Layers           []layerKind     `json:"layers"`
	Memory           *memoryNeed     `json:"memory,omitempty"`
	Template         *templateFacts  `json:"chat_template"` // null: there is none
	Tokenizer        *tokenizerFacts `json:"tokenizer"`     // null: it cannot be read
	SpecialTokens    []specialToken  `json:"special_tokens"`
	Reasoning        string          `json:"reasoning_format"` // "": none was found
	Tools            string          `json:"tool_format"`      // "": none was found
	Notes            []string        `json:"notes"`
	Unsupported      []string        `json:"unsupported"`
}

// networkSizes are the sizes of a supported network.
type networkSizes struct {
	Layers       int  `json:"layers"`
	Hidden       int  `json:"hidden"`
	Intermediate int  `json:"intermediate"`
	Heads        int  `json:"heads"`
	KVHeads      int  `json:"kv_heads"`
	HeadDim      int  `json:"head_dim"`
	Vocabulary   int  `json:"vocabulary"`
	TiedHead     bool `json:"tied_head"` // the embedding is the head
	NoHead       bool `json:"no_head,omitempty"`
}

// memoryNeed is in bytes.
type memoryNeed struct {
	Weights     int64            `json:"weights"`     // packed, with these flags
	Mapped      int64            `json:"mapped"`      // read from the file while it is served
	Activations int64            `json:"activations"` // of a step of stepTokens tokens
	KVPer1000   map[string]int64 `json:"kv_per_1000_tokens"`
	State       int64            `json:"state,omitempty"` // of a sequence, beside its keys and values
}

type templateFacts struct {
	From  string `json:"from"`
	Bytes int    `json:"bytes"`
	Tools bool   `json:"tools"` // it shows tools to the model
}

type tokenizerFacts struct {
	Tokens  int `json:"tokens"`
	Special int `json:"special"`
}

// specialToken is a token with a role, such as eos_token or end (of an answer).
type specialToken struct {
	Role string `json:"role"`
	Text string `json:"text"`
	ID   int32  `json:"id"` // -1: the tokenizer does not have it
}

// stepTokens is how many tokens a step has by default on the CPU.
const stepTokens = 512

// inspect reads everything but weights. What keeps the model from being served is in the result; an error
// is only that there is nothing to be read.
func (o *inspectOptions) inspect(dir string) (*inspection, error) {
	x := &inspection{Notes: []string{}, Unsupported: []string{}, Layers: []layerKind{}, SpecialTokens: []specialToken{}}
	s, err := openFiles(dir)
	if err != nil {
		return x, x.describeFiles(dir, err)
	}
	defer s.network.Close()
	x.Model = s.root
	scores, err := s.openHead(&o.model)
	if err != nil {
		x.refuse(fmt.Errorf("%s: %w", s.root, err))
		scores = nil
	}
	o.describeNetwork(x, s.network)
	o.describeTexts(x, s, scores)
	return x, nil
}

// refuse notes why the model cannot be served.
func (x *inspection) refuse(err error) {
	if err != nil {
		x.Unsupported = append(x.Unsupported, err.Error())
	}
}

// describeNetwork describes a network that weir knows.
func (o *inspectOptions) describeNetwork(x *inspection, m *model.Model) {
	c := &m.Config
	x.Format = "safetensors"
	if m.GGUF() != nil {
		x.Format = "GGUF"
	}
	x.Architecture, x.Context = c.Architecture, c.MaxSeqTokens
	x.Sizes = &networkSizes{c.Layers, c.Hidden, c.Intermediate, c.Heads, c.KVHeads, c.HeadDim, c.VocabSize, c.TiedHead, c.Network.Head == model.NoHead}
	x.Parameters, x.ActiveParameters, x.StoredBytes = m.Parameters(), m.ActiveParameters(), m.WeightBytes()
	cfg, _, err := o.config()
	if err != nil {
		x.refuse(err)
		return
	}
	var kinds layerKinds
	for _, t := range m.Tensors() {
		kinds.add(&t)
	}
	x.Memory = &memoryNeed{Activations: c.ActivationBytes(stepTokens), State: c.StateBytes(), KVPer1000: map[string]int64{}}
	for _, matrix := range m.Matrices() {
		n, err := cfg.MatrixBytes(matrix)
		x.refuse(err)
		x.Memory.Weights += n
		for _, t := range matrix.Rows {
			if matrix.Use == model.Embedding {
				x.Memory.Mapped += storedBytes(&t)
			}
		}
	}
	x.Layers = kinds.list()
	for name, f := range cacheFormats {
		if perToken, err := cacheBytes(c, f, 0); err == nil { // int8 is not for all
			x.Memory.KVPer1000[name] = 1000 * perToken
		}
	}
	lines, err := o.checkQuantized(quantizedTensors(m), cfg)
	x.refuse(err)
	x.Notes = append(x.Notes, lines...)
}

// describeTexts describes what turns messages into tokens and back. scores are what is known of a model that scores; nil: it is wrong.
func (o *inspectOptions) describeTexts(x *inspection, s *source, scores *reranker) {
	if _, err := s.openVocabulary(&o.model); err != nil {
		x.refuse(err)
		if !isFolder(s.root) && s.network.GGUF() != nil {
			return // what a GGUF file says of texts cannot be read without its tokenizer
		}
	} else {
		x.Tokenizer = &tokenizerFacts{Tokens: s.tokenizer.VocabSize()}
		for id := range s.tokenizer.VocabSize() {
			if s.tokenizer.IsSpecial(int32(id)) {
				x.Tokenizer.Special++
			}
		}
		x.refuse(s.checkCase())
		if scores != nil {
			x.refuse(s.openScores(scores, &o.model))
		}
	}
	_, eos, err := openChat(s.texts, "", &o.model)
	x.refuse(err)
	template, from, special := o.template(s.texts)
	if s.network.GGUF() != nil && o.model.tokenizer == "" && from == "tokenizer_config.json" {
		from = "in the file" // as openEmbedded has made it
	}
	x.describeTemplate(template, from)
	for _, t := range special {
		t.ID = s.idOf(t.Text)
		x.SpecialTokens = append(x.SpecialTokens, t)
	}
	if s.tokenizer == nil {
		return
	}
	g, err := s.generation(&o.model, eos)
	x.refuse(err)
	for _, id := range append([]int32{g.EOS}, g.Stop...) {
		if id >= 0 {
			x.SpecialTokens = append(x.SpecialTokens, specialToken{"end of an answer", s.tokenizer.Token(id), id})
		}
	}
}

// idOf is the id of a token, -1 if there is none.
func (s *source) idOf(text string) int32 {
	if s.tokenizer != nil {
		if id, ok := s.tokenizer.ID(text); ok {
			return id
		}
	}
	return -1
}

// template returns the chat template in use, "" if there is none, where it comes from, and the
// special tokens that tokenizer_config.json names. Files that are wrong have been refused before.
func (o *inspectOptions) template(files fs.FS) (text, from string, special []specialToken) {
	if src, found, err := readOptional(files, "tokenizer_config.json"); err == nil && found {
		if t, err := chat.ParseTokenizerConfig(src); err == nil {
			if len(t.Templates) > 0 {
				text, from = t.Templates[0].Source, "tokenizer_config.json"
			}
			for name, v := range t.SpecialTokens.All() {
				if token, ok := v.(string); ok {
					special = append(special, specialToken{Role: name, Text: token})
				}
			}
		}
	}
	if own, where, err := templatesInUse(files, o.model.chatTemplate); err == nil && len(own) > 0 {
		text, from = own[0].Source, where
	}
	return text, from, special
}

func (x *inspection) describeTemplate(text, from string) {
	if text == "" {
		return
	}
	x.Template = &templateFacts{From: from, Bytes: len(text), Tools: strings.Contains(text, "tools")}
	x.Reasoning, x.Tools = found(text, reasoningFormats), ""
	if x.Template.Tools {
		x.Tools = toolFormat(text)
	}
}

// marker is a text by which a format is known, and what people call it.
type marker struct{ text, name string }

// found names the first format whose marker is in a template; "" if there is none.
func found(template string, formats []marker) string {
	for _, m := range formats {
		if strings.Contains(template, m.text) {
			return m.name
		}
	}
	return ""
}

// reasoningFormats are the ways in which templates mark thoughts.
var reasoningFormats = []marker{
	{"</think>", "think tags"},
	{"[/THINK]", "[THINK] tags"},
	{"</seed:think>", "seed:think tags"},
	{"<|channel|>", "channels of the harmony format"},
	{"<|END_THINKING|>", "THINKING tokens (Cohere)"},
	{"<channel|>", "thought channel (Gemma 4)"},
	{"<|inner_suffix|>", "inner_prefix and inner_suffix tokens (Apertus)"},
	{"◁/think▷", "◁think▷ tags"},
	{"Here is my thought process:", "sentences (Granite)"},
}

// toolFormats are the ways in which families write calls of tools, by the names that
// --tool-call-parser takes. Others are known by their name alone.
var toolFormats = map[string]string{
	"hermes":         "JSON in <tool_call> (Hermes)",
	"qwen3_coder":    "XML in <tool_call> (Qwen3-Coder)",
	"glm45":          "XML in <tool_call> (GLM)",
	"mistral":        "[TOOL_CALLS] (Mistral)",
	"llama3_json":    "JSON without a tag (Llama 3)",
	"deepseek_v3":    "<｜tool▁calls▁begin｜> (DeepSeek)",
	"deepseek_v31":   "<｜tool▁calls▁begin｜> (DeepSeek V3.1)",
	"kimi_k2":        "<|tool_calls_section_begin|> (Kimi)",
	"openai":         "channels of the harmony format",
	"granite":        "<|tool_call|> or <tool_call> (Granite)",
	"phi4_mini_json": "functools or <|tool_call|> (Phi)",
	"pythonic":       "calls in Python",
	"lfm2":           "calls in Python in <|tool_call_start|> (LFM2)",
	"gemma4":         "<|tool_call> (Gemma 4)",
	"minimax_m2":     "XML in <minimax:tool_call> (MiniMax)",
}

// toolFormat describes the form in which a model with the given chat template calls tools, which is
// the one that weir serve reads; "" if it is not known.
func toolFormat(template string) string {
	f := toolcall.Detect(template)
	if f == nil {
		return ""
	}
	return or(toolFormats[f.Name()], f.Name())
}
