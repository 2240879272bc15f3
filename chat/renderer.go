package chat

import (
	"errors"
	"fmt"
	"strings"

	"weir/api"
	"weir/chat/jinja"
	"weir/chat/reasoning"
	"weir/chat/toolcall"
	"weir/internal/memory"
)

// Renderer renders the prompts of one model.
type Renderer struct {
	cfg       Config
	templates map[string]*compiled
	defaults  *jinja.Dict
	cache     templateCache
	thinkTags *reasoning.Marks // with the suffix of the vocabulary
}

// compiled is a template with its properties that the renderer needs.
type compiled struct {
	*jinja.Template
	reads    map[string]bool  // names of the arguments that have an effect
	parts    bool             // with FormatAuto, content is a list of parts
	thinking reasoning.Kind   // the kind that reasoning.Auto means for this template
	calls    *toolcall.Format // of a model that this template is written for; nil: unknown
	// thinkTags says that it has the beginning of the tag that ends thoughts, whatever follows that.
	thinkTags bool
	// developer says that the template knows the role developer: it names it.
	developer bool
	// ownTools says that it reads tools in a message only, as text, and not those of the request.
	ownTools bool
	// names are the efforts of thought that it names.
	names map[string]bool
}

func compile(source string) (*compiled, error) {
	t, err := jinja.Compile(source)
	if err != nil {
		return nil, err
	}
	c := &compiled{Template: t, reads: map[string]bool{}, parts: t.IteratesContent(), thinking: reasoning.Auto.For(source), calls: toolcall.Detect(source)}
	c.thinkTags = strings.Contains(source, "</think")
	c.developer = strings.Contains(source, `"developer"`) || strings.Contains(source, `'developer'`)
	c.names = effortNames(source)
	for _, name := range t.Variables() {
		c.reads[name] = true
	}
	c.ownTools = !c.reads["tools"] && messageTools.MatchString(source)
	return c, nil
}

// New compiles the model's templates. If one does not compile, the error names it and wraps
// jinja.ErrSyntax.
func New(cfg Config) (*Renderer, error) {
	if cfg.ContentFormat > FormatOpenAI {
		return nil, fmt.Errorf("chat: unknown content format %d", cfg.ContentFormat)
	}
	if cfg.ResponseRole == "" {
		cfg.ResponseRole = "assistant"
	}
	r := &Renderer{cfg: cfg, templates: map[string]*compiled{}, defaults: jinja.NewDict(0), thinkTags: reasoning.Think.WithSuffix(cfg.ThinkSuffix)}
	for _, t := range cfg.Templates {
		name := t.Name
		if name == "" {
			name = defaultTemplate
		}
		if r.templates[name] != nil {
			return nil, fmt.Errorf("chat: two templates are named %q", name)
		}
		c, err := compile(t.Source)
		if err != nil {
			return nil, fmt.Errorf("chat: template %q: %w", name, err)
		}
		r.templates[name] = c
	}
	d, err := decodeObject(cfg.DefaultKwargs)
	if err != nil {
		return nil, fmt.Errorf("chat: default chat template kwargs: %w", err)
	}
	if d != nil {
		r.defaults = d
	}
	for _, name := range []string{"chat_template", "messages"} {
		if _, ok := r.defaults.Get(name); ok {
			return nil, fmt.Errorf("chat: default chat template kwargs must not hold %s", name)
		}
	}
	return r, nil
}

// Input is the part of a request that makes the prompt.
type Input struct {
	Messages  []api.Message
	Tools     api.Raw // nil: absent or null
	Documents api.Raw // nil: absent or null
	// AddGenerationPrompt is nil if the request does not have the field. It is then the
	// opposite of ContinueFinalMessage.
	AddGenerationPrompt  *bool
	ContinueFinalMessage bool
	ChatTemplate         *string // nil: absent or null
	ChatTemplateKwargs   api.Raw // a JSON object; nil: absent or null
	ReasoningEffort      *string // nil: absent or null

	// effort says that the request has an effort which the template does not take, and thinks
	// whether the model is to think.
	effort, thinks bool

	// Done stops the rendering soon after it was closed; nil: nothing does. The error then
	// wraps jinja.ErrStopped.
	Done <-chan struct{}
	// Reserve is that of jinja.Options, for each time that a template is rendered. A template
	// in the request, compiled, counts as well.
	Reserve func(bytes int64) bool
}

// Prompt is a rendered request.
type Prompt struct {
	Text string
	// ResponseRole is the role of the message that the model is to write.
	ResponseRole string
	// EchoText is what echo puts in front of the answer: the content of the last message
	// if that has the response role, otherwise "". EchoThought is the part of it that is
	// reasoning; EchoText is then the rest.
	EchoText, EchoThought string
	// Given is the content of the last message if that is the beginning of an answer that the
	// model continues, with its thoughts; otherwise "".
	Given string
	// Output says whether the model's output begins with reasoning or with content.
	Output reasoning.Start
	// Marks are those by which reasoning is told apart in this prompt and in the output.
	Marks *reasoning.Marks
	// Divided says that reasoning is told apart at all. Then Output may still be
	// reasoning.Content, because this prompt lets the model not think.
	Divided bool
	// Calls is the form in which the model writes calls of tools; nil: it is not known.
	Calls *toolcall.Format
}

// Render makes the prompt. Every error is an *Error.
func (r *Renderer) Render(in Input) (Prompt, error) {
	p, err := r.render(in)
	if err != nil {
		p, err = r.otherEffort(in, err)
	}
	if err == nil {
		return p, nil
	}
	var own *Error
	if errors.As(err, &own) {
		return Prompt{}, own
	}
	var tpl *jinja.Error
	if errors.As(err, &tpl) {
		return Prompt{}, &Error{tpl.Text, tpl}
	}
	return Prompt{}, &Error{err.Error(), err}
}

func (r *Renderer) render(in Input) (Prompt, error) {
	if len(in.Messages) == 0 {
		return Prompt{}, invalid("messages must hold at least one message.")
	}
	prompt := !in.ContinueFinalMessage
	if in.AddGenerationPrompt != nil {
		prompt = *in.AddGenerationPrompt
	}
	if prompt && in.ContinueFinalMessage {
		return Prompt{}, invalid(textBothPrompts)
	}
	kwargs, err := decodeObject(in.ChatTemplateKwargs)
	if err != nil {
		return Prompt{}, invalid("chat_template_kwargs: " + errorText(err))
	}
	if kwargs == nil {
		kwargs = jinja.NewDict(0)
	}
	a, err := r.arguments(in, kwargs)
	if err != nil {
		return Prompt{}, err
	}
	t, err := r.choose(&in, kwargs)
	if err != nil {
		return Prompt{}, err
	}
	setEffort(t, &in, a, kwargs)
	parts := r.cfg.ContentFormat == FormatOpenAI || r.cfg.ContentFormat == FormatAuto && t.parts
	conv, err := newConversation(in.Messages, parts)
	if err != nil {
		return Prompt{}, err
	}
	if t.thinking == reasoning.GPTOSS {
		conv.nameThinking()
	}
	if f := r.callFormat(t); f != nil && f.OwnIDs() {
		conv.renameCalls(f)
	}
	echoed := contentOf(conv.last)

	if !t.developer {
		conv.withoutDevelopers()
	}
	if err := r.giveTools(t, conv, a, &in); err != nil {
		return Prompt{}, err
	}

	last := in.Messages[len(in.Messages)-1]
	p := Prompt{ResponseRole: r.cfg.ResponseRole, Calls: r.callFormat(t)}
	if !prompt {
		p.ResponseRole = last.Role
	}
	if last.Role == p.ResponseRole {
		p.EchoText = echoed
	}
	if in.ContinueFinalMessage && last.Role == r.cfg.ResponseRole {
		p.Given = echoed
	}
	a.Set("add_generation_prompt", prompt)
	vars := r.variables(t, a)
	if in.ContinueFinalMessage {
		p.Text, err = r.prefill(t, vars, conv, &in)
	} else {
		vars.Set("messages", conv.messages())
		p.Text, err = r.run(t, vars, &in)
	}
	if err == nil {
		r.think(t, vars, conv, in, a, &p)
	}
	return p, err
}

// callFormat is the form in which a model with template t writes calls.
func (r *Renderer) callFormat(t *compiled) *toolcall.Format {
	if f := r.cfg.Calls; f != nil && (t.calls == nil || t.calls.Name() != f.Name()) {
		return f
	}
	return t.calls // a variant of what the configuration names, if it names one
}

func (r *Renderer) run(t *compiled, vars *jinja.Dict, in *Input) (string, error) {
	return t.Render(vars, jinja.Options{Limits: r.cfg.Limits, Now: r.cfg.Now, Done: in.Done, Reserve: in.Reserve})
}

// arguments merges the arguments of the template (docs/interface/chat-completions.md,
// section 3.5). Later ones override earlier ones: the server's defaults, the tools, the
// request's chat_template_kwargs, its top-level fields. Except in the defaults, null and
// "auto" count as not given.
func (r *Renderer) arguments(in Input, kwargs *jinja.Dict) (*jinja.Dict, error) {
	a := jinja.NewDict(8)
	a.Update(r.defaults)
	set := func(name string, v jinja.Value) {
		if v != nil && v != "auto" {
			a.Set(name, v)
		}
	}
	tools, err := decode("tools", in.Tools)
	if err != nil {
		return nil, err
	}
	set("tools", tools)
	if _, ok := kwargs.Get("messages"); ok {
		return nil, invalid("chat_template_kwargs must not hold messages.")
	}
	for name, v := range kwargs.All() {
		set(name, v)
	}
	documents, err := decode("documents", in.Documents)
	if err != nil {
		return nil, err
	}
	set("documents", documents)
	return a, nil
}

// choose finds the template (docs/interface/chat-completions.md, section 3.4). A template in
// the request, whether in the field or in the argument of that name, is accepted if the
// model has none, otherwise only with Config.TrustRequestTemplate.
func (r *Renderer) choose(in *Input, kwargs *jinja.Dict) (*compiled, error) {
	var source string
	argument, _ := kwargs.Get("chat_template")
	if argument != nil || in.ChatTemplate != nil {
		if len(r.templates) > 0 && !r.cfg.TrustRequestTemplate {
			return nil, &Error{textUntrusted, ErrUntrustedTemplate}
		}
		switch s, ok := argument.(string); {
		case in.ChatTemplate != nil && *in.ChatTemplate != "":
			source = *in.ChatTemplate
		case !ok && argument != nil:
			return nil, invalid("chat_template_kwargs: chat_template must be a string.")
		default:
			source = s
		}
	}
	if source != "" {
		if !in.reserveCompiled(source) {
			return nil, jinja.ErrStopped
		}
		return r.cache.get(source)
	}
	name := defaultTemplate
	if in.Tools != nil && string(in.Tools) != "null" && r.templates[toolTemplate] != nil {
		name = toolTemplate
	}
	if t := r.templates[name]; t != nil {
		return t, nil
	}
	return nil, &Error{textNoTemplate, ErrNoTemplate}
}

// reserveCompiled reserves the memory of a compiled template, which the request holds whether
// it is kept for others or not. What rendering takes comes on top of it.
func (in *Input) reserveCompiled(source string) bool {
	if in.Reserve == nil || len(source) > jinja.MaxSource { // such a one is refused
		return true
	}
	reserve, size := in.Reserve, compiledByte*int64(len(source))
	in.Reserve = func(n int64) bool { return reserve(size + n) }
	return reserve(size)
}

// SetMemory makes an account count the templates of requests that are kept for later requests.
// They are kept only where nobody else needs the memory. It is called once, before Render.
func (r *Renderer) SetMemory(account *memory.Account) { r.cache.setMemory(account) }

// consumed are the arguments that apply_chat_template of transformers uses itself, so that
// no template ever sees them.
var consumed = map[string]bool{
	"conversation": true, "chat_template": true, "continue_final_message": true, "tokenize": true, "padding": true,
	"truncation": true, "max_length": true, "return_tensors": true, "return_dict": true,
	"return_assistant_tokens_mask": true, "tokenizer_kwargs": true,
}

// variables makes the template's variables from its arguments. An argument that is neither
// a standard one nor read by the template is dropped.
func (r *Renderer) variables(t *compiled, a *jinja.Dict) *jinja.Dict {
	vars := jinja.NewDict(16)
	if r.cfg.SpecialTokens != nil {
		vars.Update(r.cfg.SpecialTokens)
	}
	vars.Set("tools", nil)
	vars.Set("documents", nil)
	for name, v := range a.All() {
		switch {
		case consumed[name]:
		case name == "tools", name == "documents", name == "add_generation_prompt", t.reads[name]:
			vars.Set(name, v)
		}
	}
	return vars
}

func decode(field string, raw api.Raw) (jinja.Value, error) {
	if raw == nil {
		return nil, nil
	}
	v, err := jinja.FromJSON(raw)
	if err != nil {
		return nil, invalid(field + ": " + errorText(err))
	}
	return v, nil
}

// decodeObject decodes a JSON object; nil if there is none.
func decodeObject(raw api.Raw) (*jinja.Dict, error) {
	if raw == nil {
		return nil, nil
	}
	v, err := jinja.FromJSON(raw)
	if err != nil {
		return nil, err
	}
	d, ok := v.(*jinja.Dict)
	if !ok && v != nil {
		return nil, errors.New("must be an object")
	}
	return d, nil
}

// errorText returns the text of an error without the prefix of its package.
func errorText(err error) string {
	var j *jinja.JSONError
	if errors.As(err, &j) {
		return j.Text
	}
	return strings.TrimPrefix(err.Error(), "jinja: ")
}
