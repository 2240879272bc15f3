package feedback

import (
	"strings"
	"testing"
)

// TestRefs checks correct and wrong references (docs/interface/feedback.md, section 5.1 and
// case F#17).
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
