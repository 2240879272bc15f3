package feedback

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"weir/internal/jsontext"
)

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

// TestRecordWeaveColumns checks that a record keeps the columns that only Weave has, on disk
// and in AppendAll, and that a record without them is written as version 1.
func TestRecordWeaveColumns(t *testing.T) {
	r, err := DecodeRequest(context.Background(), []byte(`{"project_id":"a/b","weave_ref":"weave:///a/b/call/1","feedback_type":"t","payload":{},"scorer_tags":[ "x" ],"span_agent_name":""}`), Create)
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
