package responsesapi_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/auth"
	"weir/feedback"
	"weir/server/responsesapi"
	"weir/server/servertest"
)

// TestP30Previous: the prompt of a response that continues another is the tokens of that one,
// prompt and output, and then those of what the template renders after it
// (docs/interface/responses-api.md, P-30).
func TestP30Previous(t *testing.T) {
	// The output is written in letters, so that tokenizing its text again would give others.
	var letters []int32
	for _, c := range "Paris" {
		letters = append(letters, servertest.Encode(string(c), false)...)
	}
	h := newServer(t, func(s *servertest.Setup) {
		withTemplate(plainTemplate)(s)
		s.Script = [][]int32{letters, servertest.Encode("Lyon", false)}
	})
	one := ask(t, h, 0, object{"input": "The capital?"})
	if outputText(one) != "Paris" {
		t.Fatalf("%v", one)
	}
	if again := servertest.Encode("Paris", false); len(again) >= len(letters) {
		t.Fatal("the tokens of the text are not others")
	}
	usage := func(r object, name string) int { return int(r["usage"].(object)[name].(float64)) }
	first := usage(one, "input_tokens") + usage(one, "output_tokens")
	two := ask(t, h, 1, object{"input": "And the next?", "previous_response_id": one["id"]})
	rest := len(servertest.Encode("\n<|im_start|>user\nAnd the next?<|im_end|>\n<|im_start|>assistant\n", false))
	if got := usage(two, "input_tokens"); got != first+rest {
		t.Errorf("%d tokens of prompt, want %d+%d", got, first, rest)
	}
	if len(two["metadata"].(object)) != 0 || two["previous_response_id"] != one["id"] {
		t.Errorf("metadata %v, previous %v", two["metadata"], two["previous_response_id"])
	}
	// input_tokens counts the same prompt (P-26).
	status, answer, _ := h.Get("POST", path+"/input_tokens", encoded(t, object{"input": "And the next?", "previous_response_id": one["id"]}))
	if status != 200 || int(decoded(t, answer)["input_tokens"].(float64)) != first+rest {
		t.Errorf("%d %s, want %d tokens", status, answer, first+rest)
	}
	// A third turn has all of both.
	three := ask(t, h, 1, object{"input": "And then?", "previous_response_id": two["id"]})
	rest = len(servertest.Encode("\n<|im_start|>user\nAnd then?<|im_end|>\n<|im_start|>assistant\n", false))
	if got, want := usage(three, "input_tokens"), usage(two, "input_tokens")+usage(two, "output_tokens")+rest; got != want {
		t.Errorf("%d tokens of prompt, want %d", got, want)
	}
	// An answer that was cut is continued by the token that ends a turn.
	cut := ask(t, h, 0, object{"input": "The capital?", "max_output_tokens": 2})
	after := ask(t, h, 1, object{"input": "And then?", "previous_response_id": cut["id"]})
	if got, want := usage(after, "input_tokens"), usage(cut, "input_tokens")+2+1+rest; got != want {
		t.Errorf("%d tokens of prompt after an answer that was cut, want %d", got, want)
	}
}

const plainTemplate = `{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}`

// TestP31Context: the metadata say when the template would have rendered the earlier turns in
// another way, and when they were rendered anew (docs/interface/responses-api.md, P-31).
func TestP31Context(t *testing.T) {
	h := newServer(t, withTemplate(thoughtful), "Hm.\n</think>\nFour.")
	context := func(r object) string {
		s, _ := r["metadata"].(object)["weir_context"].(string)
		return s
	}
	one := ask(t, h, 0, object{"input": "2+2?", "metadata": object{"mine": "kept", "weir_context": "forged"}})
	if m := one["metadata"].(object); m["mine"] != "kept" || len(m) != 1 {
		t.Errorf("%v", m)
	}
	// The template leaves out the thoughts of the first turn, which the tokens have.
	two := ask(t, h, 0, object{"input": "And 3+3?", "previous_response_id": one["id"]})
	if got := context(two); !strings.HasPrefix(got, "continued") {
		t.Errorf("context %q", got)
	}
	used := func(r object) float64 { return r["usage"].(object)["input_tokens"].(float64) }
	changed := ask(t, h, 0, object{"input": "And 3+3?", "instructions": "Be brief.", "previous_response_id": one["id"]})
	if got := context(changed); !strings.HasPrefix(got, "rendered anew") {
		t.Errorf("context %q", got)
	}
	if used(two) == used(changed) {
		t.Error("both have the same prompt")
	}
	// The same instructions again continue.
	same := ask(t, h, 0, object{"input": "And?", "instructions": "Be brief.", "previous_response_id": changed["id"]})
	if got := context(same); !strings.HasPrefix(got, "continued") {
		t.Errorf("context %q", got)
	}
}

// TestP32Kept: what is kept can be asked for and deleted, by its owner alone; store false keeps
// nothing (docs/interface/responses-api.md, P-32 and P-33).
func TestP32Kept(t *testing.T) {
	h := newServer(t, nil, "Yes")
	r := ask(t, h, 0, object{"input": "Is it?"})
	id := r["id"].(string)
	status, answer, _ := h.Get("GET", path+"/"+id, "")
	if status != 200 || encoded(t, decoded(t, answer)) != encoded(t, r) {
		t.Errorf("status %d: %s\nwant %s", status, answer, encoded(t, r))
	}
	streamed := stream(t, h, 0, object{"input": "Is it?"})
	last := streamed[len(streamed)-1].data["response"].(object)
	if status, answer, _ = h.Get("GET", path+"/"+last["id"].(string), ""); status != 200 || encoded(t, decoded(t, answer)) != encoded(t, last) {
		t.Errorf("status %d: %s\nwant %s", status, answer, encoded(t, last))
	}
	status, answer, _ = h.Get("DELETE", path+"/"+id, "")
	if d := decoded(t, answer); status != 200 || d["deleted"] != true || d["id"] != id {
		t.Errorf("%d %s", status, answer)
	}
	for _, method := range []string{"GET", "DELETE"} {
		status, answer, _ = h.Get(method, path+"/"+id, "")
		servertest.Refused(t, status, answer, 404, "response_id")
	}
	none := ask(t, h, 0, object{"input": "Is it?", "store": false})
	if none["store"] != false || r["store"] != true {
		t.Errorf("store is %v, and %v", none["store"], r["store"])
	}
	status, answer, _ = h.Get("GET", path+"/"+none["id"].(string), "")
	servertest.Refused(t, status, answer, 404, "response_id")
	status, answer, _ = send(t, h, 0, object{"input": "And?", "previous_response_id": none["id"]})
	servertest.Refused(t, status, answer, 404, "previous_response_id")
}

// TestP33Foreign: a response of another project or another tenant is not found
// (docs/interface/responses-api.md, P-33).
func TestP33Foreign(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys.yaml")
	text := "keys:\n"
	for _, name := range []string{"ann", "bob", "cid"} {
		projects := `, projects: ["acme/shared"]`
		if name == "cid" {
			projects = ""
		}
		text += fmt.Sprintf("  - {id: %s, hash: %q%s}\n", name, servertest.KeyHash("sk-"+name), projects)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	keys, err := auth.New(nil, file)
	if err != nil {
		t.Fatal(err)
	}
	h := newServer(t, func(s *servertest.Setup) { s.Config.Keys = keys }, "Yes")
	as := func(name, project string) []string {
		headers := []string{"Authorization: Bearer sk-" + name}
		if project != "" {
			headers = append(headers, "Compat-Project: "+project)
		}
		return headers
	}
	found := func(id any, headers []string) bool {
		status, answer, _ := h.Get("GET", path+"/"+id.(string), "", headers...)
		if status != 200 && status != 404 {
			t.Errorf("status %d: %s", status, answer)
		}
		return status == 200
	}
	shared := ask(t, h, 0, object{"input": "Is it?"}, as("ann", "acme/shared")...)["id"]
	own := ask(t, h, 0, object{"input": "Is it?"}, as("cid", "acme/shared")...)["id"]
	for _, c := range []struct {
		id      any
		name    string
		project string
		want    bool
	}{
		{shared, "ann", "acme/shared", true},
		{shared, "bob", "acme/shared", true},  // named for it, too
		{shared, "cid", "acme/shared", false}, // may send any name, and is named for none
		{shared, "cid", "acme/other", false},
		{shared, "ann", "", false},
		{own, "cid", "acme/shared", true},
		{own, "ann", "acme/shared", false},
	} {
		if got := found(c.id, as(c.name, c.project)); got != c.want {
			t.Errorf("%s in %q: found %v, want %v", c.name, c.project, got, c.want)
		}
	}
	status, answer, _ := send(t, h, 0, object{"input": "And?", "previous_response_id": shared}, as("cid", "acme/shared")...)
	servertest.Refused(t, status, answer, 404, "previous_response_id")
}

// TestP34InputItems: the items of an input are listed with ids, in pages
// (docs/interface/responses-api.md, P-34).
func TestP34InputItems(t *testing.T) {
	h := newServer(t, nil, "Yes")
	r := ask(t, h, 0, object{"input": []any{
		object{"role": "developer", "content": "Be brief."},
		object{"role": "user", "content": "One?"},
		object{"id": "msg_mine", "role": "assistant", "content": "Two."},
		object{"role": "user", "content": []any{object{"type": "input_text", "text": "Three?"}}},
	}})
	list := func(query string) ([]any, object) {
		t.Helper()
		status, answer, _ := h.Get("GET", path+"/"+r["id"].(string)+"/input_items"+query, "")
		if status != 200 {
			t.Fatalf("%d %s", status, answer)
		}
		page := decoded(t, answer)
		return page["data"].([]any), page
	}
	all, page := list("?order=asc")
	if len(all) != 4 || page["has_more"] != false || page["last_id"] != all[3].(object)["id"] {
		t.Fatalf("%v", page)
	}
	if all[2].(object)["id"] != "msg_mine" || all[1].(object)["content"].([]any)[0].(object)["text"] != "One?" {
		t.Errorf("%v", all)
	}
	newest, page := list("?limit=3")
	if len(newest) != 3 || page["has_more"] != true || newest[0].(object)["id"] != all[3].(object)["id"] {
		t.Errorf("%v", page)
	}
	rest, page := list("?limit=3&after=" + newest[2].(object)["id"].(string))
	if len(rest) != 1 || page["has_more"] != false || rest[0].(object)["id"] != all[0].(object)["id"] {
		t.Errorf("%v", page)
	}
	for query, param := range map[string]string{"?limit=0": "limit", "?limit=101": "limit", "?order=up": "order", "?after=x": "after"} {
		status, answer, _ := h.Get("GET", path+"/"+r["id"].(string)+"/input_items"+query, "")
		servertest.Refused(t, status, answer, 400, param)
	}
	// An item that is referred to is the item (P-11).
	tokens := func(items ...any) any {
		status, answer, _ := h.Get("POST", path+"/input_tokens", encoded(t, object{"input": items}))
		if status != 200 {
			t.Fatal(answer)
		}
		return decoded(t, answer)["input_tokens"]
	}
	answered := r["output"].([]any)[0].(object)
	said, next := object{"role": "user", "content": "One?"}, object{"role": "user", "content": "So?"}
	if got, want := tokens(said, object{"type": "item_reference", "id": answered["id"]}, next), tokens(said, object{"role": "assistant", "content": "Yes"}, next); got != want {
		t.Errorf("%v tokens with a reference, %v with the item", got, want)
	}
	status, answer, _ := send(t, h, 0, object{"input": []any{object{"type": "item_reference", "id": "msg_none"}}})
	servertest.Refused(t, status, answer, 400, "input[0]")
}

// TestP36Oldest: a project that keeps as much as it may drops its oldest responses
// (docs/interface/responses-api.md, P-36).
func TestP36Oldest(t *testing.T) {
	store := responsesapi.NewStore(servertest.NewDB(t), 6000, 0)
	h := newServer(t, func(s *servertest.Setup) { s.Config.Responses = store }, "Yes")
	var ids []any
	for i := range 8 {
		h.SetClock(func() time.Time { return time.Unix(1_772_900_001+int64(i), 0) })
		ids = append(ids, ask(t, h, 0, object{"input": "Is it?"})["id"])
	}
	kept := 0
	for i, id := range ids {
		status, _, _ := h.Get("GET", path+"/"+id.(string), "")
		if status == 200 {
			kept++
		} else if kept > 0 {
			t.Errorf("response %d was dropped before older ones", i)
		}
	}
	if kept == 0 || kept == len(ids) {
		t.Errorf("%d are kept", kept)
	}
	// One that is larger than all that may be kept is answered and not kept.
	r := ask(t, h, 0, object{"input": "Is it?", "instructions": strings.Repeat("word ", 900), "truncation": "auto", "max_output_tokens": 5, "metadata": object{}})
	if r["store"] != true && r["store"] != false {
		t.Error(r["store"])
	}
	huge := ask(t, h, 0, object{"input": "x", "instructions": strings.Repeat("a", 900), "safety_identifier": strings.Repeat("s", 7000)})
	if huge["store"] != false {
		t.Errorf("store %v", huge["store"])
	}
}

// TestP37Erase: an erasure of a project deletes its responses (docs/interface/responses-api.md, P-37).
func TestP37Erase(t *testing.T) {
	h := newServer(t, func(s *servertest.Setup) {
		s.Config.Feedback = feedback.New(servertest.NewDB(t), feedback.DefaultConfig())
	}, "Yes")
	r := ask(t, h, 0, object{"input": "Is it?"}, "Compat-Project: acme/x")
	erase := func(more object) object {
		t.Helper()
		fields := object{"project_id": "acme/x", "confirm": "acme/x"}
		for k, v := range more {
			fields[k] = v
		}
		status, answer, _ := h.Get("POST", "/feedback/erase", encoded(t, fields), servertest.Basic("u", "k"))
		if status != 200 {
			t.Fatalf("%d %s", status, answer)
		}
		return decoded(t, answer)
	}
	for _, c := range []struct {
		fields object
		want   float64
	}{
		{object{"before": "1999-01-01T00:00:00Z"}, 0},
		{object{"trace_ref": "weave:///acme/x/call/0198c0de-0000-7000-8000-000000000000"}, 0},
		{object{"before": "2100-01-01T00:00:00Z", "dry_run": true}, 1},
		{object{"before": "2100-01-01T00:00:00Z"}, 1},
		{object{"before": "2100-01-01T00:00:00Z"}, 0},
	} {
		if got := erase(c.fields)["responses"]; got != c.want {
			t.Errorf("%v: %v responses, want %v", c.fields, got, c.want)
		}
	}
	status, answer, _ := h.Get("GET", path+"/"+r["id"].(string), "", "Compat-Project: acme/x")
	servertest.Refused(t, status, answer, 404, "response_id")
}
