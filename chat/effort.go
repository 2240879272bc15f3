package chat

import (
	"errors"
	"strings"

	"weir/chat/jinja"
	"weir/chat/reasoning"
)

// A request may ask for any of these efforts of thought, and a template knows some of them, or
// calls them otherwise. So none is refused (docs/interface/chat-completions.md, section 9.1):
// where a template names the same under another name, it gets that name, and where it raises an
// error about an effort, it gets the nearest that it takes.

// efforts are those of requests, from the least to the greatest.
var efforts = []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}

// synonyms are names of the same effort, or of what comes closest to it, where a template does not
// name it. The first that the template names counts.
var synonyms = map[string][]string{
	"none": {"no_think"}, "minimal": {"low"}, "xhigh": {"max", "high"}, "max": {"xhigh", "high"},
}

// harmonyEfforts are what gpt-oss was trained with (github.com/openai/harmony, docs/format.md). Its
// template writes any text.
var harmonyEfforts = map[string]string{"none": "low", "minimal": "low", "xhigh": "high", "max": "high"}

// effort is what the template gets for an effort of a request.
func (t *compiled) effort(of string) string {
	if t.thinking == reasoning.GPTOSS {
		if other, ok := harmonyEfforts[of]; ok {
			return other
		}
		return of
	}
	if t.names[of] {
		return of
	}
	for _, other := range synonyms[of] {
		if t.names[other] {
			return other
		}
	}
	return of
}

// effortNames are the names of efforts that a template has as texts.
func effortNames(source string) map[string]bool {
	names := map[string]bool{}
	for _, name := range append([]string{"no_think"}, efforts...) {
		if strings.Contains(source, "'"+name+"'") || strings.Contains(source, `"`+name+`"`) {
			names[name] = true
		}
	}
	return names
}

// otherEffort renders anew after a template has raised an error, which may be about the effort: it
// is if there is no error without one. Then the nearest that raises none is used.
func (r *Renderer) otherEffort(in Input, err error) (Prompt, error) {
	if in.ReasoningEffort == nil || !errors.Is(err, jinja.ErrRaised) {
		return Prompt{}, err
	}
	wanted := *in.ReasoningEffort
	in.ReasoningEffort = nil
	in.thinks = wanted != "none"
	in.effort = true
	without, other := r.render(in)
	if other != nil {
		return Prompt{}, err
	}
	for _, near := range nearest(wanted) {
		in.ReasoningEffort = &near
		if p, other := r.render(in); other == nil {
			return p, nil
		}
	}
	return without, nil
}

// nearest are the other efforts, the nearest first, and of two the greater. Of one that thinks, the
// others think too.
func nearest(effort string) []string {
	if effort == "none" {
		return nil
	}
	at := 0
	for i, name := range efforts {
		if name == effort {
			at = i
		}
	}
	var list []string
	for d := 1; d < len(efforts); d++ {
		if at+d < len(efforts) {
			list = append(list, efforts[at+d])
		}
		if at-d > 0 {
			list = append(list, efforts[at-d])
		}
	}
	return list
}

// setEffort sets the arguments that say how much, and whether, the model is to think. Templates
// that think only when they are told to, or until they are told not to, read another argument. The
// client's own one wins.
func setEffort(t *compiled, in *Input, a, kwargs *jinja.Dict) {
	thinks := in.thinks
	if e := in.ReasoningEffort; e != nil {
		if *e != "auto" { // it counts as not given
			a.Set("reasoning_effort", t.effort(*e))
		}
		thinks = thinks || *e != "none"
	} else if !in.effort {
		return
	}
	for _, name := range []string{"enable_thinking", "thinking"} {
		if _, ok := kwargs.Get(name); !ok {
			a.Set(name, thinks)
		}
	}
}
