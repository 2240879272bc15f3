package api

import "slices"

// Options are the fields that mean the same wherever text is generated. Absent
// and null fields hold their defaults; a pointer is nil where the default is the
// model's or the server's to give, or where absence itself means something.
// Raw fields point into the body and are valid as long as it is.
type Options struct {
	Model string // "": the base model

	// Sampling. The model's generation_config fills the pointers that are nil.
	Temperature       *float64 // [0, 2]
	TopP              *float64 // (0, 1]
	TopK              *int     // -1 or 0: off
	MinP              *float64 // [0, 1]
	RepetitionPenalty *float64 // > 0
	FrequencyPenalty  float64  // [-2, 2]
	PresencePenalty   float64  // [-2, 2]
	LengthPenalty     float64  // of beam search, which nobody can ask for: no effect
	Seed              *int     // nil: none, which -1 says too
	N                 int      // choices, >= 1
	LogitBias         []TokenBias
	AllowedTokenIDs   []int    // nil: all; otherwise not empty
	BadWords          []string // none of them blank

	// What to report.
	Logprobs        bool  // of the generated tokens
	TopLogprobs     int   // alternatives per token; -1: the vocabulary
	LogprobTokenIDs []int // report these tokens, in place of the best TopLogprobs; nil: none
	PromptLogprobs  *int  // nil: none; 0: the prompt's own tokens; -1: the vocabulary. Set by echo too (docs/interface/chat-completions.md, section 3.8)

	// Stopping.
	MaxTokens           *int // any value while MaxCompletionTokens is given
	MaxCompletionTokens *int
	MinTokens           int
	Stop                []string // none of them empty
	StopTokenIDs        []int
	IncludeStop         bool // include_stop_str_in_output
	IgnoreEOS           bool
	RepetitionDetection *RepetitionDetection // nil: off
	ThinkingBudget      *int                 // thinking_token_budget: the most tokens of thought; nil: any number

	Constraint *Constraint // response_format or structured_outputs; nil: none

	// The answer's form.
	Stream               bool
	StreamInterval       int  // tokens in a chunk of a stream; 0: the server's default
	IncludeUsage         bool // a last chunk with the usage
	ContinuousUsage      bool // usage in every chunk; implies IncludeUsage
	Echo                 bool
	ReturnTokenIDs       bool
	ReturnTokensAsIDs    *bool // nil: the server's default
	SkipSpecialTokens    bool
	SpacesBetweenSpecial bool    // spaces_between_special_tokens
	RequestID            *string // nil: absent; "" is an id

	AddSpecialTokens bool
	TruncatePrompt   *int // truncate_prompt_tokens: so many tokens are kept; -1: as many as fit
	TruncateRight    bool // truncation_side right: the first ones are kept, otherwise the last ones

	Priority  int     // lower is sooner
	CacheSalt *string // not empty

	// Accepted for what may read them; nothing here does.
	User             string
	KVTransferParams Raw // object as sent; nil: none
	EngineXArgs      Raw // object of string, number, boolean or, in chat, list of these, as sent; nil: none

	late    lateFaults
	ignored ignored
}

// ChatRequest is a decoded body of POST /v1/chat/completions, in the terms of
// Options. docs/interface/fields.md lists every field with its rule and the test that proves it.
type ChatRequest struct {
	Options
	Messages []Message

	IncludeReasoning bool
	ReturnPromptText bool // what the prompt was rendered to

	// The prompt.
	Tools                Raw    // array of tool definitions as a template sees them; nil: none
	ReasoningEffort      string // "none", "minimal", "low", "medium", "high", "xhigh", "max"; "": not given
	AddGenerationPrompt  bool
	ContinueFinalMessage bool // excludes AddGenerationPrompt
	Documents            Raw  // array of objects as sent; nil: none
	ChatTemplate         *string
	ChatTemplateKwargs   Raw // object as sent; nil: none

	// Calls of tools.
	Functions         []Function // of Tools
	ToolChoice        ToolChoice
	ParallelToolCalls bool // an answer may have more than one call

	MMProcessorKwargs Raw // object as sent; nil: none. Accepted, and nothing here reads it.

	badChoice, badMessages *Error // for CheckPrompt: tool_choice, messages
}

// TokenBias is one entry of logit_bias.
type TokenBias struct {
	Token int
	Bias  float64 // clamped to [-100, 100]
}

// RepetitionDetection asks to stop when the last tokens are Count copies of a
// pattern of MinSize to MaxSize tokens (docs/interface/chat-completions.md, section 5.5).
type RepetitionDetection struct {
	MinSize int // >= 1
	MaxSize int // >= MinSize
	Count   int // >= 2
}

// ConstraintKind says what a Constraint holds.
type ConstraintKind uint8

const (
	ConstraintJSON       ConstraintKind = iota + 1 // Schema
	ConstraintJSONObject                           // any JSON object
	ConstraintRegex                                // Text, matched whole
	ConstraintChoice                               // Choices
	ConstraintGrammar                              // Text, GBNF or Lark
	ConstraintTag                                  // Schema: a structural tag, the new or the legacy form
)

// Constraint is what the output has to look like. Its shape is checked; whether
// the schema, regex or grammar compiles is not.
type Constraint struct {
	Kind    ConstraintKind
	Schema  Raw      // valid JSON
	Text    string   // the regex may be empty, the grammar not blank
	Choices []string // at least one

	DisableAnyWhitespace        bool
	DisableAdditionalProperties bool
	WhitespacePattern           *string
}

// lateFaults are violations that the decoder sees, and that are reported after checks which
// the server makes, such as that of the model (docs/interface/chat-completions.md, section
// 1.2).
type lateFaults struct {
	choices    *Error // n
	bias       *Error
	constraint *Error
}

// MaxOutput returns the requested output limit in tokens; ok is false when the request sets
// none. max_completion_tokens wins.
func (r *Options) MaxOutput() (tokens int, ok bool) {
	if r.MaxCompletionTokens != nil {
		return *r.MaxCompletionTokens, true
	}
	if r.MaxTokens != nil {
		return *r.MaxTokens, true
	}
	return 0, false
}

// HasTemplate reports whether the request brings a chat template, as the field
// or among the template's arguments. An empty one counts.
func (r *ChatRequest) HasTemplate() bool {
	return r.ChatTemplate != nil || r.ChatTemplateKwargs.Member("chat_template").Given()
}

// Function is a tool that the model may call.
type Function struct {
	Name       string
	Parameters Raw  // JSON schema, an object; nil: none, any object
	Strict     bool // the arguments have to obey the schema
}

// ChoiceMode says whether tools are called.
type ChoiceMode uint8

const (
	ChoiceNone     ChoiceMode = iota // no tool
	ChoiceAuto                       // as the model likes
	ChoiceRequired                   // at least one
	ChoiceFunction                   // the one that ToolChoice names
)

// ToolChoice is what a request says of calls. Without tools its mode is none.
type ToolChoice struct {
	Mode  ChoiceMode
	Given bool     // the request says so itself
	Name  string   // of ChoiceFunction
	Only  []string // the tools that may be called; nil: all
}

// HasMedia reports whether a message has an image, audio or video part.
func (r *ChatRequest) HasMedia() bool {
	return slices.ContainsFunc(r.Messages, func(m Message) bool {
		return slices.ContainsFunc(m.Content.Parts, func(p Part) bool { return p.Media })
	})
}

// CheckPrompt returns the first violation of the checks 8 and 10 of
// docs/interface/chat-completions.md, section 1.2, that the body alone shows: tool_choice, no messages, unusable parts and tool calls.
func (r *ChatRequest) CheckPrompt() *Error {
	switch {
	case r.badChoice != nil:
		return r.badChoice
	case len(r.Messages) == 0:
		return newError(causeMessages, "messages: at least one message is required", nil)
	}
	return r.badMessages
}
