package chat

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/api"
	"weir/chat/jinja"
)

// TestEfforts: every effort of a request becomes one that the template takes. Which one it gets is
// what it writes here.
func TestEfforts(t *testing.T) {
	const write = `{{ reasoning_effort | default('-') }} {{ enable_thinking | default('-') }} {{ thinking | default('-') }}{{ messages and '' }}`
	raising := func(texts string) string {
		return `{% if reasoning_effort is defined and reasoning_effort not in [` + texts + `] %}{{ raise_exception('no such effort') }}{% endif %}` + write
	}
	for _, c := range []struct{ name, template, want string }{
		{"any", write, "none minimal low medium high xhigh max"},
		{"Mistral Medium 3.5", raising(`'none', 'high'`), "none high high high high high high"},
		{"Hunyuan 3", raising(`'high', 'low', 'no_think'`), "no_think low low high high high high"},
		{"Qwen 3.8", raising(`'xhigh', 'medium', 'low'`), "- low low medium xhigh xhigh xhigh"},
		{"DeepSeek V4", `{% if reasoning_effort == 'high' or reasoning_effort == 'max' %}{% endif %}` + write, "none minimal low medium high max max"},
		{"none but itself", raising(`'much'`), "- - - - - - -"},
		{"gpt-oss", `{# <|channel|>analysis<|message|> #}` + write, "low low low medium high high high"},
	} {
		r := newRenderer(t, of(c.template))
		for i, want := range strings.Fields(c.want) {
			thinks := "True True"
			if efforts[i] == "none" {
				thinks = "False False"
			}
			p, err := r.Render(Input{Messages: []api.Message{text("user", "u")}, ReasoningEffort: &efforts[i]})
			if err != nil || p.Text != want+" "+thinks {
				t.Errorf("%s, %s: %q, %v, want %s %s", c.name, efforts[i], p.Text, err, want, thinks)
			}
		}
	}
	r := newRenderer(t, of(`{{ raise_exception('never') }}{{ reasoning_effort }}`))
	if _, err := r.Render(Input{Messages: []api.Message{text("user", "u")}, ReasoningEffort: &efforts[4]}); err == nil || !strings.HasSuffix(err.Error(), "never") {
		t.Errorf("an error that is about something else: %v", err)
	}
	own := Input{Messages: []api.Message{text("user", "u")}, ReasoningEffort: &efforts[0], ChatTemplateKwargs: api.Raw(`{"thinking": true}`)}
	if p := mustRender(t, newRenderer(t, of(write)), own); p.Text != "none False True" {
		t.Errorf("the request's own argument: %q", p.Text)
	}
}

// TestVectorsEfforts: no real template of the vectors refuses an effort if it takes the
// conversation without one.
func TestVectorsEfforts(t *testing.T) {
	paths := vectorTemplates(t)
	for _, path := range paths {
		src, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		cfg := of(string(src))
		cfg.SpecialTokens = jinja.NewDict(0)
		r := newRenderer(t, cfg)
		in := Input{Messages: []api.Message{text("user", "u")}}
		if _, err := r.Render(in); err != nil {
			continue // templates that need tools or tokens
		}
		for i := range efforts {
			in.ReasoningEffort = &efforts[i]
			if _, err := r.Render(in); err != nil {
				t.Errorf("%s, %s: %v", filepath.Base(path), efforts[i], err)
			}
		}
	}
}
