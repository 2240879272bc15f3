package export

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"weir/trajectory/archive"
)

// TestSamples checks the formats of other trainers (docs/interface/trajectories.md, section
// 13.4).
func TestSamples(t *testing.T) {
	a := newArchive(t, first)
	prompt := `[{"role":"system","content":"You play."},{"role":"user","content":[{"type":"text","text":"bo"},{"type":"text","text":"ard"}]}]`
	completion := `[{"role":"assistant","content":"up","refusal":null,"tool_calls":[{"id":"c1"}]},{"role":"tool","content":"ok","tool_call_id":"c1"},{"role":"assistant","content":"done \ud83d"}]`
	for form, want := range map[Format]string{
		Verl:      `{"input":"system: You play.\nuser: board\nassistant: up\ntool: ok","output":"done \ud83d","gts":{"a":1.0},"score":1.5,"step":3,"turns":2,"won":1}`,
		TRL:       `{"step":3,"prompt":` + prompt + `,"completion":` + completion + `,"reward":1.5,"advantage":ADV,"turns":2,"won":1,"score":9}`,
		Verifiers: `{"example_id":0,"prompt":` + prompt + `,"completion":` + completion + `,"answer":{"a":1.0},"reward":1.5,"metrics":{"turns":2,"won":true,"score":9},"info":{"answer":{"a":1.0},"scenario":"s"},"tool_defs":[{"type":"function"}],"is_truncated":true,"error":null,"turns":2,"won":1,"score":9}`,
		SFT:       `{"messages":[{"role":"system","content":"You play."},{"role":"user","content":[{"type":"text","text":"bo"},{"type":"text","text":"ard"}]},{"role":"assistant","content":"up","tool_calls":[{"id":"c1"}]},{"role":"tool","content":"ok","tool_call_id":"c1"},{"role":"assistant","content":"done \ud83d"}],"tools":[{"type":"function"}]}`,
	} {
		list := objects(t, export(t, a, &archive.Filter{}, Options{Format: form}))
		if len(list) != 2 {
			t.Fatalf("%s: %d lines", form, len(list))
		}
		if form == TRL {
			advantage := list[0]["advantage"].(float64)
			if math.Abs(advantage-0.5/(0.5+1e-4)) > 1e-12 || list[1]["advantage"].(float64) != -advantage {
				t.Errorf("advantages %v %v", advantage, list[1]["advantage"])
			}
			want = strings.Replace(want, "ADV", fmt.Sprint(advantage), 1)
		}
		equalJSON(t, string(form), list[0], want)
	}
	if text := export(t, a, &archive.Filter{}, Options{Format: SFT}); !strings.Contains(text, `"content":"done \ud83d"`) {
		t.Error("a lone surrogate is lost")
	}
	// In a group of one the advantage is 0. Without a choice the completion is empty.
	a = newArchive(t, `{"split":"s","trajectory_groups":[{"trajectories":[{"reward":3,"messages_and_choices":[{"role":"user","content":"x"}]}]}]}`)
	m := objects(t, export(t, a, &archive.Filter{}, Options{Format: TRL}))[0]
	equalJSON(t, "trl", m, `{"step":null,"prompt":[{"role":"user","content":"x"}],"completion":[],"reward":3,"advantage":0}`)
	m = objects(t, export(t, a, &archive.Filter{}, Options{Format: Verl}))[0]
	equalJSON(t, "verl", m, `{"input":"user: x","output":"","gts":null,"score":3,"step":null}`)
}
