package api

import (
	"slices"

	"weir/internal/jsontext"
)

// dropped are fields of other servers, and of older versions of vLLM, that would constrain the
// output or change what it answers, with what to use in place of them. To ignore one would give a
// client something else than it has asked for.
var dropped = map[string]string{
	"guided_json":               "structured_outputs with json, or response_format with a json_schema",
	"guided_regex":              "structured_outputs with regex",
	"guided_choice":             "structured_outputs with choice",
	"guided_grammar":            "structured_outputs with grammar",
	"guided_json_object":        "response_format of the type json_object",
	"guided_whitespace_pattern": "structured_outputs with whitespace_pattern",
	"structural_tag":            "response_format of the type structural_tag",
	"regex":                     "structured_outputs with regex",
	"ebnf":                      "structured_outputs with grammar",
	"grammar":                   "structured_outputs with grammar",
	"json_schema":               "response_format of the type json_schema",
	"choice":                    "structured_outputs with choice",
	"use_beam_search":           "n: there is no beam search",
	"logits_processors":         "logit_bias, allowed_token_ids, bad_words or structured_outputs",
	"logit_processors":          "logit_bias, allowed_token_ids, bad_words or structured_outputs",
	"custom_logit_processor":    "logit_bias, allowed_token_ids, bad_words or structured_outputs",
	"prompt_embeds":             "messages or prompt: embeddings are not taken",
	"input_embeds":              "messages or prompt: embeddings are not taken",
}

// ignored are members of a body that are no fields.
type ignored struct {
	names []string
	bytes int // of names
}

// Ignored returns the names of the members that are no fields and have no effect, each once, up
// to 32 of at most 1 KiB together.
func (r *Options) Ignored() []string { return r.ignored.names }

// maxIgnored bounds the names that Options.Ignored returns, and maxIgnoredBytes their length together.
const (
	maxIgnored      = 32
	maxIgnoredBytes = 1 << 10
)

// stranger takes a member of a body that is no field of it: one that cannot be ignored is a
// fault, the name of any other is kept.
func (r *Options) stranger(key []byte, v Raw) *fault {
	if instead, ok := dropped[string(key)]; ok {
		if asksNothing(v) {
			return nil
		}
		return faultf("is not supported: use %s", instead).in(string(key))
	}
	name := string(key)
	if len(r.ignored.names) < maxIgnored && r.ignored.bytes+len(name) <= maxIgnoredBytes && !slices.Contains(r.ignored.names, name) {
		r.ignored.names = append(r.ignored.names, name)
		r.ignored.bytes += len(name)
	}
	return nil
}

// asksNothing reports that a value is the same as none.
func asksNothing(v Raw) bool {
	switch v.Kind() {
	case jsontext.Null:
		return true
	case jsontext.String:
		return v.Text() == ""
	case jsontext.Array, jsontext.Object:
		return v.Empty()
	}
	return string(v) == "false" || string(v) == "0"
}
