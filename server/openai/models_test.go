package openai_test

import (
	"encoding/json"
	"strings"
	"testing"

	"weir/server/servertest"
)

type modelEntry struct {
	ID          string
	Object      string
	Created     int64
	OwnedBy     string `json:"owned_by"`
	Root        string
	Parent      *string
	MaxModelLen int `json:"max_model_len"`
	Permission  []struct {
		ID, Object, Organization string
		Created                  int64
		AllowSampling            bool `json:"allow_sampling"`
		AllowLogprobs            bool `json:"allow_logprobs"`
		AllowView                bool `json:"allow_view"`
		IsBlocking               bool `json:"is_blocking"`
	}
}

func (e *modelEntry) check(t *testing.T, id string) {
	t.Helper()
	if e.ID != id || e.Object != "model" || e.OwnedBy != "weir" || e.Root != "models/tiny" || e.Parent != nil || e.MaxModelLen != 1024 || e.Created != 1_772_900_000 {
		t.Errorf("%+v", e)
	}
	if len(e.Permission) != 1 {
		t.Fatalf("%d permissions", len(e.Permission))
	}
	if p := e.Permission[0]; !strings.HasPrefix(p.ID, "modelperm-") || p.Object != "model_permission" || !p.AllowSampling || !p.AllowLogprobs || !p.AllowView || p.IsBlocking || p.Organization != "*" {
		t.Errorf("%+v", p)
	}
}

// docs/interface/chat-completions.md, section 17.1: every name has an entry, in the
// list and alone, whether the client escapes the slashes in it or not.
func TestModels(t *testing.T) {
	names := []string{"org/tiny-1.0", "a b", "100%"}
	h := newServer(t, func(s *servertest.Setup) { s.Model.Names = names })
	status, answer, header := h.Get("GET", "/v1/models", "")
	var list struct {
		Object string
		Data   []modelEntry
	}
	if err := json.Unmarshal([]byte(answer), &list); err != nil || status != 200 || list.Object != "list" || len(list.Data) != len(names) || header.Get("Content-Type") != "application/json" {
		t.Fatalf("%d %v %s", status, err, answer)
	}
	for i, name := range names {
		list.Data[i].check(t, name)
	}
	for path, want := range map[string]string{
		"org/tiny-1.0": names[0], "org%2Ftiny-1.0": names[0], "org%2ftiny%2D1.0": names[0], "org/tiny-1.0?x=1": names[0],
		"a%20b": names[1], "100%25": names[2],
		"": "", "nobody": "", "org": "", "org/": "", "/org/tiny-1.0": "", "org//tiny-1.0": "", "org/tiny-1.0/": "", "org/../org/tiny-1.0": "", "org%252Ftiny-1.0": "",
	} {
		status, answer, _ := h.Get("GET", "/v1/models/"+path, "")
		switch {
		case want != "":
			var e modelEntry
			if err := json.Unmarshal([]byte(answer), &e); err != nil || status != 200 {
				t.Errorf("%s: %d %s", path, status, answer)
				continue
			}
			e.check(t, want)
		case path == "":
			if status != 200 || !strings.HasPrefix(answer, `{"object":"list"`) { // it leads to /v1/models
				t.Errorf("%d %s", status, answer)
			}
		default:
			if f := servertest.Refused(t, status, answer, 404, "model"); f.Type != "NotFoundError" || !strings.Contains(f.Message, "does not exist") {
				t.Errorf("%s: %s", path, answer)
			}
		}
	}
}
