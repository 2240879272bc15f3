package trajectoryapi_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/auth"
	"weir/internal/jsontext"
	"weir/server/servertest"
)

const modelsPath = "/v1/preview/models"

// recordedRequest is a request that a version of openpipe-art has sent, as
// tools/artclient/check.py lets it. {id} stands for the id of the model.
type recordedRequest struct {
	Method, Path, Body string
	Headers            map[string]string
	Status             int
	Steps              []float64 // of the checkpoints in the answer
}

// TestARTClients: what each version of ART's client sends is answered as it was when the
// version itself was satisfied (docs/interface/trajectories.md, T-2, T-50, T-51, T-52, T-53).
func TestARTClients(t *testing.T) {
	files, err := filepath.Glob("testdata/art-*.jsonl")
	if err != nil || len(files) < 4 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(file, func(t *testing.T) { replayART(t, file) })
	}
}

// replayART sends the requests of a file to a server, and compares the answers.
func replayART(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	ring, err := auth.New([]string{"k1"}, "")
	if err != nil {
		t.Fatal(err)
	}
	h, _ := servertest.NewTrajectories(t, func(s *servertest.Setup) { s.Config.Keys = ring })
	id := ""
	for line := range strings.Lines(string(text)) {
		var r recordedRequest
		if err := jsontext.Decode([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		var headers []string
		for k, v := range r.Headers {
			headers = append(headers, k+": "+v)
		}
		with := strings.NewReplacer("{id}", id)
		status, answer, _ := h.Get(r.Method, with.Replace(r.Path), with.Replace(r.Body), headers...)
		if status != r.Status {
			t.Fatalf("%s %s: %d %s", r.Method, r.Path, status, answer)
		}
		m := servertest.Object(t, answer)
		switch {
		case r.Method == "POST" && r.Path == modelsPath:
			if id != "" && m["id"] != id {
				t.Errorf("another model than %s: %s", id, answer)
			}
			checkARTModel(t, m)
			id = m["id"].(string)
		case r.Steps != nil:
			if steps := stepsOf(t, m); !slices.Equal(steps, r.Steps) {
				t.Errorf("%s: %v, want %v", r.Path, steps, r.Steps)
			}
		case status == 501:
			if !strings.Contains(answer, `{"detail":"This version of weir does not train models`) {
				t.Error(answer)
			}
		}
	}
}

// checkARTModel checks a model that ART has created.
func checkARTModel(t *testing.T, m map[string]any) {
	t.Helper()
	if m["entity"] != "acme" || m["name"] != "agent" || m["base_model"] != "weir-tiny" || !strings.HasPrefix(fmt.Sprint(m["project"]), "art-") {
		t.Errorf("%v", m)
	}
	if run, given := m["run_id"]; run != nil || !given { // from 0.5.16 on its model has this member
		t.Errorf("%v", m)
	}
}

// stepsOf are the steps of the checkpoints of an answer.
func stepsOf(t *testing.T, answer map[string]any) (steps []float64) {
	t.Helper()
	for _, e := range answer["data"].([]any) {
		c := e.(map[string]any)
		if steps = append(steps, c["step"].(float64)); c["metrics"] == nil || c["id"] != fmt.Sprintf("step%v", c["step"]) {
			t.Errorf("%v", c)
		}
	}
	return steps
}

// TestCreateModel: a model is created once for its entity, project and name, and can be read
// at once; and what is wrong with such a request (docs/interface/trajectories.md, T-50, T-51).
func TestCreateModel(t *testing.T) {
	h, _ := servertest.NewTrajectories(t, nil)
	create := func(fields string) (int, string) { return createModel(h, fields) }
	status, first := create(`{"entity":"acme","project":"p","name":"agent","base_model":"b/m","unknown":[1]}`)
	if status != 200 {
		t.Fatal(first)
	}
	m := servertest.Object(t, first)
	if m["object"] != "model" || m["logs"] != 0.0 || m["first_received_at"] != nil || m["base_model"] != "b/m" || m["created_at"] == nil {
		t.Error(first)
	}
	if status, answer := create(`{"entity":"acme","project":"p","name":"agent","base_model":"b/m"}`); status != 409 || !strings.HasPrefix(answer, `{"detail":`) {
		t.Errorf("%d %s", status, answer)
	}
	// The one that is there is returned as it was created.
	if status, answer := create(`{"entity":"acme","project":"p","name":"agent","base_model":"another","return_existing":true}`); status != 200 || answer != first {
		t.Errorf("%d %s", status, answer)
	}
	// Absent and null names have defaults.
	if status, answer := create(`{"entity":null,"project":null,"base_model":"b"}`); status != 200 || !strings.Contains(answer, `"entity":"anonymous","project":"uncategorized","name":"model"`) {
		t.Errorf("%d %s", status, answer)
	}
	for body, want := range map[string]string{
		``: "json_invalid", `[]`: "model_attributes_type", `{}`: `"base_model"],"msg":"Field required","type":"missing"`,
		`{"base_model":5,"entity":"a/b","project":"","name":"` + strings.Repeat("x", 257) + `","return_existing":"yes"}`: `"type":"bool_type"`,
		`{"base_model":"a\nb"}`: "value_error", `{"base_model":"b","project":"a b"}`: "value_error", `{"base_model":"b","entity":7}`: "string_type",
	} {
		if status, answer := create(body); status != 422 || !strings.Contains(answer, want) {
			t.Errorf("%s: %d %s", body, status, answer)
		}
	}
	if _, answer := create(`{"base_model":5,"entity":"a/b","project":"","name":"` + strings.Repeat("x", 257) + `","return_existing":"yes"}`); strings.Count(answer, `"type"`) != 5 {
		t.Error(answer)
	}
	if status, answer, _ := h.Get("POST", modelsPath, `{"base_model":"b"}`, "Content-Type: text/plain"); status != 415 {
		t.Errorf("%d %s", status, answer)
	}
}

func createModel(h *servertest.Server, fields string) (status int, answer string) {
	status, answer, _ = h.Get("POST", modelsPath, fields)
	return status, answer
}

// TestListModels: models that were created and models that were only logged to are listed, read
// and deleted (docs/interface/trajectories.md, T-50, T-51).
func TestListModels(t *testing.T) {
	h, _ := servertest.NewTrajectories(t, nil)
	_, first := createModel(h, `{"entity":"acme","project":"p","name":"agent","base_model":"b/m"}`)
	createModel(h, `{"base_model":"b"}`)
	m := servertest.Object(t, first)
	// A model that is logged to without having been created is listed beside these.
	h.LogGroups(t, modelsPath+"/00free", servertest.Group(`{"final_policy_version":4}`))
	h.LogGroups(t, modelsPath+"/"+m["id"].(string), servertest.Group(`{}`, `{}`))
	h.LogGroups(t, modelsPath+"/zz", servertest.Group(`{}`))
	all, _ := h.List(t, modelsPath+"?order=asc")
	if len(all) != 4 || all[0]["id"] != "00free" || all[0]["entity"] != nil || all[1]["id"] != m["id"] || all[1]["trajectories"] != 2.0 || all[2]["name"] != "model" || all[3]["id"] != "zz" {
		t.Errorf("%v", all)
	}
	for query, n := range map[string]int{"entity=acme": 1, "entity=acme&project=p&name=agent": 1, "name=agent": 1, "project=q": 0, "name=00free": 1, "limit=2": 2, "after=00free&order=asc": 3} {
		if list, _ := h.List(t, modelsPath+"?"+query); len(list) != n {
			t.Errorf("%s: %v", query, list)
		}
	}
	for path, want := range map[string]int{"/" + m["id"].(string): 200, "/00free": 200, "/none": 404, "/none/checkpoints": 404, "/00free?limit=2": 422} {
		if status, answer, _ := h.Get("GET", modelsPath+path, ""); status != want {
			t.Errorf("%s: %d %s", path, status, answer)
		}
	}
	// Nothing was logged for it, and it can be read.
	empty := all[2]["id"].(string)
	for _, path := range []string{"/logs", "/trajectories", "/metrics", "/export"} {
		if status, answer, _ := h.Get("GET", modelsPath+"/"+empty+path, ""); status != 200 {
			t.Errorf("%s: %d %s", path, status, answer)
		}
	}
	// Deleting a model frees its names.
	for _, want := range []int{200, 404} {
		if status, answer, _ := h.Get("DELETE", modelsPath+"/"+m["id"].(string), ""); status != want {
			t.Errorf("%d %s", status, answer)
		}
	}
	if status, answer := createModel(h, `{"entity":"acme","project":"p","name":"agent","base_model":"b"}`); status != 200 || servertest.Object(t, answer)["id"] == m["id"] {
		t.Errorf("%d %s", status, answer)
	}
}

// TestModelKeys: which key may create and use a model (docs/interface/trajectories.md, T-50, T-12.5).
func TestModelKeys(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys.yaml")
	keys := "keys:\n"
	for id, rest := range map[string]string{
		"acme": "tenant: A, projects: ['acme/*'], models: ['*']", "other": "tenant: B, projects: ['acme/*'], models: ['*']", "reader": "tenant: A, projects: ['acme/*'], models: ['*'], rights: [read]",
		"agents": "tenant: A, projects: ['*'], models: ['agent*']", "rest": "tenant: A, projects: ['*'], models: ['x']",
	} {
		keys += fmt.Sprintf("  - {id: %s, hash: %q, user: u, %s}\n", id, servertest.KeyHash(id), rest)
	}
	if err := os.WriteFile(file, []byte(keys), 0o600); err != nil {
		t.Fatal(err)
	}
	ring, err := auth.New(nil, file)
	if err != nil {
		t.Fatal(err)
	}
	h, _ := servertest.NewTrajectories(t, func(s *servertest.Setup) { s.Config.Keys = ring })
	do := func(key, method, path, body string, want int) string {
		t.Helper()
		status, answer, _ := h.Get(method, path, body, "Authorization: Bearer "+key)
		if status != want {
			t.Errorf("%s: %s %s: %d %s, want %d", key, method, path, status, answer, want)
		}
		return answer
	}
	const body = `{"entity":"acme","project":"p","name":"agent","base_model":"b","return_existing":true}`
	id := servertest.Object(t, do("acme", "POST", modelsPath, body, 200))["id"].(string)
	if again := servertest.Object(t, do("agents", "POST", modelsPath, body, 200))["id"]; again != id {
		t.Errorf("%v, want %v", again, id)
	}
	if theirs := servertest.Object(t, do("other", "POST", modelsPath, body, 200))["id"]; theirs == id {
		t.Error("two tenants share a model")
	}
	do("reader", "POST", modelsPath, body, 403)
	do("reader", "POST", modelsPath, `{}`, 422) // the body is checked first (docs/interface/trajectories.md, T-6)
	do("rest", "POST", modelsPath, body, 403)
	do("acme", "POST", modelsPath, strings.Replace(body, "acme", "lab", 1), 403)
	// Without an entity it is the team of the key.
	if answer := do("acme", "POST", modelsPath, `{"base_model":"b"}`, 200); !strings.Contains(answer, `"entity":"acme"`) {
		t.Error(answer)
	}
	// A key for some models may use one by its name as by its id.
	path := modelsPath + "/" + id
	do("agents", "POST", path+"/log", servertest.Group(`{}`), 200)
	do("agents", "GET", path+"/checkpoints", "", 200)
	do("rest", "POST", path+"/log", servertest.Group(`{}`), 403)
	do("rest", "GET", path, "", 403)
	do("other", "GET", path, "", 404)
	do("other", "DELETE", path+"/checkpoints", `{"steps":[0]}`, 404)
	do("reader", "GET", path, "", 200)
	do("reader", "DELETE", path+"/checkpoints", `{"steps":[0]}`, 403)
	do("reader", "POST", "/v1/preview/training-jobs", `{}`, 501)
	do("none", "POST", "/v1/preview/sft-training-jobs", `{}`, 401)
	do("acme", "GET", "/v1/preview/training-jobs/x/events", "", 501)
	do("acme", "GET", "/v1/preview/training-jobs", "", 405)
	do("acme", "GET", "/v1/preview/training-jobs/x", "", 404)
	if list, _ := h.List(t, modelsPath, "Authorization: Bearer agents"); len(list) != 1 {
		t.Errorf("%v", list)
	}
}

// TestCheckpoints: a checkpoint for each step that was logged, with the metrics of its
// trajectories, in pages; and deleting them (docs/interface/trajectories.md, T-52, T-53).
func TestCheckpoints(t *testing.T) {
	h, _ := servertest.NewTrajectories(t, nil)
	_, answer, _ := h.Get("POST", modelsPath, `{"base_model":"b"}`)
	path := modelsPath + "/" + servertest.Object(t, answer)["id"].(string)
	list := func(query string) (text string, whole map[string]any) {
		t.Helper()
		entries, whole := h.List(t, path+"/checkpoints"+query)
		for _, e := range entries {
			text += fmt.Sprintf("%v %v ", e["step"], e["metrics"])
		}
		return strings.TrimSpace(text), whole
	}
	check := func(query, want string) {
		t.Helper()
		if have, _ := list(query); have != want {
			t.Errorf("%s: %s, want %s", query, have, want)
		}
	}
	check("", "0 map[]")
	with := func(split, step, body string) string {
		body = strings.Replace(body, `"train"`, `"`+split+`"`, 1)
		return strings.Replace(body, `{`, `{"step":`+step+`,`, 1)
	}
	h.LogGroups(t, path, servertest.Group(`{"reward":1,"final_policy_version":3,"initial_policy_version":1}`, `{"reward":0,"final_policy_version":5}`, `{"reward":0.5,"initial_policy_version":-2}`, `{"reward":9}`))
	h.LogGroups(t, path, with("val", "7", servertest.Group(`{"reward":0.25,"final_policy_version":99}`)))
	h.LogGroups(t, path, with("train", "7", servertest.Group(`{"reward":2}`)))
	h.LogGroups(t, path, with("train", "8", `{"split":"train","trajectory_groups":[{"exceptions":[{}]}]}`)) // nothing was made
	const reward = "train/exception_rate:0 train/reward:"
	check("?order=asc", "0 map[] 3 map["+reward+"1 train/reward_std_dev:0] 5 map["+reward+"0 train/reward_std_dev:0] 7 map["+reward+"2 train/reward_std_dev:0 val/exception_rate:0 val/reward:0.25 val/reward_std_dev:0]")
	if _, whole := list("?limit=2&order=desc"); whole["last_id"] != "step5" || whole["has_more"] != true {
		t.Errorf("%v", whole)
	}
	check("?limit=2&order=desc&after=step5", "3 map["+reward+"1 train/reward_std_dev:0] 0 map[]")
	check("?limit=1&order=asc&after=step4", "5 map["+reward+"0 train/reward_std_dev:0]") // one that is gone
	for query, want := range map[string]int{"?after=5": 422, "?after=step05": 422, "?after=step-1": 200, "?x=1": 422, "?limit=0": 422} {
		if status, answer, _ := h.Get("GET", path+"/checkpoints"+query, ""); status != want {
			t.Errorf("%s: %d %s", query, status, answer)
		}
	}
	remove := func(body string, want int) string {
		t.Helper()
		status, answer, _ := h.Get("DELETE", path+"/checkpoints", body)
		if status != want {
			t.Errorf("%s: %d %s", body, status, answer)
		}
		return answer
	}
	for body, want := range map[string]string{
		`{}`: "missing", `{"steps":5}`: "list_type", `{"steps":[1,"2"]}`: `"steps","1"`, `{"steps":[1.5]}`: "int_type", `[`: "json_invalid",
		`{"steps":[` + strings.Repeat("1,", 10_000) + `1]}`: "too_long",
	} {
		if answer := remove(body, 422); !strings.Contains(answer, want) {
			t.Errorf("%.40s: %s", body, answer)
		}
	}
	if answer := remove(`{"steps":[3,3,4,7,-1]}`, 200); answer != `{"object":"checkpoints.deleted","deleted_count":2,"not_found_steps":[3,4,-1]}` {
		t.Error(answer)
	}
	remove(`{"steps":[]}`, 200)
	check("?order=asc", "0 map[] 5 map["+reward+"0 train/reward_std_dev:0]")
	// The trajectories stay, and a checkpoint that was deleted does not come back.
	h.LogGroups(t, path, with("train", "7", servertest.Group(`{}`)))
	check("?limit=1", "5 map["+reward+"0 train/reward_std_dev:0]")
	// A model that was not created has the steps that were logged, and no step 0.
	h.LogGroups(t, modelsPath+"/free", servertest.Group(`{"final_policy_version":2}`))
	if entries, _ := h.List(t, modelsPath+"/free/checkpoints"); len(entries) != 1 || entries[0]["step"] != 2.0 {
		t.Errorf("%v", entries)
	}
}
