package main

import (
	"context"
	"strings"
	"testing"

	"weir/calls"
	"weir/internal/quota"
	"weir/objects"
	"weir/store"
)

// TestStoreObjects: weir store verify finds a version whose value is missing, what weir store
// repair does with it mends it, --feedback-retention reaches objects, and the quota of a
// project is for calls and objects together (docs/interface/weave.md, W-232).
func TestStoreObjects(t *testing.T) {
	// Not parallel: a process that another test starts at the same time holds the directory's lock for
	// a moment, and the repair would find the directory in use.
	d := newTracesDir(t)
	publish := func(s *objects.Store, project, id string) error {
		o, err := objects.DecodeObject(t.Context(), []byte(`{"obj":{"project_id":"`+project+`","object_id":"`+id+`","val":"`+strings.Repeat("x", 500)+`"}}`))
		if err == nil {
			_, err = s.Create(t.Context(), "u", o)
		}
		return err
	}
	d.open(func(db *store.DB) error {
		for _, id := range []string{"a", "b"} {
			if err := publish(objects.New(db), "acme/x", id); err != nil {
				return err
			}
		}
		return nil
	})
	d.loseFirst('P') // the value of a version
	d.open(func(db *store.DB) error {
		const most = 2000
		c := calls.NewLimited(db, quota.Limit{Bytes: most, Others: objects.BytesIn})
		o := objects.NewLimited(db, quota.Limit{Bytes: most, Others: calls.BytesIn})
		for c.Complete(t.Context(), calls.Author{User: "u"}, []calls.Complete{{Project: "acme/x", OpName: "f"}}) == nil {
		}
		if err := publish(o, "acme/x", "c"); err == nil || !strings.Contains(err.Error(), "quota") {
			t.Errorf("an object beyond the quota: %v", err)
		}
		if n, err := o.Bytes("acme/x"); err != nil || n == 0 || n > 1000 {
			t.Errorf("%d bytes of objects, %v", n, err)
		}
		rules := []feedbackRule{{"acme/*", 1}}
		if err := expireProjects(context.Background(), "objects", o, rules, d.cfg.Log); err != nil {
			return err
		}
		if n, err := o.Erase(t.Context(), &objects.Erasure{Project: "acme/x", DryRun: true}); n != 1 || err != nil {
			t.Errorf("%d objects of today are left, %v", n, err)
		}
		return nil
	})
	d.verify(0, ", 0 faults")
}
