package server_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"weir/server/servertest"
)

// TestEveryFunctionOfWeave: every route that the pinned clients of Weave and ART can call is
// served, or 501 with a sentence, and docs/interface/weave.md lists it (W-700). The list is
// read off the packages by tools/weaveroutes/routes.py.
func TestEveryFunctionOfWeave(t *testing.T) {
	list, err := os.ReadFile("../tools/weaveroutes/routes.txt")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../docs/interface/weave.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), `<a id="w-700">`)
	parameter := regexp.MustCompile(`\{[^}]*\}`)
	documented := map[string]bool{}
	for _, m := range regexp.MustCompile("`(/[^`]*)`").FindAllStringSubmatch(section, -1) {
		documented[parameter.ReplaceAllString(m[1], "{}")] = true
	}
	h := servertest.NewWeave(t).Serve(t, func(s *servertest.Setup) {
		s.Config.Trajectories.Archive = servertest.NewArchive(t).Archive
	})
	routes := strings.Fields(string(list))
	if len(routes) < 100 {
		t.Errorf("only %d routes", len(routes))
	}
	for _, route := range routes {
		path := strings.ReplaceAll(route, "{}", "x")
		r, found := h.Instance.Find(path)
		if !found || !documented[route] {
			t.Errorf("%s: served %v, documented %v", route, found, documented[route])
			continue
		}
		method, _, _ := strings.Cut(r.Methods, ",")
		if status, answer, _ := h.Get(method, path, "{}", servertest.Basic("api", "chief")); status == 404 && strings.Contains(answer, `"Not Found"`) || status == 501 && !strings.HasPrefix(answer, `{"reason":"weir`) {
			t.Errorf("%s: %d %s", route, status, answer)
		}
	}
}
