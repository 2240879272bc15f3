package chat

import (
	"errors"
	"fmt"
	"testing"

	"weir/chat/jinja"
)

func TestParseTokenizerConfig(t *testing.T) {
	for _, c := range []struct {
		in        string
		templates string
		tokens    string
	}{
		{`{}`, "[]", "{}"},
		{`{"chat_template": null, "bos_token": null}`, "[]", "{}"},
		{`{"chat_template": "a"}`, "[{default a}]", "{}"},
		{`{"chat_template": [{"name": "default", "template": "a"}, {"name": "tool_use", "template": "b"}]}`, "[{default a} {tool_use b}]", "{}"},
		{`{"bos_token": "<s>", "eos_token": {"__type": "AddedToken", "content": "</s>", "lstrip": false}, "pad_token": null, "add_bos_token": true,
			"unk_token": {"lstrip": false}, "image_token": "<img>", "model_max_length": 1e30, "tokenizer_class": "X"}`,
			"[]", "{'bos_token': '<s>', 'eos_token': '</s>', 'image_token': '<img>'}"},
		{`{"additional_special_tokens": ["<a>", {"content": "<b>"}, 5], "extra_special_tokens": {"video_token": "<v>", "x": {"content": "y"}, "z": 1}}`,
			"[]", "{'video_token': '<v>', 'x': 'y', 'additional_special_tokens': ['<a>', '<b>']}"},
		{`{"extra_special_tokens": ["<a>"]}`, "[]", "{}"},
	} {
		got, err := ParseTokenizerConfig([]byte(c.in))
		if err != nil {
			t.Errorf("%s: %v", c.in, err)
			continue
		}
		show, _ := jinja.Compile(`{{ v }}`)
		vars := jinja.NewDict(1)
		vars.Set("v", got.SpecialTokens)
		tokens, err := show.Render(vars, jinja.Options{})
		if err != nil || fmt.Sprint(got.Templates) != c.templates || tokens != c.tokens {
			t.Errorf("%s:\ngot  %v %s %v\nwant %s %s", c.in, got.Templates, tokens, err, c.templates, c.tokens)
		}
	}
	for _, bad := range []string{``, `[]`, `{"chat_template": 5}`, `{"chat_template": [5]}`, `{"chat_template": [{"name": "a"}]}`, `{"chat_template": [{"template": "a"}]}`} {
		if _, err := ParseTokenizerConfig([]byte(bad)); !errors.Is(err, ErrTokenizerConfig) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// FuzzParseTokenizerConfig: any bytes give a configuration or an error, no panic.
func FuzzParseTokenizerConfig(f *testing.F) {
	for _, s := range []string{`{}`, `{"chat_template": [{"name": "a", "template": "b"}], "bos_token": {"content": "x"}}`, `{"additional_special_tokens": [1, "a"]}`, `[`, `{"extra_special_tokens": {"a": null}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := ParseTokenizerConfig(data)
		if err != nil && !errors.Is(err, ErrTokenizerConfig) {
			t.Fatalf("error %v", err)
		}
		if err == nil && c.SpecialTokens == nil {
			t.Fatal("no tokens")
		}
	})
}

func TestParseTemplateFile(t *testing.T) {
	for in, want := range map[string]string{
		`{"chat_template": "a"}`: "[{default a}] <nil>",
		`{"chat_template": [{"name": "default", "template": "a"}, {"name": "tool_use", "template": "b"}]}`: "[{default a} {tool_use b}] <nil>",
		`{`:                      "",
		`[]`:                     "[] chat: invalid chat_template.json: not an object",
		`{}`:                     "[] chat: invalid chat_template.json: there is no chat_template in it",
		`{"chat_template": 1}`:   "[] chat: invalid chat_template.json: chat_template is neither text nor a list",
		`{"chat_template": [1]}`: "[] chat: invalid chat_template.json: chat_template[0] is not an object",
	} {
		templates, err := ParseTemplateFile([]byte(in))
		if got := fmt.Sprint(templates, " ", err); got != want && want != "" || want == "" && !errors.Is(err, ErrTemplateFile) {
			t.Errorf("%s\n got %s\nwant %s", in, got, want)
		}
	}
}
