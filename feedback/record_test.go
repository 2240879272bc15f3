package feedback

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"weir/internal/jsontext"
	"weir/internal/longcopy"
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

// TestLongRecord: a payload of several pieces comes back as it was, the answer to a batch has
// it, and what is decoded keeps nothing of the bytes that it was read from.
func TestLongRecord(t *testing.T) {
	payload := jsontext.Value(`{"text":"` + strings.Repeat("0123456789", longcopy.Piece/3) + `"}`)
	note := "n"
	rec := &Record{ID: "0199f2c4-7b1e-4c53-9a60-3f2d6c1e8b90", Project: "a/b", User: "u", Creator: &note, Type: "t", Payload: payload, Weave: jsontext.Value(`{"scorer_tags":[1]}`)}
	data := rec.append([]byte("before"))
	if string(data[:6]) != "before" {
		t.Fatalf("%q", data[:6])
	}
	back, err := decodeRecord(data[6:])
	if err != nil {
		t.Fatal(err)
	}
	entries := table.Entries(nil, nil, data[6:])
	clear(data)
	if !back.same(rec) || back.ID != rec.ID || back.Project != rec.Project {
		t.Errorf("%.300v", back)
	}
	for i, e := range table.Entries(nil, nil, rec.append(nil)) {
		if string(entries[i]) != string(e) {
			t.Errorf("the entry %q was %q", entries[i], e)
		}
	}
	receipt := string(rec.AppendReceipt(nil, WeaveNames))
	if want := `{"id":"` + rec.ID + `","created_at":"1970-01-01T00:00:00.000Z","wb_user_id":"u","payload":` + string(payload) + `}`; receipt != want {
		t.Errorf("%.200s", receipt)
	}
	if len(receipt) > rec.maxReceipt() {
		t.Errorf("a receipt of %d bytes, at most %d are expected", len(receipt), rec.maxReceipt())
	}
}
