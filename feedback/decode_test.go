package feedback

import (
	"context"
	"encoding/json"
	"testing"
)

func FuzzDecodeRequest(f *testing.F) {
	f.Add([]byte(`{"project_id":"a/b","trace_ref":"w:///a/b/call/1","feedback_type":"wandb.reaction.1","payload":{"emoji":"👍"},"feedback_id":"x"}`))
	f.Add([]byte(`{"batch":[{"project_id":"a/b","weave_ref":"w:///a/b/call/1","feedback_type":"wandb.note.1","payload":{"note":"\ud800"}}]}`))
	f.Add([]byte("\uFEFF {\"payload\":{\"a\":1,\"a\":[{}]}}"))
	cfg := DefaultConfig()
	f.Fuzz(func(t *testing.T, b []byte) {
		check := func(r *Request) {
			if cfg.check(r) != nil {
				return
			}
			rec := r.Record("0199f2c4-7b1e-4c53-9a60-3f2d6c1e8b90", "u", 1)
			back, err := decodeRecord(rec.append(nil))
			if err != nil || !back.same(rec) || back.ID != rec.ID {
				t.Fatalf("%+v came back as %+v: %v", rec, back, err)
			}
			if text := rec.AppendJSON(nil, WeirNames); !json.Valid(text) {
				t.Fatalf("%s", text)
			}
		}
		for _, item := range []Operation{Create, Replace} {
			if r, err := DecodeRequest(context.Background(), b, item); err == nil {
				check(r)
			}
		}
		if batch, err := DecodeBatch(context.Background(), b); err == nil {
			for _, r := range batch {
				check(r)
			}
		}
	})
}
