package feedback

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"weir/internal/jsontext"
)

// Spec feedback 5.1; checklist 17.
func TestRefs(t *testing.T) {
	for s, want := range map[string]string{
		"weave:///a/b/call/1":                                   "weave a/b call 1",
		"x+y-1.2:///a/b/call/1":                                 "x+y-1.2 a/b call 1",
		"weave:///a/b/object/n:v":                               "weave a/b object n",
		"weave:///a/b/object/n:v/":                              "weave a/b object n",
		"weave:///a/b/object/n:v/attr/x/index/3/key/a%2Fb/id/7": "weave a/b object n",
		"weave:///a/b/object/n:v/index/-1":                      "weave a/b object n",
		"weave:///a/b/op/n:*":                                   "weave a/b op n",
		"weave:///a/b/table/d":                                  "weave a/b table d",
		"weave:///a/b/agent_turn/t":                             "weave a/b agent_turn t",
		"weave:///a/b/agent_conversation/t":                     "weave a/b agent_conversation t",
		"weave:///ä/b/object/né:v":                              "weave ä/b object né",
	} {
		r, why := parseRef(s)
		if got := r.scheme + " " + r.project + " " + r.kind + " " + r.name; got != want || why != "" {
			t.Errorf("%s: %s %s", s, got, why)
		}
	}
	for _, s := range []string{
		"", "x", "weave://a/b/call/1", "weave:////a/b/call/1", ":///a/b/call/1", "1x:///a/b/call/1", "we ave:///a/b/call/1",
		"weave:///a/b/object/n", "weave:///a/b/object/n:", "weave:///a/b/object/:v", "weave:///a/b/object/n:v:w", "weave:///a/b/object/n:v/attr",
		"weave:///a/b/object/n:v/attr/x/", "weave:///a/b/object/n:v/index/x", "weave:///a/b/object/n:v/index/", "weave:///a/b/object/n:v/index/1.5",
		"weave:///a/b/object/n:v/what/x", "weave:///a/b/object/n:v/key/%zz", "weave:///a/b/object/n:v//", "weave:///a/b/thing/1", "weave:///a/b/call/",
		"weave:///a/b/call/1/2", "weave:///a/b/call/1/", "weave:///a/b/call", "weave:///a/b", "weave:///a//call/1", "weave:////b/call/1",
		"weave:///a/b/call/1 2", "weave:///a/b/call/1\n", "weave:///a b/c/call/1", "weave:///a/b/call/a:b", "weave:///a/b/call/" + strings.Repeat("x", maxRef),
	} {
		if r, why := parseRef(s); why == "" {
			t.Errorf("%q is accepted as %+v", s, r)
		}
	}
}

func request(t testing.TB, fields map[string]any) (*Request, error) {
	t.Helper()
	m := map[string]any{"project_id": "acme/support", "trace_ref": "weave:///acme/support/call/1", "feedback_type": "custom", "payload": map[string]any{}}
	for k, v := range fields {
		m[k] = v
	}
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return DecodeRequest(b, Create)
}

// verdict is what the rules say of a request: "" or a reason.
func verdict(t testing.TB, fields map[string]any) string {
	t.Helper()
	r, err := request(t, fields)
	if err != nil {
		t.Fatal(err)
	}
	cfg := DefaultConfig()
	if f := cfg.check(r); f != nil {
		if f.Status != 400 {
			t.Errorf("status %d", f.Status)
		}
		return f.Reason
	}
	return ""
}

// Spec feedback 6.6; checklist 16: every cell of the matrix.
func TestTypeMatrix(t *testing.T) {
	const (
		object = "weave:///acme/support/object/N:v1"
		op     = "weave:///acme/support/op/N:v1"
		call   = "weave:///acme/support/call/c"
	)
	fields := []string{"annotation_ref", "runnable_ref", "call_ref", "trigger_ref"}
	good := map[string]string{"annotation_ref": object, "runnable_ref": object, "call_ref": call, "trigger_ref": object}
	// For every type: its payload, the least it needs, and for each field in turn
	// r(equired), f(orbidden) or o(ptional).
	for _, c := range []struct {
		name, payload string
		needs         []string
		cells         string
		mustHave      string // key of the payload
	}{
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
		payload := map[string]any{c.payload: "👍"}
		base := func() map[string]any {
			m := map[string]any{"feedback_type": c.name, "payload": payload, "queue_id": "q"}
			for _, n := range c.needs {
				m[n] = good[n]
			}
			return m
		}
		if why := verdict(t, base()); why != "" {
			t.Errorf("%s with what it needs: %s", c.name, why)
		}
		for i, f := range fields {
			with, without := base(), base()
			with[f] = good[f]
			delete(without, f)
			wrongKind := base()
			wrongKind[f] = "weave:///acme/support/table/t"
			if ok := verdict(t, with) == ""; ok != (c.cells[i] != 'f') {
				t.Errorf("%s with %s: %q", c.name, f, verdict(t, with))
			}
			if ok := verdict(t, without) == ""; ok != (c.cells[i] != 'r') {
				t.Errorf("%s without %s: %q", c.name, f, verdict(t, without))
			}
			if why := verdict(t, wrongKind); !strings.HasPrefix(why, "Invalid ref: weave:///acme/support/table/t, ") {
				t.Errorf("%s with a %s to a table: %q", c.name, f, why)
			}
		}
		if c.mustHave != "" {
			m := base()
			m["payload"] = map[string]any{"other": 1}
			if why := verdict(t, m); !strings.HasPrefix(why, "Invalid payload for feedback_type "+c.name+": ") {
				t.Errorf("%s without %s: %q", c.name, c.mustHave, why)
			}
		}
	}
	const other = "weave:///acme/other/object/N:v1"
	for _, c := range []struct {
		fields map[string]any
		want   string // beginning of the reason; "": accepted
	}{
		{map[string]any{"feedback_type": "wandb.annotation", "payload": map[string]any{"value": 1}, "annotation_ref": object}, "feedback_type wandb.annotation needs"},
		{map[string]any{"feedback_type": "wandb.annotation.", "payload": map[string]any{"value": 1}, "annotation_ref": object}, "feedback_type wandb.annotation needs"},
		{map[string]any{"feedback_type": "wandb.annotationx", "payload": map[string]any{"value": 1}, "annotation_ref": object}, "feedback_type wandb.annotation needs"},
		{map[string]any{"feedback_type": "wandb.annotation.M", "payload": map[string]any{"value": 1}, "annotation_ref": object}, "annotation_ref must name M"},
		{map[string]any{"feedback_type": "wandb.annotation.N", "payload": map[string]any{"value": 1}, "annotation_ref": other}, "Annotation ref " + other + " does not match project id acme/support"},
		{map[string]any{"feedback_type": "wandb.annotation.N", "payload": map[string]any{"value": nil}, "annotation_ref": object}, ""},
		{map[string]any{"feedback_type": "wandb.annotation.N", "payload": map[string]any{"value": 1}, "annotation_ref": op}, "Invalid ref"},
		{map[string]any{"feedback_type": "wandb.runnable", "payload": map[string]any{"output": 1}, "runnable_ref": object}, "feedback_type wandb.runnable needs"},
		{map[string]any{"feedback_type": "wandb.runnable.M", "payload": map[string]any{"output": 1}, "runnable_ref": object}, "runnable_ref must name M"},
		{map[string]any{"feedback_type": "wandb.runnable.N", "payload": map[string]any{"output": 1}, "runnable_ref": op}, "call_ref is required"},
		{map[string]any{"feedback_type": "wandb.runnable.N", "payload": map[string]any{"output": 1}, "runnable_ref": op, "call_ref": call}, ""},
		{map[string]any{"feedback_type": "wandb.runnable.N", "payload": map[string]any{"output": nil}, "runnable_ref": other}, ""},
		{map[string]any{"annotation_ref": other}, ""},
		{map[string]any{"call_ref": "other:///acme/support/call/c"}, "Invalid ref"},
		{map[string]any{"trace_ref": object}, ""},
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
		if why := verdict(t, c.fields); c.want == "" && why != "" || !strings.HasPrefix(why, c.want) {
			t.Errorf("%v: %q", c.fields, why)
		}
	}
}

// Spec feedback 6.2.
func TestNotes(t *testing.T) {
	for _, c := range []struct {
		note any
		ok   bool
	}{
		{"x", true}, {strings.Repeat("😀", 1024), true}, {strings.Repeat("x", 1025), false}, {strings.Repeat("😀", 1025), false}, {"", false}, {5, false}, {nil, false},
	} {
		why := verdict(t, map[string]any{"feedback_type": "wandb.note.1", "payload": map[string]any{"note": c.note, "more": 1}})
		if (why == "") != c.ok {
			t.Errorf("%.10v: %q", c.note, why)
		}
	}
}

// Spec feedback 6.1; checklist 15: the vectors.
func TestReactions(t *testing.T) {
	for _, c := range []struct{ emoji, alias, detoned, detonedAlias string }{
		{"🎱", ":pool_8_ball:", "🎱", ":pool_8_ball:"},
		{"👍", ":thumbs_up:", "👍", ":thumbs_up:"},
		{"👍🏻", ":thumbs_up_light_skin_tone:", "👍", ":thumbs_up:"},
		{"👩🏽‍💻", ":woman_technologist_medium_skin_tone:", "👩‍💻", ":woman_technologist:"},
		{"🧑🏿‍🤝‍🧑🏻", ":people_holding_hands_dark_skin_tone_light_skin_tone:", "🧑‍🤝‍🧑", ":people_holding_hands:"},
		{"👩🏻‍❤️‍💋‍👨🏾", ":kiss_woman_man_light_skin_tone_medium-dark_skin_tone:", "👩‍❤️‍💋‍👨", ":kiss_woman_man:"},
		{"❤", ":red_heart:", "❤️", ":red_heart:"},
		{"❤️", ":red_heart:", "❤️", ":red_heart:"},
		{"🇺🇸", ":United_States:", "🇺🇸", ":United_States:"},
		{"1️⃣", ":keycap_1:", "1️⃣", ":keycap_1:"},
		{"🏻", ":light_skin_tone:", "🏻", ":light_skin_tone:"},
		{"👱🏻", ":person_light_skin_tone_blond_hair:", "👱", ":person_blond_hair:"},
		{"🫱🏻‍🫲🏿", ":handshake_light_skin_tone_dark_skin_tone:", "🤝", ":handshake:"},
		{"\U0001F9CB", ":bubble_tea:", "\U0001F9CB", ":bubble_tea:"},
		{"\U0001FAE9", ":u1fae9:", "\U0001FAE9", ":u1fae9:"}, // newer than the table
		{"\U0001FAC8\U0001F3FB", ":u1fac8_u1f3fb:", "\U0001FAC8", ":u1fac8:"},
		{"🇦🇦", ":u1f1e6_u1f1e6:", "🇦🇦", ":u1f1e6_u1f1e6:"},
	} {
		r, ok := describeEmoji(c.emoji)
		if want := (emojiNames{c.alias, c.detoned, c.detonedAlias}); !ok || r != want {
			t.Errorf("%s: %+q, want %+q", c.emoji, r, want)
		}
	}
	for _, s := range []string{"", "a", "👍👍", "a👍", "👍a", ":thumbs_up:", " 👍", "1", "#", "🏻🏻", "👍🏻🏻", "\u200d", "👍\u200d", "🇺", "🇺🇸🇺🇸", "\uFE0F", "©a", "👩‍"} {
		if r, ok := describeEmoji(s); ok {
			t.Errorf("%q is taken for one emoji: %+q", s, r)
		}
	}
	for alias, full := range emojis().full {
		r, ok := describeEmoji(full)
		if !ok || r.alias != ":"+alias+":" || r.detoned == "" || alias != "light_skin_tone" && strings.Contains(r.detonedAlias, "_skin_tone") && utf8.RuneCountInString(full) > 1 {
			t.Errorf("%s: %+v", full, r)
		}
		if named := emojis().alias[unqualified(r.detoned)]; named != "" && named != strings.Trim(r.detonedAlias, ":") {
			t.Errorf("%s: %+v, which is %s", full, r, named)
		}
	}
	if n := len(emojis().alias); n != 3664 {
		t.Errorf("%d emoji", n)
	}
	for _, emoji := range []any{nil, 5, "👍👍"} {
		if why := verdict(t, map[string]any{"feedback_type": "wandb.reaction.1", "payload": map[string]any{"emoji": emoji}}); why == "" {
			t.Errorf("%v is accepted", emoji)
		}
	}
}

// The size of a payload is that of its compact UTF-8 (spec F-15).
func TestPayloadSize(t *testing.T) {
	for s, want := range map[string]int{
		`{}`: 2, `{"a":"\u00e9"}`: 10, `{"a":"é"}`: 10, `{"a":"\u0041"}`: 9, `{"a":"\ud83d\ude00"}`: 12, `{"a":"😀"}`: 12, `{"a":"\u20AC"}`: 11,
		`{"a":"\n\u0001\"\\"}`: 20,
	} {
		if got := size(jsontext.Value(s)); got != want {
			t.Errorf("%s: %d, want %d", s, got, want)
		}
	}
}

func TestSchemes(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Schemes = []string{"weave"}
	for ref, want := range map[string]bool{"weave:///a/b/call/1": true, "WEAVE:///a/b/call/1": true, "x:///a/b/call/1": false} {
		r, err := request(t, map[string]any{"trace_ref": ref})
		if err != nil {
			t.Fatal(err)
		}
		if f := cfg.check(r); (f == nil) != want {
			t.Errorf("%s: %v", ref, f)
		}
	}
}

func FuzzDecodeRequest(f *testing.F) {
	f.Add([]byte(`{"project_id":"a/b","trace_ref":"w:///a/b/call/1","feedback_type":"wandb.reaction.1","payload":{"emoji":"👍"},"feedback_id":"x"}`))
	f.Add([]byte(`{"batch":[{"project_id":"a/b","weave_ref":"w:///a/b/call/1","feedback_type":"wandb.note.1","payload":{"note":"\ud800"}}]}`))
	f.Add([]byte("\uFEFF {\"payload\":{\"a\":1,\"a\":[{}]}}"))
	cfg := DefaultConfig()
	f.Fuzz(func(t *testing.T, b []byte) {
		check := func(r *Request) {
			if cfg.check(r) != nil {
				return
			}
			rec := r.Record("0199f2c4-7b1e-4c53-9a60-3f2d6c1e8b90", "u", 1)
			back, err := decodeRecord(rec.append(nil))
			if err != nil || !back.same(rec) || back.ID != rec.ID {
				t.Fatalf("%+v came back as %+v: %v", rec, back, err)
			}
			if text := rec.AppendJSON(nil, WeirNames); !json.Valid(text) {
				t.Fatalf("%s", text)
			}
		}
		for _, item := range []Operation{Create, Replace} {
			if r, err := DecodeRequest(b, item); err == nil {
				check(r)
			}
		}
		if batch, err := DecodeBatch(b); err == nil {
			for _, r := range batch {
				check(r)
			}
		}
	})
}

func FuzzDecodeRecord(f *testing.F) {
	name := "x"
	r := Record{ID: "0199f2c4-7b1e-4c53-9a60-3f2d6c1e8b90", Project: "a/b", TraceRef: "r", User: "u", Creator: &name, CreatedAt: 5, Type: "t", Payload: jsontext.Value("{}")}
	f.Add(r.append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := decodeRecord(b); err == nil {
			_ = fmt.Sprint(r)
			table.Entries(nil, nil, b)
		}
	})
}

// TestRecordWeaveColumns: a record keeps the columns that only Weave has, on disk
// and in the form that leaves nothing out; without them it is written as before.
func TestRecordWeaveColumns(t *testing.T) {
	r, err := DecodeRequest([]byte(`{"project_id":"a/b","weave_ref":"weave:///a/b/call/1","feedback_type":"t","payload":{},"scorer_tags":[ "x" ],"span_agent_name":""}`), Create)
	if err != nil {
		t.Fatal(err)
	}
	for _, weave := range []string{`{"scorer_tags":["x"]}`, ""} {
		rec := r.Record("0199f2c4-7b1e-4c53-9a60-3f2d6c1e8b90", "u", 1)
		if string(rec.Weave) != `{"scorer_tags":["x"]}` {
			t.Fatalf("%s", rec.Weave)
		}
		if weave == "" {
			rec.Weave = nil
		}
		data := rec.append(nil)
		back, err := decodeRecord(data)
		if err != nil || !back.same(rec) || string(back.Weave) != weave {
			t.Errorf("%q: %v, %+v", weave, err, back)
		}
		if want := byte(1 + b2i(weave != "")); data[0] != want {
			t.Errorf("%q: version %d, want %d", weave, data[0], want)
		}
		if all := string(back.AppendAll(nil)); !json.Valid([]byte(all)) || strings.Contains(all, `"scorer_tags":["x"]`) != (weave != "") {
			t.Errorf("%q: %s", weave, all)
		}
	}
}
