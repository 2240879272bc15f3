package openai_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"

	"weir/chat"
	"weir/models"
	"weir/server/servertest"
	"weir/tokenizer"
)

// effectTokenizer is the bundled model's tokenizer with a token that is put before a text,
// and one (the last) that is separated from its neighbours by spaces.
func effectTokenizer(t *testing.T) (tok *tokenizer.Tokenizer, spaced int) {
	t.Helper()
	data, err := fs.ReadFile(models.Bundled(), "tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	var file map[string]any
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	spaced = servertest.Tokenizer().VocabSize()
	file["added_tokens"] = append(file["added_tokens"].([]any), map[string]any{"id": spaced, "content": "Ġ<b>", "special": true, "normalized": false})
	bos := "<|endoftext|>"
	file["post_processor"] = map[string]any{
		"type":           "TemplateProcessing",
		"single":         []any{map[string]any{"SpecialToken": map[string]any{"id": bos, "type_id": 0}}, map[string]any{"Sequence": map[string]any{"id": "A", "type_id": 0}}},
		"pair":           []any{map[string]any{"Sequence": map[string]any{"id": "A", "type_id": 0}}, map[string]any{"Sequence": map[string]any{"id": "B", "type_id": 1}}},
		"special_tokens": map[string]any{bos: map[string]any{"id": bos, "ids": []int{servertest.EndOfText}, "tokens": []string{bos}}},
	}
	if data, err = json.Marshal(file); err != nil {
		t.Fatal(err)
	}
	if tok, err = tokenizer.Load(data); err != nil {
		t.Fatal(err)
	}
	return tok, spaced
}

// TestEveryFieldHasItsEffect: each field of the interface either changes the answer or is
// one of those that are documented to have no effect. To accept a field and ignore it
// otherwise would be worse than to refuse it.
func TestEveryFieldHasItsEffect(t *testing.T) {
	t.Parallel()
	tok, spaced := effectTokenizer(t)
	template := "{{ reasoning_effort }}{{ documents }}{{ x }}{% for t in tools or [] %}{{ t.function.name }}{% endfor %}{% for m in messages %}<|im_start|>{{ m.role }} {{ m.content }}<|im_end|>{% endfor %}{% if add_generation_prompt %}<|im_start|>{% endif %}"
	h := newServer(t, func(s *servertest.Setup) {
		s.Model.Tokenizer, s.EngineConfig.Tokenizer = tok, tok
		s.Model.Chat = render(t, chat.Config{Templates: []chat.Template{{Source: template}}})
	})
	type m = map[string]any
	// The answer without the field, with it, and what else is sent both times.
	two := []int{700, 701}
	prefill := []any{m{"role": "user", "content": "Hi"}, m{"role": "assistant", "content": "Well"}}
	said := *h.Complete(t, m{"max_tokens": 20, "ignore_eos": true}).Choices[0].Message.Content
	ids := h.Complete(t, m{"return_token_ids": true, "max_tokens": 20, "ignore_eos": true}).Choices[0].TokenIDs
	long := m{"max_tokens": 20, "ignore_eos": true}
	random := m{"temperature": 2, "seed": 1, "max_tokens": 20}
	ends := m{"logit_bias": m{"2": 100}}
	effects := map[string]struct {
		value any
		with  m
	}{
		"messages":                      {servertest.UserSays("Something else"), nil},
		"model":                         {"nope", nil},
		"frequency_penalty":             {2, m{"allowed_token_ids": two, "max_tokens": 20}},
		"presence_penalty":              {2, m{"allowed_token_ids": span(700, 740), "max_tokens": 200}},
		"repetition_penalty":            {50, m{"allowed_token_ids": two, "max_tokens": 20}},
		"logit_bias":                    {m{"700": 100}, nil},
		"logprobs":                      {true, nil},
		"top_logprobs":                  {3, m{"logprobs": true}},
		"logprob_token_ids":             {[]int{700}, m{"logprobs": true}},
		"prompt_logprobs":               {1, nil},
		"max_tokens":                    {3, m{"ignore_eos": true}},
		"max_completion_tokens":         {3, m{"ignore_eos": true}},
		"min_tokens":                    {4, ends},
		"n":                             {2, m{"temperature": 1, "seed": 1}},
		"seed":                          {2, m{"temperature": 2}}, // without it no two answers are alike; see below
		"stop":                          {said[4:8], long},
		"stop_token_ids":                {[]int32{ids[3]}, long},
		"include_stop_str_in_output":    {true, m{"stop": said[4:8], "max_tokens": 20}},
		"ignore_eos":                    {true, ends},
		"stream":                        {true, nil},
		"stream_options":                {m{"include_usage": true}, m{"stream": true}},
		"stream_interval":               {3, m{"stream": true, "ignore_eos": true}},
		"temperature":                   {2, m{"seed": 1, "max_tokens": 20}},
		"top_p":                         {1e-9, random},
		"top_k":                         {1, random},
		"min_p":                         {1, random},
		"allowed_token_ids":             {two, nil},
		"bad_words":                     {[]string{servertest.TextOf(tok, ids[0])}, nil},
		"response_format":               {m{"type": "json_object"}, nil},
		"structured_outputs":            {m{"regex": "a"}, nil},
		"tools":                         {[]any{m{"type": "function", "function": m{"name": "lookup"}}}, nil},
		"tool_choice":                   {"required", m{"tools": []any{m{"type": "function", "function": m{"name": "lookup"}}}}},
		"functions":                     {[]any{m{"name": "lookup"}}, nil},
		"function_call":                 {m{"name": "lookup"}, m{"functions": []any{m{"name": "lookup"}}}},
		"reasoning_effort":              {"high", nil},
		"echo":                          {true, m{"messages": prefill, "continue_final_message": true}},
		"add_generation_prompt":         {false, nil},
		"continue_final_message":        {true, m{"messages": prefill}},
		"add_special_tokens":            {true, nil},
		"documents":                     {[]any{m{"text": "b"}}, nil},
		"chat_template":                 {"x", nil},
		"chat_template_kwargs":          {m{"x": "something"}, nil},
		"skip_special_tokens":           {false, m{"logit_bias": m{"1": 100}}},
		"spaces_between_special_tokens": {false, m{"skip_special_tokens": false, "allowed_token_ids": []int{spaced}}},
		"truncate_prompt_tokens":        {3, nil},
		"truncation_side":               {"right", m{"truncate_prompt_tokens": 3, "return_token_ids": true}},
		"priority":                      {1, nil},
		"request_id":                    {"mine", nil},
		"return_tokens_as_token_ids":    {true, m{"logprobs": true}},
		"return_token_ids":              {true, nil},
		"return_prompt_text":            {true, nil},
		"cache_salt":                    {"salt", m{"messages": servertest.UserSays(strings.Repeat("a b c d ", 20))}},
		"repetition_detection":          {m{"max_pattern_size": 1, "min_count": 3}, m{"logit_bias": m{"700": 100}, "max_tokens": 9}},
	}
	none := map[string]string{ // docs/interface/chat-completions.md, sections 2.3, 3.3, 4.10, 9.1, 9.2
		"thinking_token_budget": "where nothing is thought, and it is refused where thoughts are not told apart; TestK24ThinkingBudget is about the others",
		"user":                  "for the client's own books",
		"length_penalty":        "of beam search, which there is none of",
		"parallel_tool_calls":   "before a second call; TestParallelCalls is about that",
		"mm_processor_kwargs":   "of models that take media",
		"kv_transfer_params":    "of a KV connector; ignored without one",
		"engine_xargs":          "of custom logits processors; unknown keys are ignored",
		"vllm_xargs":            "the older name of engine_xargs",
		"include_reasoning":     "where nothing is thought; TestC141IncludeReasoning is about where something is",
	}
	ask := func(fields m) string {
		_, answer := h.Chat(fields)
		if fields["request_id"] == nil {
			answer = regexp.MustCompile(`chatcmpl-\w+`).ReplaceAllString(answer, "")
		}
		return answer
	}
	join := func(field string, value any, with m) m {
		all := m{field: value}
		for k, v := range with {
			all[k] = v
		}
		return all
	}
	doc, err := os.ReadFile("../../docs/interface/fields.md")
	if err != nil {
		t.Fatal(err)
	}
	table, _, _ := strings.Cut(string(doc), "# Fields inside")
	names := regexp.MustCompile("(?m)^\\| `(\\w+)` \\|").FindAllStringSubmatch(table, -1)
	if len(names) != len(effects)+len(none) {
		t.Errorf("%d fields, of which %d have an effect and %d none", len(names), len(effects), len(none))
	}
	for _, match := range names {
		field := match[1]
		if why := none[field]; why != "" {
			continue
		}
		e, ok := effects[field]
		if !ok {
			t.Errorf("%s: does it have an effect?", field)
			continue
		}
		ask(join("max_tokens", 5, e.with)) // fills the prefix cache
		without := ask(join("user", "x", e.with))
		if again := ask(join("user", "y", e.with)); again != without && field != "seed" {
			t.Errorf("%s: answers differ without it: %s, %s", field, without, again)
		}
		with := ask(join(field, e.value, e.with))
		switch {
		case field == "seed":
			if again := ask(join(field, e.value, e.with)); again != with {
				t.Errorf("seed: %s, then %s", with, again)
			}
		case with == without:
			t.Errorf("%s = %v has no effect: %s", field, e.value, with)
		}
	}
}
