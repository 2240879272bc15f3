package archive

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"sort"
	"strconv"

	"weir/internal/jsontext"
	"weir/store"
	"weir/store/outbox"
)

// SetChanges lets every batch that is written or removed be noted in a log, for [Archive.Changes].
// It is called before the archive is used.
func (a *Archive) SetChanges(l *outbox.Log) { a.changes = l }

// batchRef names a batch in the log of changes, and the upload that was written or removed.
func batchRef(tenant string, b *Batch) []byte {
	ref := store.AppendString(store.AppendString(nil, tenant), b.Model)
	return append(append(ref, b.ID[:]...), b.upload[:]...)
}

func parseBatchRef(ref []byte) (tenant string, b Batch, ok bool) {
	tenant, rest, err := store.CutString(ref)
	if err != nil {
		return "", b, false
	}
	b.Model, rest, err = store.CutString(rest)
	if err != nil || len(rest) != len(b.ID)+len(b.upload) {
		return "", b, false
	}
	copy(b.upload[:], rest[copy(b.ID[:], rest):])
	return tenant, b, true
}

// noteWritten notes a batch that is written by an upload.
func (u *Upload) noteWritten(tx *store.Tx) error {
	if u.a.changes.On() {
		tx.Set(shapeKey(u.id), u.shape.text)
	}
	return u.a.changes.Note(tx, false, batchRef(u.tenant, &u.batch))
}

// noteGone notes that the upload of a batch is removed. What trajectories it had stays known until
// every sink has been told; of a log that is off that nobody knows again.
func (a *Archive) noteGone(tx *store.Tx, tenant string, b *Batch) error {
	if a.changes != nil && !a.changes.On() {
		tx.Delete(shapeKey(b.upload))
	}
	return a.changes.Note(tx, true, batchRef(tenant, b))
}

func shapeKey(u uploadID) []byte { return append([]byte{tagShape}, u[:]...) }

// shape is the positions of the trajectories of an upload, as runs of the same group.
type shape struct {
	text []byte // three varints for each run
	last run
}

// run is n trajectories of a group from an index on. A group without any has one run of length 0.
type run struct{ group, first, n int }

// runBytes is the most bytes of a run.
const runBytes = 3 * varintBytes

func (u *Upload) addPosition(group, index int) error {
	s := &u.shape
	if !u.a.changes.On() {
		return nil
	}
	if s.last.n > 0 && s.last.group == group && s.last.first+s.last.n == index {
		s.last.n++
		return nil
	}
	if s.last.n > 0 {
		if err := u.endRun(); err != nil {
			return err
		}
	}
	s.last = run{group, index, 1}
	return nil
}

// endGroup ends the runs of a group.
func (u *Upload) endGroup(group int) error {
	s := &u.shape
	switch {
	case !u.a.changes.On():
		return nil
	case s.last.n == 0:
		s.last = run{group: group}
	}
	return u.endRun()
}

func (u *Upload) endRun() error {
	s := &u.shape
	if n := len(s.text) + runBytes; n > cap(s.text) {
		size := max(n, 2*cap(s.text))
		if err := u.grow(&u.held.shape, int64(size+cap(s.text))); err != nil {
			return err
		}
		s.text = append(make([]byte, 0, size), s.text...)
	}
	s.text = s.last.append(s.text)
	s.last = run{}
	return nil
}

func (r run) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(r.group))
	b = binary.AppendUvarint(b, uint64(r.first))
	return binary.AppendUvarint(b, uint64(r.n))
}

// readShape reads the runs of an upload; none, if they are not known.
func readShape(r *store.Reader, u uploadID) (list []run, err error) {
	text, err := r.Get(shapeKey(u))
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt) {
		return nil, nil
	}
	for in := (recordReader{b: text}); len(in.b) > 0 && in.err == nil; {
		if one := (run{in.int(), in.int(), in.int()}); in.err == nil {
			list = append(list, one)
		}
	}
	return list, err
}

// Changes makes messages of the log of changes: one for each trajectory, and one for what a group has
// besides.
func (a *Archive) Changes() outbox.Source { return changes{a} }

type changes struct{ a *Archive }

// Belongings implements outbox.Source.
func (c changes) Belongings(e outbox.Entry) [][]byte {
	if _, b, ok := parseBatchRef(e.Ref); ok && e.Gone {
		return [][]byte{shapeKey(b.upload)}
	}
	return nil
}

// Messages implements outbox.Source.
func (c changes) Messages(_ context.Context, e outbox.Entry, from []byte, l outbox.Limits, add func(outbox.Message)) (next []byte, err error) {
	tenant, b, ok := parseBatchRef(e.Ref)
	if !ok {
		return nil, nil
	}
	err = c.a.View(tenant, func(v *View) error {
		now, err := v.Batch(b.Model, b.ID)
		if err != nil && !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrDamaged) {
			return err
		}
		if e.Gone {
			next, err = tombstones(v, &b, now, from, add)
			return err
		}
		if now == nil || now.upload != b.upload {
			return nil // a later entry says what has become of it
		}
		m := batchMessages{v: v, b: now, tenant: tenant, limits: l, add: add}
		next, err = m.from(from)
		if errors.Is(err, ErrDamaged) {
			c.a.log.Error("a batch cannot be sent to a sink", "error", err)
			err = nil
		}
		return err
	})
	return next, err
}

// batchMessages makes the messages of a batch.
type batchMessages struct {
	v      *View
	b      *Batch
	tenant string
	limits outbox.Limits
	add    func(outbox.Message)

	n, bytes int
}

// errEnough ends a visit when there are enough messages.
var errEnough = errors.New("enough")

// from makes messages from a position on: the offsets of a group, and how many of its messages have been
// made. It holds no snapshot of the database while they are sent.
func (m *batchMessages) from(at []byte) (next []byte, err error) {
	var group GroupOffset
	made := int64(0)
	if at != nil {
		r := recordReader{b: at}
		group, made = GroupOffset{int64(r.int()), int64(r.int())}, int64(r.int())
	}
	c := m.v.Open(m.b)
	for {
		passed := int64(0)
		one := func(key string, size int64, body func() ([]byte, error)) error {
			if m.limits.Full(m.n, m.bytes) {
				return errEnough
			}
			if passed++; passed <= made {
				return nil
			}
			return m.one(key, size, body)
		}
		after, err := c.VisitGroup(group, &Filter{}, Visitor{
			Group: func(g *GroupRow) error {
				return one(groupKey(m.b.ID, g.Index), g.text.size, func() ([]byte, error) { return m.groupBody(c, g) })
			},
			Trajectory: func(r *Row) error {
				return one(trajectoryKey(m.b.ID, r.Group, r.Index), r.text.size, func() ([]byte, error) { return m.body(c, r) })
			},
		})
		switch {
		case errors.Is(err, errEnough):
			at := binary.AppendUvarint(binary.AppendUvarint(nil, uint64(group.group)), uint64(group.row))
			return binary.AppendUvarint(at, uint64(passed)), nil
		case err == io.EOF:
			return nil, nil
		case err != nil:
			return nil, err
		}
		group, made = after, 0
	}
}

func (m *batchMessages) one(key string, size int64, body func() ([]byte, error)) (err error) {
	msg := message(m.tenant, m.b.Model, key)
	if size > int64(m.limits.Body)-headBytes {
		msg.Omitted = size
		msg.Body = outbox.Omitted(key, size)
	} else if msg.Body, err = body(); err != nil {
		return err
	}
	m.add(msg)
	m.n++
	m.bytes += len(msg.Body)
	return nil
}

// headBytes is more than a body has besides a text, but for the names of a tenant and a model.
const headBytes = 2 << 10

func (m *batchMessages) head(key string) []byte {
	member := func(b []byte, name, value string) []byte {
		b = append(append(append(b, ',', '"'), name...), '"', ':')
		return jsontext.AppendString(b, value)
	}
	b := jsontext.AppendString([]byte(`{"id":`), key)
	b = member(b, "log_id", m.b.ID.String())
	b = member(b, "tenant", m.tenant)
	b = member(b, "model", m.b.Model)
	b = member(b, "split", m.b.Split)
	if m.b.Step.Given {
		b = strconv.AppendInt(append(b, `,"step":`...), m.b.Step.N, 10)
	}
	return member(b, "received_at", m.b.Received.UTC().Format("2006-01-02T15:04:05.000000Z"))
}

func (m *batchMessages) body(c *Contents, r *Row) ([]byte, error) {
	text, err := c.Text(r)
	if err != nil {
		return nil, err
	}
	b := m.head(trajectoryKey(m.b.ID, r.Group, r.Index))
	b = strconv.AppendInt(append(b, `,"group":`...), int64(r.Group), 10)
	b = strconv.AppendInt(append(b, `,"index":`...), int64(r.Index), 10)
	return append(append(append(b, `,"trajectory":`...), text...), '}'), nil
}

func (m *batchMessages) groupBody(c *Contents, g *GroupRow) ([]byte, error) {
	text, err := c.GroupText(g)
	if err != nil {
		return nil, err
	}
	b := m.head(groupKey(m.b.ID, g.Index))
	b = strconv.AppendInt(append(b, `,"group":`...), int64(g.Index), 10)
	b = strconv.AppendInt(append(b, `,"trajectories":`...), int64(g.Trajectories), 10)
	return append(append(append(b, `,"data":`...), text...), '}'), nil
}

func groupKey(id ID, group int) string { return id.String() + "/" + strconv.Itoa(group) }

func trajectoryKey(id ID, group, index int) string {
	return groupKey(id, group) + "/" + strconv.Itoa(index)
}

func message(tenant, model, key string) outbox.Message {
	kind := "trajectory"
	if bytes.Count([]byte(key), []byte("/")) == 1 {
		kind = "trajectory_group"
	}
	return outbox.Message{Kind: kind, Route: []string{tenant, model}, Key: key}
}

// tombstonesAtOnce is how many tombstones are made at a time.
const tombstonesAtOnce = 8192

// tombstones makes messages of what the removed upload of a batch had and the batch does not have now; now
// is nil if it is gone. from is how many positions have been looked at.
func tombstones(v *View, old, now *Batch, from []byte, add func(outbox.Message)) (next []byte, err error) {
	had, err := readShape(v.r, old.upload)
	if err != nil {
		return nil, err
	}
	if len(had) == 0 { // a batch with a damaged header, or one that no sink has got
		if now == nil {
			add(outbox.Message{Kind: "trajectory", Route: []string{v.tenant, old.Model}, Key: old.ID.String()})
		}
		return nil, nil
	}
	var has []run
	if now != nil {
		if has, err = readShape(v.r, now.upload); err != nil || has == nil {
			return nil, err
		}
	}
	skip, made := uint64(0), 0
	if from != nil {
		skip, _ = binary.Uvarint(from)
	}
	seen := uint64(0)
	one := func(key string, there bool) (full bool) {
		if seen++; seen <= skip || there {
			return false
		}
		add(message(v.tenant, old.Model, key))
		made++
		return made >= tombstonesAtOnce
	}
	group := -1
	for _, r := range had {
		if r.group != group {
			group = r.group
			if one(groupKey(old.ID, group), hasGroup(has, group)) {
				return binary.AppendUvarint(nil, seen), nil
			}
		}
		for i := r.first; i < r.first+r.n; i++ {
			if one(trajectoryKey(old.ID, group, i), hasPosition(has, group, i)) {
				return binary.AppendUvarint(nil, seen), nil
			}
		}
	}
	return nil, nil
}

// hasGroup reports whether sorted runs have a group.
func hasGroup(list []run, group int) bool {
	i := sort.Search(len(list), func(i int) bool { return list[i].group >= group })
	return i < len(list) && list[i].group == group
}

// hasPosition reports whether sorted runs have a trajectory.
func hasPosition(list []run, group, index int) bool {
	i := sort.Search(len(list), func(i int) bool {
		return list[i].group > group || list[i].group == group && list[i].first+list[i].n > index
	})
	return i < len(list) && list[i].group == group && list[i].first <= index
}

// Snapshot implements outbox.Source. It makes the shapes of batches that were written while nobody noted
// changes.
func (c changes) Snapshot(ctx context.Context, after []byte, n int) (list []outbox.Entry, at []byte, err error) {
	var from []byte
	if at = after; after != nil {
		from = append(after[:len(after):len(after)], 0)
	}
	var bare []tenantBatch
	err = c.a.View("", func(v *View) error {
		var failed error
		err := c.a.eachBatch(v.r, from, func(key []byte, b tenantBatch) bool {
			at = append([]byte(nil), key...)
			list = append(list, outbox.Entry{At: b.Received.UnixMilli(), Ref: batchRef(b.tenant, b.Batch)})
			known, err := v.r.Has(shapeKey(b.upload))
			if err == nil && !known {
				bare = append(bare, b)
			}
			failed = errors.Join(failed, err)
			return len(list) < n
		})
		return errors.Join(failed, err)
	})
	for i := 0; err == nil && i < len(bare); i++ {
		err = c.makeShape(ctx, bare[i])
	}
	return list, at, err
}

func (c changes) makeShape(ctx context.Context, b tenantBatch) error {
	var text []byte
	last := run{}
	err := c.a.View(b.tenant, func(v *View) error {
		return v.Open(b.Batch).Visit(&Filter{}, Visitor{
			Group: func(g *GroupRow) error {
				if last.n > 0 {
					text = last.append(text)
				}
				if last = (run{}); g.Trajectories == 0 {
					text = run{group: g.Index}.append(text)
				}
				return nil
			},
			Trajectory: func(r *Row) error {
				if last.n > 0 && last.group == r.Group && last.first+last.n == r.Index {
					last.n++
					return nil
				}
				if last.n > 0 {
					text = last.append(text)
				}
				last = run{r.Group, r.Index, 1}
				return nil
			},
		})
	})
	if errors.Is(err, ErrDamaged) || errors.Is(err, store.ErrCorrupt) {
		return nil
	}
	if err != nil {
		return err
	}
	if last.n > 0 {
		text = last.append(text)
	}
	return c.a.db.Update(ctx, func(tx *store.Tx) error {
		v := View{r: &tx.Reader, a: c.a, tenant: b.tenant}
		if now, err := v.Batch(b.Model, b.ID); err != nil || now.upload != b.upload {
			return nil // it has changed, and that is noted
		}
		tx.Set(shapeKey(b.upload), text)
		return nil
	})
}
