package weaveapi_test

import (
	"strings"
	"testing"

	"weir/server/servertest"
)

// TestServerInfo: clients of Weave ask for the versions with Basic credentials, and tools for
// vLLM with Bearer tokens; developers get the settings beside them
// (docs/interface/weave.md, W-500).
func TestServerInfo(t *testing.T) {
	const least, newest = `"min_required_weave_python_version":"0.52.0"`, `"trace_server_version":"1.0.0"`
	s := newServer(t, nil)
	for _, header := range []string{servertest.Basic("api", "write"), servertest.Basic("alice", "pass:word"), "Authorization: Bearer write"} {
		if status, text, _ := s.Get("GET", "/server_info", "", header); status != 200 || !strings.Contains(text, least) || !strings.Contains(text, newest) || strings.Contains(text, "vllm_config") {
			t.Errorf("%s: %d %s", header, status, text)
		}
	}
	for _, headers := range [][]string{nil, {servertest.Basic("api", "wrong")}, {servertest.Basic("alice", "write")}, {"Authorization: Bearer wrong"}} {
		if status, text, _ := s.Get("GET", "/server_info", "", headers...); status != 401 {
			t.Errorf("%q: %d %s", headers, status, text)
		}
	}
	if status, _, _ := s.Get("GET", "/v1/models", "", servertest.Basic("api", "write")); status != 401 {
		t.Errorf("Basic at another function of the OpenAI interface: %d", status)
	}
	dev := newServer(t, func(o *servertest.Setup) { o.Config.Functions.Dev = true })
	if status, text, _ := dev.Get("GET", "/server_info", "", servertest.Basic("api", "write")); status != 200 || !strings.Contains(text, least) || !strings.Contains(text, newest) || !strings.Contains(text, `"vllm_config"`) {
		t.Errorf("for developers: %d %s", status, text)
	}
	without := servertest.NewFeedback(t).Serve(t, nil)
	if status, text, _ := without.Get("GET", "/server_info", "", servertest.Basic("api", "write")); status != 200 || strings.Contains(text, "weave") {
		t.Errorf("without calls: %d %s", status, text)
	}
}

// TestGraphQL: the questions of Weave's clients, in the form in which weave 0.52 to 0.54
// send them (docs/interface/weave.md, W-501 and W-502).
func TestGraphQL(t *testing.T) {
	s := newServer(t, nil)
	const (
		viewer  = `query DefaultEntity {\n  viewer {\n    username\n    defaultEntity {\n      name\n    }\n  }\n}`
		project = `query Project($name: String!, $entityName: String!) {\n  project(name: $name, entityName: $entityName) {\n    name\n  }\n}`
		upsert  = `mutation UpsertModel($name: String!, $id: String, $entity: String!) {\n  upsertModel(\n    input: {id: $id, name: $name, entityName: $entity}\n  ) {\n    model {\n      name\n      description\n    }\n  }\n}`
		none    = `{"data":{"project":null}}`
	)
	for _, c := range []struct{ query, variables, key, want string }{
		{viewer, `{}`, "write", `{"data":{"viewer":{"username":"u-17","entity":"acme","defaultEntity":{"name":"acme"}}}}`},
		{viewer, `null`, "lab", `"username":"u-19","entity":"lab"`},
		{viewer, `{}`, "chief", `"defaultEntity":{"name":"u-1"}`},
		{project, `{"entityName":"acme","name":"support"}`, "write", `{"data":{"project":{"name":"support"}}}`},
		{project, `{"entityName":"acme","name":"support"}`, "read", `{"data":{"project":{"name":"support"}}}`},
		{project, `{"entityName":"lab","name":"x"}`, "write", none},
		{project, `{"entityName":"acme"}`, "lab", none},
		{upsert, `{"entity":"acme","name":"new"}`, "write", `{"data":{"upsertModel":{"model":{"name":"new","description":null}}}}`},
		{upsert, `{"entity":"acme","name":"new"}`, "read", `"code":"PERMISSION_ERROR"`},
		{upsert, `{"entity":"lab","name":"x"}`, "write", `"message":"The key has no right to write in the project lab/x."`},
		{`query ServerInfo { serverInfo { frontendHost } }`, `{}`, "read", `{"data":{"serverInfo":{"frontendHost":null}}}`},
		{`# viewer {\nquery A($x: In = {a: 1}) { artifact(id: 1) { id } }`, `{}`, "read", `this query begins with artifact."`},
		{`query`, `{}`, "read", `begins with nothing."`},
	} {
		status, _, text := s.post("/graphql", `{"query":"`+c.query+`","variables":`+c.variables+`}`, servertest.Basic("api", c.key))
		if status != 200 || !strings.Contains(text, c.want) {
			t.Errorf("%s %s as %s: %d %s", c.query, c.variables, c.key, status, text)
		}
	}
	for body, want := range map[string]int{`{`: 422, `[]`: 422, `{"query":1}`: 422, `{"query":"{viewer{username}}"}`: 200} {
		if status, _, text := s.post("/graphql", body); status != want {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
	if status, text, _ := s.Get("POST", "/graphql", `{"query":"{viewer{username}}"}`); status != 401 {
		t.Errorf("without a key: %d %s", status, text)
	}
}
