package responsesapi

import (
	"bytes"
	"compress/flate"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"time"

	"weir/auth"
	"weir/store"
)

// pending is a response in the background that is not computed yet, as it is kept: what is needed
// to compute it, also after a restart.
type pending struct {
	owner   Owner
	id      string
	created int64 // Unix milliseconds
	project string
	address string // whose part of the machine it takes, where there are no keys
	who     *auth.Identity
	body    []byte // of the request
}

// pendingForm is the first byte of a pending response.
const pendingForm = 1

// encode returns the bytes of a pending response. Owner and id are in its key.
func (p *pending) encode() []byte {
	b := make([]byte, 0, 256+len(p.body))
	b = binary.AppendVarint(append(b, pendingForm), p.created)
	text := func(s string) { b = append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	list := func(all []string) {
		b = binary.AppendUvarint(b, uint64(len(all)))
		for _, s := range all {
			text(s)
		}
	}
	text(p.project)
	text(p.address)
	if w := p.who; w == nil {
		b = append(b, 0)
	} else {
		b = append(b, 1)
		text(w.Key)
		text(w.User)
		text(w.Tenant)
		text(w.Share)
		list(w.Projects)
		list(w.Models)
		b = binary.AppendUvarint(b, uint64(w.Rights))
	}
	return append(b, p.body...)
}

// reader reads what encode has written; bad says that it was cut.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) number() uint64 {
	x, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return x
}

func (r *reader) text() string {
	n := r.number()
	if n > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return ""
	}
	s := string(r.b[:n])
	r.b = r.b[n:]
	return s
}

func (r *reader) list() (all []string) {
	for n := r.number(); n > 0 && !r.bad; n-- {
		all = append(all, r.text())
	}
	return all
}

func decodePending(o Owner, id string, b []byte) (*pending, error) {
	if len(b) == 0 || b[0] != pendingForm {
		return nil, errRecord
	}
	p := &pending{owner: o, id: id}
	created, n := binary.Varint(b[1:])
	if n <= 0 {
		return nil, errRecord
	}
	p.created = created
	r := &reader{b: b[1+n:]}
	p.project, p.address = r.text(), r.text()
	if r.number() == 1 {
		p.who = &auth.Identity{Key: r.text(), User: r.text(), Tenant: r.text(), Share: r.text(), Projects: r.list(), Models: r.list()}
		p.who.Rights = auth.Rights(r.number())
	}
	if r.bad {
		return nil, errRecord
	}
	p.body = bytes.Clone(r.b)
	return p, nil
}

// Queue keeps a response that is to be computed in the background.
func (s *Store) queue(ctx context.Context, p *pending, r *Record) error {
	row, job := r.encode(), p.encode()
	return s.db.Update(ctx, func(tx *store.Tx) error {
		total, err := s.bytes(&tx.Reader, p.owner)
		if err != nil {
			return err
		}
		tx.Set(p.owner.row(r.ID), row)
		tx.Set(p.owner.named(tagJob, r.ID), job)
		tx.Set(p.owner.key(tagBytes), binary.AppendUvarint(nil, uint64(total))) // by which owners are found
		return nil
	})
}

// pending returns a response that is not computed yet; nil: it is, or there is none.
func (s *Store) pending(o Owner, id string) (p *pending, err error) {
	err = s.db.View(func(r *store.Reader) error {
		v, err := r.Get(o.named(tagJob, id))
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		p, err = decodePending(o, id, v)
		return err
	})
	return p, err
}

// unfinished calls f with all responses that are not computed yet, without their bodies.
func (s *Store) unfinished(f func(*pending)) error {
	return s.db.View(func(r *store.Reader) error {
		return r.Scan(store.Range{Prefix: []byte{tagJob}, Damaged: func([]byte, error) {}}, func(key, v []byte) bool {
			project, rest, err := store.CutString(key[1:])
			if err != nil {
				return true
			}
			tenant, id, err := store.CutString(rest)
			if err != nil {
				return true
			}
			if p, err := decodePending(Owner{project, tenant}, string(id), v); err == nil {
				p.body = nil
				f(p)
			}
			return true
		})
	})
}

// finish keeps the end of a response in the background, with its events. It reports false, and
// keeps nothing, if that has been cancelled or deleted in the meantime, and errTooLarge if it is
// larger than all that its owner may keep.
func (s *Store) finish(ctx context.Context, o Owner, r *Record, events []byte) (kept bool, err error) {
	row := r.encode()
	packed := pack(events)
	size := int64(len(row) + len(packed))
	if s.limit > 0 && size > s.limit {
		return false, errTooLarge
	}
	err = s.db.Update(ctx, func(tx *store.Tx) error {
		there, err := tx.Has(o.named(tagJob, r.ID))
		if kept = there; err != nil || !there {
			return err
		}
		if err := s.put(tx, o, r, row, size); err != nil {
			return err
		}
		tx.Delete(o.named(tagJob, r.ID))
		tx.Set(o.named(tagEvents, r.ID), packed)
		return nil
	})
	return kept, err
}

var errTooLarge = errors.New("responsesapi: the response is larger than all that its project may keep")

// events returns the events of a response that has been computed in the background; nil: there
// are none.
func (s *Store) events(o Owner, id string) (packed []byte, err error) {
	err = s.db.View(func(r *store.Reader) error {
		packed, err = r.Get(o.named(tagEvents, id))
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		return err
	})
	return packed, err
}

// pack compresses the events of a response, which repeat themselves.
func pack(events []byte) []byte {
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.DefaultCompression)
	if err == nil {
		_, err = w.Write(events)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic("responsesapi: " + err.Error()) // nothing is written anywhere that could fail
	}
	return b.Bytes()
}

// unpack reads what pack has compressed.
func unpack(packed []byte) io.Reader { return flate.NewReader(bytes.NewReader(packed)) }

// ready is closed when the database is open.
func (s *Store) ready() <-chan struct{} { return s.db.Ready() }

// storeTime bounds how long a change waits for the store, whose request does not wait any more.
const storeTime = 30 * time.Second
