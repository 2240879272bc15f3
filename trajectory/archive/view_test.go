package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"weir/store"
	"weir/trajectory"
)

// TestTenants checks that a tenant sees only its own batches, whatever bytes its name has.
func TestTenants(t *testing.T) {
	s := newTestArchive(t)
	for _, name := range [][2]string{{"a", "b"}, {"a\x00", "b"}, {"a", "b\x00"}, {"", "ab"}, {"ab", ""}, {"a\x00\x01b", ""}} {
		s.mustLog(name[0], name[1], batch("train", group("", fmt.Sprintf(`{"logs":[%q]}`, fmt.Sprintf("%x %x", name[0], name[1])))))
	}
	for _, name := range [][2]string{{"a", "b"}, {"a\x00", "b"}, {"a", "b\x00"}, {"", "ab"}, {"ab", ""}, {"a\x00\x01b", ""}} {
		got := s.texts(name[0], name[1], &Filter{})
		equal(t, got, []string{"group 0 {}", fmt.Sprintf(`0/0 {"logs":[%q]}`, fmt.Sprintf("%x %x", name[0], name[1]))})
	}
	err := s.View("b", func(v *View) error { return v.Known("b") })
	if !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	if err := s.View("a", func(v *View) error { return v.Known("b") }); err != nil {
		t.Error(err)
	}
}

// TestModels checks the summaries of models and the order of batches.
func TestModels(t *testing.T) {
	s := newTestArchive(t)
	var first, last Receipt
	for i, split := range []string{"val", "train", "test", "train"} {
		r := s.mustLog("t", "m", batch(split, group(`"exceptions":[1]`, fmt.Sprintf(`{"initial_policy_version":%d}`, i), `{}`)))
		if i == 0 {
			first = r
		}
		last = r
	}
	s.mustLog("t", "n", batch("x", group("", `{}`)))
	s.mustLog("u", "m", batch("y", group("", `{}`)))
	var list []*Model
	if err := s.View("t", func(v *View) error {
		return v.Models(func(m *Model) bool { list = append(list, m); return true })
	}); err != nil {
		t.Fatal(err)
	}
	if len(list) != 2 || list[1].Name != "n" || list[1].Batches != 1 {
		t.Fatalf("%+v", list)
	}
	m := list[0]
	if m.Name != "m" || m.Batches != 4 || m.Counts != (trajectory.Counts{Groups: 4, Trajectories: 8, Exceptions: 4}) || !slices.Equal(m.Splits, []string{"test", "train", "val"}) ||
		m.Versions != (Span{0, 3, true}) || !m.First.Equal(first.Received) || !m.Last.Equal(last.Received) {
		t.Errorf("%+v", m)
	}
	for _, backwards := range []bool{false, true} {
		var ids []ID
		if err := s.View("t", func(v *View) error {
			return v.Batches("m", ID{}, backwards, func(b *Batch) bool { ids = append(ids, b.ID); return true })
		}); err != nil {
			t.Fatal(err)
		}
		for i := range ids {
			var rest []ID
			if err := s.View("t", func(v *View) error {
				return v.Batches("m", ids[i], backwards, func(b *Batch) bool { rest = append(rest, b.ID); return true })
			}); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(rest, ids[i+1:]) {
				t.Errorf("backwards %v, after %d: %v, want %v", backwards, i, rest, ids[i+1:])
			}
		}
	}
}

// TestDamage replaces a stored value by damaged ones. A damaged block is an error of its
// batch, and the other batch can be read. A damaged header is an error of everything that
// goes over the batches, because the answer would lack one.
func TestDamage(t *testing.T) {
	s := newTestArchive(t)
	s.mustLog("t", "m", batch("train", group("", `{"logs":["one"]}`)))
	s.mustLog("t", "m", batch("train", group("", `{"logs":["two"]}`)))
	good := s.texts("t", "m", &Filter{})
	for _, tag := range []byte{tagBlock, tagHeader} {
		key, value := s.first(tag)
		for _, bad := range [][]byte{{}, {7}, {compressed, 1, 2, 3}, value[:len(value)-1], append(bytes.Clone(value), 'x'), bytes.Replace(value, []byte("{"), []byte("["), 1)} {
			s.set(key, bad)
			read, damaged, err := s.readDamaged("t", "m")
			if tag == tagHeader {
				// What is left of a header may still be one, with other numbers.
				if err == nil && damaged == 0 || err != nil && !errors.Is(err, ErrDamaged) && !errors.Is(err, store.ErrCorrupt) {
					t.Errorf("header %q: %d damaged, %v", bad, damaged, err)
				}
				continue
			}
			if err != nil || damaged == 0 {
				t.Errorf("table %c, value %q: not noticed: %v", tag, bad, err)
			}
			intact := slices.DeleteFunc(read, func(text string) bool { return !slices.Contains(good, "0/0 "+text) })
			if len(intact) != 1 {
				t.Errorf("table %c, value %q: %d batches can be read", tag, bad, len(intact))
			}
		}
		s.set(key, value)
		equal(t, s.texts("t", "m", &Filter{}), good)
	}
}

// first is the first entry of a table.
func (s *testArchive) first(tag byte) (key, value []byte) {
	s.t.Helper()
	if err := s.db.View(func(r *store.Reader) error {
		return r.Scan(store.Range{Prefix: []byte{tag}}, func(k, v []byte) bool {
			key, value = bytes.Clone(k), bytes.Clone(v)
			return false
		})
	}); err != nil {
		s.t.Fatal(err)
	}
	return key, value
}

func (s *testArchive) set(key, value []byte) {
	s.t.Helper()
	if err := s.db.Update(context.Background(), func(tx *store.Tx) error { tx.Set(key, value); return nil }); err != nil {
		s.t.Fatal(err)
	}
}

// readDamaged reads the trajectories of a model, and counts the batches that are damaged.
func (s *testArchive) readDamaged(tenant, model string) (read []string, damaged int, err error) {
	s.t.Helper()
	err = s.View(tenant, func(v *View) error {
		return v.Batches(model, ID{}, false, func(b *Batch) bool {
			c := v.Open(b)
			err := c.Visit(&Filter{}, Visitor{Trajectory: func(r *Row) error {
				text, err := c.Text(r)
				read = append(read, string(text))
				return err
			}})
			if err != nil {
				damaged++
			}
			if err != nil && !errors.Is(err, ErrDamaged) {
				s.t.Error(err)
			}
			return true
		})
	})
	return read, damaged, err
}
