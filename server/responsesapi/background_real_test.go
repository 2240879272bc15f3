package responsesapi_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/auth"
	"weir/backend/sim"
	"weir/server/responsesapi"
	"weir/server/servertest"
)

// eventually returns the response with an id as soon as it has a status.
func eventually(t *testing.T, h *servertest.Server, id any, want string) object {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(2 * time.Millisecond) {
		status, answer, _ := h.Get("GET", path+"/"+id.(string), "")
		if status != 200 {
			t.Fatalf("%d %s", status, answer)
		}
		r := decoded(t, answer)
		if r["status"] == want {
			return r
		}
		if time.Now().After(end) {
			t.Fatalf("status %v, want %s", r["status"], want)
		}
	}
}

// hold makes the steps of a server wait until the returned function is called.
func hold(t *testing.T, h *servertest.Server) (release func()) {
	_, let := h.HoldSteps()
	release = sync.OnceFunc(let)
	t.Cleanup(release)
	return release
}

// eventsOf reads the events of a body, whose numbers begin with first.
func eventsOf(t *testing.T, body string, first int) (events []event) {
	t.Helper()
	for block := range strings.SplitSeq(strings.Trim(body, "\n"), "\n\n") {
		name, data, ok := strings.Cut(strings.TrimLeft(block, "\n"), "\ndata: ")
		if name = strings.TrimPrefix(name, "event: "); !ok {
			t.Fatalf("not an event: %q", block)
		}
		e := event{name, decoded(t, data)}
		if e.data["type"] != name || int(e.data["sequence_number"].(float64)) != first+len(events) {
			t.Errorf("event %d is %s", first+len(events), block)
		}
		events = append(events, e)
	}
	return events
}

// TestP38Background: a response in the background is queued, is computed after its request was
// answered, and is then what another one would have been (docs/interface/responses-api.md, P-38).
func TestP38Background(t *testing.T) {
	h := newServer(t, nil, "The answer is 4.")
	release := hold(t, h)
	r := ask(t, h, 0, object{"input": "2+2?", "background": true, "metadata": object{"a": "b"}})
	if r["status"] != "queued" || r["background"] != true || r["store"] != true || len(r["output"].([]any)) != 0 || r["usage"] != nil {
		t.Errorf("%v", r)
	}
	during := eventually(t, h, r["id"], "in_progress")
	if len(during["output"].([]any)) != 0 || during["created_at"] != r["created_at"] {
		t.Errorf("%v", during)
	}
	status, answer, _ := send(t, h, 0, object{"input": "And?", "previous_response_id": r["id"]})
	servertest.Refused(t, status, answer, 400, "previous_response_id")
	release()
	done := eventually(t, h, r["id"], "completed")
	if outputText(done) != "The answer is 4." || done["background"] != true || done["created_at"] != r["created_at"] || done["metadata"].(object)["a"] != "b" {
		t.Errorf("%v", done)
	}
	other := ask(t, h, 0, object{"input": "2+2?"})
	if encoded(t, other["usage"].(object)["output_tokens"]) != encoded(t, done["usage"].(object)["output_tokens"]) {
		t.Errorf("usage %v, and in the background %v", other["usage"], done["usage"])
	}
	next := ask(t, h, 0, object{"input": "And?", "previous_response_id": r["id"]})
	if next["usage"].(object)["input_tokens"].(float64) <= done["usage"].(object)["total_tokens"].(float64) {
		t.Errorf("it was not continued: %v", next["usage"])
	}
	cut := ask(t, h, 0, object{"input": "2+2?", "background": true, "max_output_tokens": 2})
	if got := eventually(t, h, cut["id"], "incomplete"); got["incomplete_details"].(object)["reason"] != "max_output_tokens" {
		t.Errorf("%v", got)
	}
	// What is wrong with a request is said at once.
	for param, fields := range map[string]object{
		"background":  {"input": "x", "background": true, "store": false},
		"temperature": {"input": "x", "background": true, "temperature": 9},
	} {
		status, answer, _ := send(t, h, 0, fields)
		servertest.Refused(t, status, answer, 400, param)
	}
	without := servertest.New(t, nil)
	status, answer, _ = send(t, without, 0, object{"input": "x", "background": true})
	servertest.Refused(t, status, answer, 400, "background")
}

// TestP35Cancel: a response in the background is cancelled while it is computed and while it
// waits, another one is not; it is deleted in the same states (docs/interface/responses-api.md, P-35).
func TestP35Cancel(t *testing.T) {
	h := newServer(t, func(s *servertest.Setup) { s.Config.Background.MostAtOnce = 1 }, strings.Repeat("word ", 200))
	release := hold(t, h)
	background := func() any { return ask(t, h, 0, object{"input": "Is it?", "background": true})["id"] }
	running, waiting, deleted := background(), background(), background()
	eventually(t, h, running, "in_progress")
	for _, id := range []any{waiting, running} {
		answer := ""
		got := make(chan bool)
		go func() {
			_, answer, _ = h.Get("POST", path+"/"+id.(string)+"/cancel", "")
			close(got)
		}()
		<-got
		if r := decoded(t, answer); r["status"] != "cancelled" || r["error"] != nil {
			t.Errorf("%v", r)
		}
		if r := eventually(t, h, id, "cancelled"); r["id"] != id {
			t.Errorf("%v", r)
		}
		_, again, _ := h.Get("POST", path+"/"+id.(string)+"/cancel", "")
		if decoded(t, again)["status"] != "cancelled" {
			t.Errorf("cancelled twice: %s", again)
		}
		status, answer, _ := send(t, h, 0, object{"input": "And?", "previous_response_id": id})
		servertest.Refused(t, status, answer, 400, "previous_response_id")
		_, events, _ := h.Get("GET", path+"/"+id.(string)+"?stream=true", "")
		if all := eventsOf(t, events, 0); all[0].name != "response.created" || all[len(all)-1].name != "response.cancelled" {
			t.Errorf("%s", events)
		}
	}
	if status, answer, _ := h.Get("DELETE", path+"/"+deleted.(string), ""); status != 200 {
		t.Errorf("%d %s", status, answer)
	}
	last := background()
	release()
	eventually(t, h, last, "completed")
	status, answer, _ := h.Get("GET", path+"/"+deleted.(string), "")
	servertest.Refused(t, status, answer, 404, "response_id")

	r := ask(t, h, 0, object{"input": "Is it?", "background": false})
	status, answer, _ = h.Get("POST", path+"/"+r["id"].(string)+"/cancel", "")
	servertest.Refused(t, status, answer, 400, "response_id")
	status, answer, _ = h.Get("POST", path+"/resp_none/cancel", "")
	servertest.Refused(t, status, answer, 404, "response_id")
}

// TestP39Events: the events of a response in the background are streamed while it is computed and
// afterwards, from any number on, and are the same (docs/interface/responses-api.md, P-39).
func TestP39Events(t *testing.T) {
	h := newServer(t, nil, "The answer is four.")
	status, whole, _ := send(t, h, 0, object{"input": "2+2?", "background": true, "stream": true})
	if status != 200 {
		t.Fatalf("%d %s", status, whole)
	}
	all := eventsOf(t, whole, 0)
	text := ""
	for _, e := range all {
		if e.name == "response.output_text.delta" {
			text += e.data["delta"].(string)
		}
	}
	last := all[len(all)-1]
	if all[0].name != "response.created" || all[1].name != "response.queued" || all[2].name != "response.in_progress" || last.name != "response.completed" || text != "The answer is four." {
		t.Fatalf("%q %s", text, whole)
	}
	response := last.data["response"].(object)
	id := response["id"].(string)
	if got := eventually(t, h, id, "completed"); encoded(t, got) != encoded(t, response) {
		t.Errorf("%v, and in the last event %v", got, response)
	}
	for _, c := range []struct {
		query string
		from  int
	}{{"?stream=true", 0}, {"?stream=true&starting_after=0", 1}, {"?stream=true&starting_after=4", 5}, {fmt.Sprintf("?stream=true&starting_after=%d", len(all)-2), len(all) - 1}} {
		_, rest, _ := h.Get("GET", path+"/"+id+c.query, "")
		if got := eventsOf(t, rest, c.from); encodedEvents(t, got) != encodedEvents(t, all[c.from:]) {
			t.Errorf("%s: %s", c.query, rest)
		}
	}
	if _, rest, _ := h.Get("GET", path+"/"+id+"?stream=true&starting_after=99999", ""); rest != "" {
		t.Errorf("after all events: %s", rest)
	}
	for query, param := range map[string]string{"?stream=1": "stream", "?stream=true&starting_after=-1": "starting_after", "?starting_after=1": "starting_after", "?stream=true&starting_after=x": "starting_after"} {
		status, answer, _ := h.Get("GET", path+"/"+id+query, "")
		servertest.Refused(t, status, answer, 400, param)
	}
	other := ask(t, h, 0, object{"input": "2+2?"})
	status, answer, _ := h.Get("GET", path+"/"+other["id"].(string)+"?stream=true", "")
	servertest.Refused(t, status, answer, 400, "stream")

	// A client that comes while it is computed has the rest.
	release := hold(t, h)
	late := ask(t, h, 0, object{"input": "2+2?", "background": true})
	got := make(chan string)
	go func() {
		_, rest, _ := h.Get("GET", path+"/"+late["id"].(string)+"?stream=true&starting_after=1", "")
		got <- rest
	}()
	time.Sleep(5 * time.Millisecond)
	release()
	if events := eventsOf(t, <-got, 2); events[0].name != "response.in_progress" || events[len(events)-1].name != "response.completed" || len(events) != len(all)-2 {
		t.Errorf("%v", events)
	}
}

func encodedEvents(t *testing.T, events []event) (text string) {
	t.Helper()
	for _, e := range events {
		text += encoded(t, e.data) + "\n"
	}
	return text
}

// TestP39Leave: work goes on when the client of its events leaves (docs/interface/responses-api.md, P-39).
func TestP39Leave(t *testing.T) {
	h := newServer(t, nil, "Yes, it is.")
	release := hold(t, h)
	answer := h.Do("POST", path, encoded(t, object{"model": "tiny", "seed": servertest.ScriptSeed, "input": "Is it?", "background": true, "stream": true}))
	lines := bufio.NewReader(answer.Body)
	_, _ = lines.ReadString('\n')
	line, err := lines.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	id := decoded(t, strings.TrimPrefix(line, "data: "))["response"].(object)["id"]
	_ = answer.Body.Close()
	h.Client.CloseIdleConnections()
	release()
	if r := eventually(t, h, id, "completed"); outputText(r) != "Yes, it is." {
		t.Errorf("%v", r)
	}
}

// TestP38Restart: what is not complete when a server stops is computed by the next one on the same
// store, under its project, with the same events (docs/interface/responses-api.md, P-38).
func TestP38Restart(t *testing.T) {
	db := servertest.NewDB(t)
	const acme = "Compat-Project: acme/x"
	server := func() *servertest.Server {
		return newServer(t, func(s *servertest.Setup) {
			s.Config.Responses = responsesapi.NewStore(db, 0, 0)
			s.Config.Background.MostAtOnce = 1
		}, "Yes, it is.")
	}
	first := server()
	release := hold(t, first)
	one := ask(t, first, 0, object{"input": "Is it?", "background": true, "metadata": object{"k": "v"}}, acme)
	two := ask(t, first, 0, object{"input": "Is it?", "background": true, "temperature": 0.5}, acme)
	time.AfterFunc(5*time.Millisecond, release)
	first.Stop()
	second := server()
	for _, r := range []object{one, two} {
		id := r["id"].(string)
		var got object
		for end := time.Now().Add(time.Minute); got["status"] != "completed" && time.Now().Before(end); time.Sleep(time.Millisecond) {
			_, answer, _ := second.Get("GET", path+"/"+id, "", acme)
			got = decoded(t, answer)
		}
		if outputText(got) != "Yes, it is." || got["created_at"] != r["created_at"] || encoded(t, got["metadata"]) != encoded(t, r["metadata"]) {
			t.Errorf("%v", got)
		}
		status, answer, _ := second.Get("GET", path+"/"+id, "")
		servertest.Refused(t, status, answer, 404, "response_id")
	}
	if n := servertest.KeysIn(t, db, 'J'); n != 0 {
		t.Errorf("%d jobs are left", n)
	}
}

// TestP38Limits: a project has a number of responses in the background that are not complete, and
// so have all together (docs/interface/responses-api.md, P-38).
func TestP38Limits(t *testing.T) {
	h := newServer(t, func(s *servertest.Setup) {
		s.Config.Background = responsesapi.Background{MostWaiting: 3, MostOfOwner: 2, MostAtOnce: 1}
	}, "Yes")
	release := hold(t, h)
	one := func(project string) (int, string, object) {
		status, answer, _ := send(t, h, 0, object{"input": "Is it?", "background": true}, "Compat-Project: "+project)
		return status, answer, decoded(t, answer)
	}
	var last object
	for _, c := range []struct {
		project string
		status  int
	}{{"a/a", 200}, {"a/a", 200}, {"a/a", 429}, {"b/b", 200}, {"b/b", 429}, {"c/c", 429}} {
		status, answer, r := one(c.project)
		if status != c.status {
			t.Errorf("%s: %d %s", c.project, status, answer)
		}
		if status == 200 {
			last = r
		}
	}
	release()
	for end := time.Now().Add(time.Minute); last["status"] != "completed" && time.Now().Before(end); time.Sleep(time.Millisecond) {
		_, answer, _ := h.Get("GET", path+"/"+last["id"].(string), "", "Compat-Project: b/b")
		last = decoded(t, answer)
	}
	if status, answer, _ := one("a/a"); status != 200 {
		t.Errorf("after the others: %d %s", status, answer)
	}
}

// TestP38Revoked: a response in the background fails when its key is revoked or expires, whether it is
// computed or waits, and with what there is of its output (docs/interface/responses-api.md, P-38).
func TestP38Revoked(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys.yaml")
	key := func(id, more string) string {
		return fmt.Sprintf("  - {id: %s, tenant: acme, hash: %q%s}\n", id, servertest.KeyHash("sk-"+id), more)
	}
	write := func(keys ...string) {
		t.Helper()
		if err := os.WriteFile(file, []byte("keys:\n"+strings.Join(keys, "")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(key("ann", ""), key("bob", ""), key("cid", ""))
	keys, err := auth.New(nil, file)
	if err != nil {
		t.Fatal(err)
	}
	h := newServer(t, func(s *servertest.Setup) {
		s.Config.Keys = keys
		s.Config.Background.MostAtOnce = 1
	}, strings.Repeat("word ", 300), "Yes.")
	release := hold(t, h)
	background := func(script int, who string) any {
		return ask(t, h, script, object{"input": "Is it?", "background": true}, "Authorization: Bearer sk-"+who)["id"]
	}
	state := func(id any) object {
		status, answer, _ := h.Get("GET", path+"/"+id.(string), "", "Authorization: Bearer sk-cid")
		if status != 200 {
			t.Fatalf("%d %s", status, answer)
		}
		return decoded(t, answer)
	}
	wait := func(id any, want string) (r object) {
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
			if r = state(id); r["status"] == want {
				return r
			}
		}
		t.Fatalf("%v, want %s", r, want)
		return nil
	}
	running, waiting, other := background(0, "ann"), background(0, "bob"), background(1, "cid")
	wait(running, "in_progress")
	write(key("bob", `, expires: "2020-01-01T00:00:00Z"`), key("cid", ""))
	if err := keys.Reload(); err != nil {
		t.Fatal(err)
	}
	// Neither waits for the step that is held.
	if r := wait(waiting, "failed"); r["error"].(object)["code"] != "invalid_api_key" || len(r["output"].([]any)) != 0 {
		t.Errorf("%v", r)
	}
	if r := wait(running, "failed"); r["error"].(object)["code"] != "invalid_api_key" {
		t.Errorf("%v", r)
	}
	if r := state(other); r["status"] == "failed" {
		t.Errorf("%v", r)
	}
	release()
	if r := wait(other, "completed"); outputText(r) != "Yes." {
		t.Errorf("%v", r)
	}
	_, events, _ := h.Get("GET", path+"/"+running.(string)+"?stream=true", "", "Authorization: Bearer sk-cid")
	if end := eventsOf(t, events, 0); end[len(end)-1].name != "response.failed" {
		t.Errorf("%s", events)
	}
}

// TestP32Failed: a response that fails in the middle is kept as failed, with its error, whether its
// client waits or not (docs/interface/responses-api.md, P-32).
func TestP32Failed(t *testing.T) {
	h := newServer(t, nil, strings.Repeat("word ", 100))
	steps := 0
	h.SetHook(func(c sim.Call, _ int) error {
		if c == sim.Begin {
			if steps++; steps == 8 {
				return errors.New("the device is on fire")
			}
		}
		return nil
	})
	events := stream(t, h, 0, object{"input": "Is it?"})
	last := events[len(events)-1]
	response := last.data["response"].(object)
	if last.name != "response.failed" || response["store"] != true {
		t.Fatalf("%v", last)
	}
	if got := eventually(t, h, response["id"], "failed"); encoded(t, got) != encoded(t, response) || got["error"].(object)["message"] == "" {
		t.Errorf("%v\nwant %v", got, response)
	}
	steps = 0
	r := ask(t, h, 0, object{"input": "Is it?", "background": true})
	got := eventually(t, h, r["id"], "failed")
	if got["error"].(object)["code"] != "server_error" || outputText(got) == "" {
		t.Errorf("%v", got)
	}
	status, answer, _ := send(t, h, 0, object{"input": "And?", "previous_response_id": r["id"]})
	servertest.Refused(t, status, answer, 400, "previous_response_id")
	_, all, _ := h.Get("GET", path+"/"+r["id"].(string)+"?stream=true", "")
	end := eventsOf(t, all, 0)
	if n := len(end); end[n-1].name != "response.failed" || end[n-2].name != "error" {
		t.Errorf("%s", all)
	}
}
