package chat

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"weir/api"
	"weir/chat/jinja"
	"weir/chat/reasoning"
	"weir/chat/toolcall"
)

// Template is one of a model's chat templates.
type Template struct {
	Name   string // "default", "tool_use", ...; "" means "default"
	Source string
}

const (
	defaultTemplate = "default"
	toolTemplate    = "tool_use" // chosen when a request has tools
)

// ContentFormat is the shape in which a template sees a message's content.
type ContentFormat uint8

const (
	// FormatAuto is FormatOpenAI for a template with a for loop over the content of a
	// message, and FormatString for any other.
	FormatAuto ContentFormat = iota
	// FormatString is one text. The parts of a list are joined by newlines.
	FormatString
	// FormatOpenAI is a list of {"type": "text", "text": ...}.
	FormatOpenAI
)

// ParseContentFormat reads the value of --chat-template-content-format.
func ParseContentFormat(s string) (ContentFormat, error) {
	switch s {
	case "auto":
		return FormatAuto, nil
	case "string":
		return FormatString, nil
	case "openai":
		return FormatOpenAI, nil
	}
	return 0, fmt.Errorf("chat: content format %q is none of auto, string, openai", s)
}

// Config is the configuration of a Renderer.
type Config struct {
	// Templates are the model's templates, or the server's own in their place. If there are
	// none, every request has to bring one.
	Templates []Template
	// SpecialTokens are variables of every template (bos_token, ...), as
	// ParseTokenizerConfig finds them. May be nil.
	SpecialTokens *jinja.Dict
	// DefaultKwargs is a JSON object with arguments for templates, which a request may
	// override. Default: none.
	DefaultKwargs api.Raw
	// TrustRequestTemplate accepts a template in the request although the model has one.
	// Default false, because a template is a program.
	TrustRequestTemplate bool
	// ContentFormat is the shape of content. Default FormatAuto.
	ContentFormat ContentFormat
	// Reasoning says how the model's thoughts are recognized. Default reasoning.Auto.
	Reasoning reasoning.Kind
	// Calls is the form in which the model writes calls of tools. Default nil: that of the
	// template that makes the prompt.
	Calls *toolcall.Format
	// ThinkSuffix is what think tags have before their ">" in the vocabulary (reasoning.Suffix).
	ThinkSuffix string
	// ResponseRole is the role of the message that a generation prompt begins. Default
	// "assistant".
	ResponseRole string
	// Limits bound every render, of the model's templates and of those in requests.
	Limits jinja.Limits
	// Now is the clock of strftime_now. Default time.Now.
	Now func() time.Time
}

// TokenizerConfig is the part of a tokenizer_config.json that concerns chat.
type TokenizerConfig struct {
	Templates     []Template
	SpecialTokens *jinja.Dict // names to texts; additional_special_tokens to a list
}

// ErrTokenizerConfig is wrapped by every error of ParseTokenizerConfig.
var ErrTokenizerConfig = errors.New("chat: invalid tokenizer_config.json")

// ErrTemplateFile is wrapped by every error of ParseTemplateFile.
var ErrTemplateFile = errors.New("chat: invalid chat_template.json")

// ParseTemplateFile reads a chat_template.json, in which processors of images and audio keep
// what others have in their tokenizer_config.json: an object whose chat_template is a text, or
// a list of named ones.
func ParseTemplateFile(data []byte) ([]Template, error) {
	v, err := jinja.FromJSON(data)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTemplateFile, err)
	}
	d, ok := v.(*jinja.Dict)
	if !ok {
		return nil, fmt.Errorf("%w: not an object", ErrTemplateFile)
	}
	t, ok := d.Get("chat_template")
	if !ok {
		return nil, fmt.Errorf("%w: there is no chat_template in it", ErrTemplateFile)
	}
	return parseTemplates(t, ErrTemplateFile)
}

// ParseTokenizerConfig reads the chat templates (a text, or a list of named
// ones) and the special tokens of a tokenizer_config.json. A special token is
// an entry whose name ends in _token, an entry of an extra_special_tokens
// object, or the list additional_special_tokens; each token is a text or an
// object with a text under "content".
func ParseTokenizerConfig(data []byte) (TokenizerConfig, error) {
	c := TokenizerConfig{SpecialTokens: jinja.NewDict(0)}
	v, err := jinja.FromJSON(data)
	if err != nil {
		return c, fmt.Errorf("%w: %w", ErrTokenizerConfig, err)
	}
	d, ok := v.(*jinja.Dict)
	if !ok {
		return c, fmt.Errorf("%w: not an object", ErrTokenizerConfig)
	}
	if t, ok := d.Get("chat_template"); ok {
		if c.Templates, err = parseTemplates(t, ErrTokenizerConfig); err != nil {
			return c, err
		}
	}
	for name, v := range d.All() {
		if strings.HasSuffix(name, "_token") {
			addToken(c.SpecialTokens, name, v)
		}
	}
	if extra, ok := d.Get("extra_special_tokens"); ok {
		if named, ok := extra.(*jinja.Dict); ok {
			for name, v := range named.All() {
				addToken(c.SpecialTokens, name, v)
			}
		}
	}
	if more, ok := d.Get("additional_special_tokens"); ok {
		if list, ok := more.(*jinja.List); ok {
			c.SpecialTokens.Set("additional_special_tokens", tokenList(list))
		}
	}
	return c, nil
}

// parseTemplates reads a chat_template. Its errors wrap invalid.
func parseTemplates(v jinja.Value, invalid error) ([]Template, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case string:
		return []Template{{defaultTemplate, v}}, nil
	case *jinja.List:
		var out []Template
		for i := range v.Len() {
			entry, ok := v.At(i).(*jinja.Dict)
			if !ok {
				return nil, fmt.Errorf("%w: chat_template[%d] is not an object", invalid, i)
			}
			name, _ := entry.Get("name")
			source, _ := entry.Get("template")
			n, okName := name.(string)
			s, okSource := source.(string)
			if !okName || !okSource {
				return nil, fmt.Errorf("%w: chat_template[%d] has no name or no template", invalid, i)
			}
			out = append(out, Template{n, s})
		}
		return out, nil
	}
	return nil, fmt.Errorf("%w: chat_template is neither text nor a list", invalid)
}

func addToken(tokens *jinja.Dict, name string, v jinja.Value) {
	if s, ok := tokenText(v); ok {
		tokens.Set(name, s)
	}
}

func tokenText(v jinja.Value) (string, bool) {
	if d, ok := v.(*jinja.Dict); ok {
		v, _ = d.Get("content")
	}
	s, ok := v.(string)
	return s, ok
}

func tokenList(l *jinja.List) *jinja.List {
	var items []jinja.Value
	for i := range l.Len() {
		if s, ok := tokenText(l.At(i)); ok {
			items = append(items, s)
		}
	}
	return jinja.NewList(items...)
}
