package feedback

import (
	"strings"
	"unicode/utf8"

	"weir/internal/jsontext"
)

// checkType applies the rules of the reserved types, and adds to the payload what they
// add (docs/interface/feedback.md, section 6). annotation and runnable are the references
// of the request, if it has them.
func (c *Config) checkType(r *Request, annotation, runnable ref) *Refusal {
	known, reserved := strings.CutPrefix(r.Type, c.Reserved)
	switch {
	case !reserved:
		return nil
	case strings.HasPrefix(known, "annotation"):
		return c.checkAnnotation(r, strings.TrimPrefix(known, "annotation"), annotation)
	case strings.HasPrefix(known, "runnable"):
		return c.checkRunnable(r, strings.TrimPrefix(known, "runnable"), runnable)
	case known == "agent_monitor":
		return checkAgentMonitor(r)
	}
	if f := checkNoRefs(r); f != nil {
		return f
	}
	switch known {
	case "note.1":
		return checkNote(r)
	case "reaction.1":
		return checkReaction(r)
	}
	return nil
}

// invalidPayload refuses a payload that breaks a rule of its type.
func invalidPayload(r *Request, why string) *Refusal {
	return refuse("Invalid payload for feedback_type " + r.Type + ": " + why)
}

// checkAnnotation applies the rules of the type annotation.NAME; suffix is ".NAME".
func (c *Config) checkAnnotation(r *Request, suffix string, annotation ref) *Refusal {
	name, ok := strings.CutPrefix(suffix, ".")
	switch {
	case !ok || name == "":
		return refuse("feedback_type " + c.Reserved + "annotation needs a name: " + c.Reserved + "annotation.<name>")
	case r.refs.Annotation == nil:
		return refuse("annotation_ref is required for annotation feedback")
	case annotation.name != name:
		return refuse("annotation_ref must name " + name + ", as the feedback_type does")
	case annotation.project != r.Project:
		return refuse("Annotation ref " + clip(*r.refs.Annotation) + " does not match project id " + r.Project)
	case member(r.Payload, "value") == nil:
		return invalidPayload(r, "value is missing")
	}
	return nil
}

// checkRunnable applies the rules of the type runnable.NAME; suffix is ".NAME".
func (c *Config) checkRunnable(r *Request, suffix string, runnable ref) *Refusal {
	name, ok := strings.CutPrefix(suffix, ".")
	switch {
	case !ok || name == "":
		return refuse("feedback_type " + c.Reserved + "runnable needs a name: " + c.Reserved + "runnable.<name>")
	case r.refs.Annotation != nil:
		return refuse("annotation_ref is not allowed for non-annotation feedback")
	case r.refs.Runnable == nil:
		return refuse("runnable_ref is required for runnable feedback")
	case runnable.name != name:
		return refuse("runnable_ref must name " + name + ", as the feedback_type does")
	case runnable.kind == kindOp && r.refs.Call == nil:
		return refuse("call_ref is required for a runnable_ref to an op")
	case member(r.Payload, "output") == nil:
		return invalidPayload(r, "output is missing")
	}
	return nil
}

func checkAgentMonitor(r *Request) *Refusal {
	if r.refs.Annotation != nil {
		return refuse("annotation_ref is not allowed for non-annotation feedback")
	}
	if r.refs.Runnable == nil || r.refs.Call == nil || r.refs.Trigger == nil {
		return refuse("runnable_ref, call_ref and trigger_ref are required for " + r.Type)
	}
	return nil
}

// checkNoRefs refuses every reference but trace_ref.
func checkNoRefs(r *Request) *Refusal {
	for _, f := range []struct {
		name, kind string
		value      *string
	}{
		{"annotation_ref", "annotation", r.refs.Annotation}, {"runnable_ref", "runnable", r.refs.Runnable},
		{"call_ref", "runnable", r.refs.Call}, {"trigger_ref", "runnable", r.refs.Trigger},
	} {
		if f.value != nil {
			return refuse(f.name + " is not allowed for non-" + f.kind + " feedback")
		}
	}
	return nil
}

func checkNote(r *Request) *Refusal {
	note := member(r.Payload, "note")
	if note == nil || note.Kind() != jsontext.String {
		return invalidPayload(r, "note is missing or no string")
	}
	if n := utf8.RuneCountInString(note.Text()); n < 1 || n > maxNote {
		return invalidPayload(r, "note has 1 to 1024 characters")
	}
	return nil
}

// checkReaction adds the names of the emoji to the payload.
func checkReaction(r *Request) *Refusal {
	emoji := member(r.Payload, "emoji")
	if emoji == nil || emoji.Kind() != jsontext.String {
		return invalidPayload(r, "emoji is missing or no string")
	}
	names, ok := describeEmoji(emoji.Text())
	if !ok {
		return refuse("Value of emoji key in payload must be exactly one emoji")
	}
	r.Payload = names.addTo(r.Payload)
	return nil
}

// addTo puts the names of a reaction at the end of its payload, in place of such keys
// from the client.
func (n *emojiNames) addTo(payload jsontext.Value) jsontext.Value {
	out := []byte{'{'}
	for key, v := range payload.RawMembers() {
		switch key.Text() {
		case "alias", "detoned", "detoned_alias":
			continue
		}
		out = append(append(append(append(out, key...), ':'), v...), ',')
	}
	for i, f := range [][2]string{{"alias", n.alias}, {"detoned", n.detoned}, {"detoned_alias", n.detonedAlias}} {
		out = append(append(append(out, ",\""[b2i(i == 0):]...), f[0]...), `":`...)
		out = jsontext.AppendString(out, f[1])
	}
	return append(out, '}')
}
