package responsesapi_test

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"testing"
	"time"

	"weir/server/responsesapi"
	"weir/server/servertest"
)

func record(id string, created time.Time, user string, size int) *responsesapi.Record {
	return &responsesapi.Record{
		ID: id, Created: created.UnixMilli(), User: user, Response: bytes.Repeat([]byte{'r'}, size), Items: []byte(`{}`), Messages: []byte(`{},{}`),
		Count: 2, IDs: []int32{1, 2, 1 << 30},
	}
}

// TestStore: what was put is got, by its owner; sums are right after any order of changes.
func TestStore(t *testing.T) {
	db := servertest.NewDB(t)
	s := responsesapi.NewStore(db, 0, 0)
	now := time.Now()
	own, other := responsesapi.Owner{Project: "a/b", Tenant: "x"}, responsesapi.Owner{Project: "a/b", Tenant: "x\x00y"}
	want := record("resp_1", now, "ann", 100)
	put(t, s, own, want)
	put(t, s, other, record("resp_2", now, "bob", 100))
	got, err := s.Get(own, "resp_1")
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v %v", got, err)
	}
	for _, c := range []struct {
		owner responsesapi.Owner
		id    string
	}{{other, "resp_1"}, {own, "resp_2"}, {own, "resp_"}, {own, "resp_11"}, {responsesapi.Owner{Project: "a/b"}, "resp_1"}, {responsesapi.Owner{}, "resp_1"}} {
		if got, err := s.Get(c.owner, c.id); got != nil || err != nil {
			t.Errorf("%q %s: %v %v", c.owner, c.id, got, err)
		}
	}
	if found, err := s.Delete(context.Background(), other, "resp_1"); found || err != nil {
		t.Errorf("deleted by another: %v %v", found, err)
	}
	if found, err := s.Delete(context.Background(), own, "resp_1"); !found || err != nil {
		t.Errorf("%v %v", found, err)
	}
	if got, _ := s.Get(own, "resp_1"); got != nil {
		t.Error("it is still there")
	}
	for _, tag := range []byte("RO") {
		if n := servertest.KeysIn(t, db, tag); n != 1 {
			t.Errorf("%d keys of %c", n, tag)
		}
	}
}

func put(t *testing.T, s *responsesapi.Store, o responsesapi.Owner, r *responsesapi.Record) {
	t.Helper()
	if kept, err := s.Put(context.Background(), o, r); !kept || err != nil {
		t.Fatalf("kept %v, %v", kept, err)
	}
}

// TestStoreLimit: the oldest responses of an owner make room for new ones, and those of others
// stay (docs/interface/responses-api.md, P-36).
func TestStoreLimit(t *testing.T) {
	s := responsesapi.NewStore(servertest.NewDB(t), 10_000, 0)
	own, other := responsesapi.Owner{Project: "a/b"}, responsesapi.Owner{Project: "a/c"}
	start := time.Now()
	put(t, s, other, record("resp_other", start.Add(-time.Hour), "", 5000))
	for i := range 50 {
		put(t, s, own, record(fmt.Sprintf("resp_%d", i), start.Add(time.Duration(i)*time.Second), "", 1000+i))
	}
	for i := range 50 {
		got, err := s.Get(own, fmt.Sprintf("resp_%d", i))
		if err != nil || (got != nil) != (i >= 41) { // ten of about 1,090 bytes would be too many
			t.Errorf("response %d: %v %v", i, got != nil, err)
		}
	}
	if got, _ := s.Get(other, "resp_other"); got == nil {
		t.Error("that of another project was dropped")
	}
	if kept, err := s.Put(context.Background(), own, record("resp_huge", start, "", 10_000)); kept || err != nil {
		t.Errorf("a response that is too large: %v %v", kept, err)
	}
	// What is deleted makes room.
	for i := 41; i < 50; i++ {
		if found, err := s.Delete(context.Background(), own, fmt.Sprintf("resp_%d", i)); !found || err != nil {
			t.Fatal(found, err)
		}
	}
	put(t, s, own, record("resp_big", start.Add(-time.Minute), "", 9000))
	put(t, s, own, record("resp_small", start, "", 300))
	if got, _ := s.Get(own, "resp_big"); got == nil {
		t.Error("the sum was not made smaller")
	}
}

// TestStoreAge: what is too old is not found, and is deleted (docs/interface/responses-api.md, P-36).
func TestStoreAge(t *testing.T) {
	db := servertest.NewDB(t)
	all, s := responsesapi.NewStore(db, 0, 0), responsesapi.NewStore(db, 0, time.Hour)
	o := responsesapi.Owner{Tenant: "x"}
	put(t, all, o, record("resp_old", time.Now().Add(-2*time.Hour), "", 10))
	put(t, all, o, record("resp_new", time.Now(), "", 10))
	if got, err := s.Get(o, "resp_old"); got != nil || err != nil {
		t.Errorf("%v %v", got, err)
	}
	if n, err := s.Expire(context.Background()); n != 1 || err != nil {
		t.Errorf("%d %v", n, err)
	}
	if got, _ := all.Get(o, "resp_old"); got != nil {
		t.Error("it is still there")
	}
	if got, _ := s.Get(o, "resp_new"); got == nil {
		t.Error("the new one is gone")
	}
	// A new response deletes old ones of its owner, too.
	put(t, all, o, record("resp_old", time.Now().Add(-2*time.Hour), "", 10))
	put(t, s, o, record("resp_newer", time.Now(), "", 10))
	if got, _ := all.Get(o, "resp_old"); got != nil {
		t.Error("it is still there")
	}
}

// TestStoreErase: an erasure deletes the responses of a project, of a user or before a time
// (docs/interface/responses-api.md, P-37).
func TestStoreErase(t *testing.T) {
	s := responsesapi.NewStore(servertest.NewDB(t), 0, 0)
	start := time.Now()
	for i, o := range []responsesapi.Owner{{Project: "a/b"}, {Project: "a/b", Tenant: "x"}, {Project: "a/bc"}} {
		for j, user := range []string{"ann", "bob"} {
			put(t, s, o, record(fmt.Sprintf("resp_%d%d", i, j), start.Add(time.Duration(j)*time.Hour), user, 10))
		}
	}
	for _, c := range []struct {
		e    responsesapi.Erasure
		want int
	}{
		{responsesapi.Erasure{Project: "a/b", DryRun: true}, 4},
		{responsesapi.Erasure{Project: "a/b", Users: []string{"ann"}, DryRun: true}, 2},
		{responsesapi.Erasure{Project: "a/b", Users: []string{"ann", "bob"}, DryRun: true}, 0},
		{responsesapi.Erasure{Project: "a/b", Before: start.Add(time.Minute).UnixMilli(), DryRun: true}, 2},
		{responsesapi.Erasure{Project: "a/b", Users: []string{"bob"}}, 2},
		{responsesapi.Erasure{Project: "a/b"}, 2},
		{responsesapi.Erasure{Project: "a/b"}, 0},
		{responsesapi.Erasure{Project: "a/bc"}, 2},
	} {
		if n, err := s.Erase(context.Background(), &c.e); n != c.want || err != nil {
			t.Errorf("%+v: %d %v, want %d", c.e, n, err, c.want)
		}
	}
}
