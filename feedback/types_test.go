package feedback

import (
	"slices"
	"strings"
	"testing"
)

const (
	objectRef = "weave:///acme/support/object/N:v1"
	opRef     = "weave:///acme/support/op/N:v1"
	callRef   = "weave:///acme/support/call/c"
)

// typeRow is a row of the table of types in docs/interface/feedback.md, section 6.6.
type typeRow struct {
	name    string
	payload string   // a key that the payload has
	needs   []string // the references that are required
	// cells has a letter for each of typeRefs: r(equired), f(orbidden) or o(ptional).
	cells string
	must  string // the key that the payload has to have
}

// typeRefs are the columns of the table, each with a reference of the right kind.
var typeRefs = []struct{ field, good string }{
	{"annotation_ref", objectRef}, {"runnable_ref", objectRef}, {"call_ref", callRef}, {"trigger_ref", objectRef},
}

// TestTypeMatrix checks every cell of the table in docs/interface/feedback.md, section 6.6
// (case F#16).
func TestTypeMatrix(t *testing.T) {
	for _, row := range []typeRow{
		{"wandb.annotation.N", "value", []string{"annotation_ref"}, "rooo", "value"},
		{"wandb.runnable.N", "output", []string{"runnable_ref"}, "froo", "output"},
		{"wandb.agent_monitor", "x", []string{"runnable_ref", "call_ref", "trigger_ref"}, "frrr", ""},
		{"wandb.reaction.1", "emoji", nil, "ffff", "emoji"},
		{"wandb.note.1", "note", nil, "ffff", "note"},
		{"wandb.unknown.1", "x", nil, "ffff", ""},
		{"wandb.agent_monitor.x", "x", nil, "ffff", ""},
		{"wandb.agent_user_feedback", "x", nil, "ffff", ""},
		{"custom", "x", nil, "oooo", ""},
		{"wandb", "x", nil, "oooo", ""},
		{"Wandb.note.1", "x", nil, "oooo", ""},
	} {
		t.Run(row.name, row.test)
	}
}

// fields is the least that a request of the type needs.
func (row *typeRow) fields() map[string]any {
	m := map[string]any{"feedback_type": row.name, "payload": map[string]any{row.payload: "👍"}, "queue_id": "q"}
	for _, ref := range typeRefs {
		if slices.Contains(row.needs, ref.field) {
			m[ref.field] = ref.good
		}
	}
	return m
}

func (row *typeRow) test(t *testing.T) {
	if why := refusal(t, row.fields()); why != "" {
		t.Errorf("with what it needs: %s", why)
	}
	for i, ref := range typeRefs {
		with, without, wrongKind := row.fields(), row.fields(), row.fields()
		with[ref.field] = ref.good
		delete(without, ref.field)
		wrongKind[ref.field] = "weave:///acme/support/table/t"
		if why := refusal(t, with); (why == "") != (row.cells[i] != 'f') {
			t.Errorf("with %s: %q", ref.field, why)
		}
		if why := refusal(t, without); (why == "") != (row.cells[i] != 'r') {
			t.Errorf("without %s: %q", ref.field, why)
		}
		if why := refusal(t, wrongKind); !strings.HasPrefix(why, "Invalid ref: weave:///acme/support/table/t, ") {
			t.Errorf("with a %s to a table: %q", ref.field, why)
		}
	}
	if row.must != "" {
		m := row.fields()
		m["payload"] = map[string]any{"other": 1}
		if why := refusal(t, m); !strings.HasPrefix(why, "Invalid payload for feedback_type "+row.name+": ") {
			t.Errorf("without %s: %q", row.must, why)
		}
	}
}

// TestTypeRules checks the rules of types and fields that are not in the table.
func TestTypeRules(t *testing.T) {
	const other = "weave:///acme/other/object/N:v1"
	for _, c := range []struct {
		fields map[string]any
		want   string // beginning of the reason; "": accepted
	}{
		{map[string]any{"feedback_type": "wandb.annotation", "payload": map[string]any{"value": 1}, "annotation_ref": objectRef}, "feedback_type wandb.annotation needs"},
		{map[string]any{"feedback_type": "wandb.annotation.", "payload": map[string]any{"value": 1}, "annotation_ref": objectRef}, "feedback_type wandb.annotation needs"},
		{map[string]any{"feedback_type": "wandb.annotationx", "payload": map[string]any{"value": 1}, "annotation_ref": objectRef}, "feedback_type wandb.annotation needs"},
		{map[string]any{"feedback_type": "wandb.annotation.M", "payload": map[string]any{"value": 1}, "annotation_ref": objectRef}, "annotation_ref must name M"},
		{map[string]any{"feedback_type": "wandb.annotation.N", "payload": map[string]any{"value": 1}, "annotation_ref": other}, "Annotation ref " + other + " does not match project id acme/support"},
		{map[string]any{"feedback_type": "wandb.annotation.N", "payload": map[string]any{"value": nil}, "annotation_ref": objectRef}, ""},
		{map[string]any{"feedback_type": "wandb.annotation.N", "payload": map[string]any{"value": 1}, "annotation_ref": opRef}, "Invalid ref"},
		{map[string]any{"feedback_type": "wandb.runnable", "payload": map[string]any{"output": 1}, "runnable_ref": objectRef}, "feedback_type wandb.runnable needs"},
		{map[string]any{"feedback_type": "wandb.runnable.M", "payload": map[string]any{"output": 1}, "runnable_ref": objectRef}, "runnable_ref must name M"},
		{map[string]any{"feedback_type": "wandb.runnable.N", "payload": map[string]any{"output": 1}, "runnable_ref": opRef}, "call_ref is required"},
		{map[string]any{"feedback_type": "wandb.runnable.N", "payload": map[string]any{"output": 1}, "runnable_ref": opRef, "call_ref": callRef}, ""},
		{map[string]any{"feedback_type": "wandb.runnable.N", "payload": map[string]any{"output": nil}, "runnable_ref": other}, ""},
		{map[string]any{"annotation_ref": other}, ""},
		{map[string]any{"call_ref": "other:///acme/support/call/c"}, "Invalid ref"},
		{map[string]any{"trace_ref": objectRef}, ""},
		{map[string]any{"queue_id": strings.Repeat("q", 257)}, "Invalid queue_id"},
		{map[string]any{"queue_id": "a\nb"}, "Invalid queue_id"},
		{map[string]any{"project_id": "acme"}, "Invalid project_id"},
		{map[string]any{"project_id": "a/b/c"}, "Invalid project_id"},
		{map[string]any{"project_id": "/b"}, "Invalid project_id"},
		{map[string]any{"project_id": "a/"}, "Invalid project_id"},
		{map[string]any{"project_id": "a/" + strings.Repeat("b", 255)}, "Invalid project_id"},
		{map[string]any{"feedback_type": strings.Repeat("é", 256)}, ""},
		{map[string]any{"feedback_type": strings.Repeat("é", 257)}, "Invalid feedback_type"},
		{map[string]any{"feedback_type": "a\tb"}, "Invalid feedback_type"},
		{map[string]any{"creator": strings.Repeat("é", 256)}, ""},
		{map[string]any{"creator": strings.Repeat("é", 257)}, "Invalid creator"},
	} {
		if why := refusal(t, c.fields); c.want == "" && why != "" || !strings.HasPrefix(why, c.want) {
			t.Errorf("%v: %q", c.fields, why)
		}
	}
}

// TestNotes checks the length of notes (docs/interface/feedback.md, section 6.2).
func TestNotes(t *testing.T) {
	for _, c := range []struct {
		note any
		ok   bool
	}{
		{"x", true}, {strings.Repeat("😀", 1024), true}, {strings.Repeat("x", 1025), false}, {strings.Repeat("😀", 1025), false}, {"", false}, {5, false}, {nil, false},
	} {
		why := refusal(t, map[string]any{"feedback_type": "wandb.note.1", "payload": map[string]any{"note": c.note, "more": 1}})
		if (why == "") != c.ok {
			t.Errorf("%.10v: %q", c.note, why)
		}
	}
}
