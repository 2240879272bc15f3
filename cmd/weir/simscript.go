package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"

	"weir/api"
	"weir/backend/sim"
	"weir/internal/jsontext"
	"weir/internal/plainfile"
	"weir/tokenizer"
)

// A scriptRule is an element of a script: the answer to every prompt in which prompt matches.
type scriptRule struct {
	prompt *regexp.Regexp
	answer []int32 // with an end token
}

// simScript reads the script that --sim-script names, or returns nil if it names none. An answer's
// end is the model's end token, unless the text of the answer ends in a token that ends it.
func simScript(name string, s *source) (sim.Answer, error) {
	if name == "" {
		return nil, nil
	}
	src, err := plainfile.Read(name)
	if err == nil {
		var rules []scriptRule
		if rules, err = parseScript(src, s.tokenizer, s.defaults.EOS, s.defaults.Stop); err == nil {
			return answerBy(rules, s.tokenizer), nil
		}
		err = fmt.Errorf("%s: %w", name, err)
	}
	return nil, usageError{fmt.Errorf("--sim-script: %w", err)}
}

// answerBy answers with the first of the rules that matches a prompt.
func answerBy(rules []scriptRule, tok *tokenizer.Tokenizer) sim.Answer {
	return func(prompt []int32) []int32 {
		text := tok.Decode(prompt, tokenizer.DecodeOptions{JoinSpecial: true})
		for _, r := range rules {
			if r.prompt.MatchString(text) {
				return r.answer
			}
		}
		return nil
	}
}

func parseScript(src []byte, tok *tokenizer.Tokenizer, eos int32, stop []int32) (rules []scriptRule, err error) {
	if err := jsontext.Scan(src, api.DefaultLimits().Depth); err != nil {
		return nil, err
	}
	list := jsontext.Trim(src)
	if list.Kind() != jsontext.Array || list.Empty() {
		return nil, errors.New("it is not a list of rules")
	}
	for i, v := range list.Elements() {
		r, err := parseRule(v, tok)
		if err != nil {
			return nil, fmt.Errorf("rule %d: %w", i+1, err)
		}
		if n := len(r.answer); eos >= 0 && (n == 0 || r.answer[n-1] != eos && !slices.Contains(stop, r.answer[n-1])) {
			r.answer = append(r.answer, eos)
		}
		rules = append(rules, r)
	}
	return rules, nil
}

func parseRule(v jsontext.Value, tok *tokenizer.Tokenizer) (r scriptRule, err error) {
	if v.Kind() != jsontext.Object {
		return r, errors.New("it is not an object")
	}
	answered := false
	for name, member := range v.Members() {
		known := string(name) == "prompt" || string(name) == "answer"
		switch {
		case !known:
			err = fmt.Errorf("it has a member %q, which is neither prompt nor answer", name)
		case member.Kind() != jsontext.String:
			err = fmt.Errorf("%s is not a string", name)
		case string(name) == "prompt":
			r.prompt, err = regexp.Compile(member.Text())
		default:
			r.answer, err = tok.Encode(nil, member.Text(), false)
			answered = true
		}
		if err != nil {
			return r, err
		}
	}
	if r.prompt == nil {
		r.prompt = regexp.MustCompile("") // which every prompt matches
	}
	if !answered {
		err = errors.New("it has no answer")
	}
	return r, err
}
