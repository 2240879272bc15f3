package feedback

import (
	"testing"
)

// TestSchemes checks Config.Schemes.
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
