package feedback_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"

	"weir/feedback"
	"weir/store"
)

// A note on the answer of a chat completion, and a query for the notes on it.
func Example() {
	dir, err := os.MkdirTemp("", "feedback")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	cfg := store.DefaultConfig(dir)
	cfg.MinFree, cfg.Log = 0, slog.New(slog.DiscardHandler)
	db, err := store.Open(cfg)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	s := feedback.New(db, feedback.DefaultConfig())

	note, err := feedback.DecodeRequest(context.Background(), []byte(`{
		"project_id": "acme/support",
		"trace_ref": "weave:///acme/support/call/chatcmpl-1",
		"feedback_type": "wandb.note.1",
		"payload": {"note": "It cites its sources."}
	}`), feedback.Create)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := s.Create(context.Background(), feedback.Author{User: "ann"}, note, feedback.Once{}); err != nil {
		log.Fatal(err)
	}

	query, err := s.DecodeQuery(context.Background(), []byte(`{
		"project_id": "acme/support",
		"fields": ["platform_user_id", "payload.note"],
		"query": {"$expr": {"$eq": [{"$getField": "trace_ref"}, {"$literal": "weave:///acme/support/call/chatcmpl-1"}]}}
	}`), feedback.ForQuery, false)
	if err != nil {
		log.Fatal(err)
	}
	if err := s.Query(context.Background(), query, os.Stdout); err != nil {
		log.Fatal(err)
	}
	fmt.Println()
	// Output: {"result":[{"platform_user_id":"ann","payload.note":"It cites its sources."}],"total_count":1}
}
