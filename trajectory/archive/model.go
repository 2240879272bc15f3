package archive

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"weir/internal/jsontext"
	"weir/internal/pace"
	"weir/store"
)

// Created is a model that a client has created, which exists before anything was logged for
// it (docs/interface/trajectories.md, section 17).
type Created struct {
	ID        string    `json:"id"` // a UUID; what is logged for the model has it as the model's name
	Entity    string    `json:"entity"`
	Project   string    `json:"project"`
	Name      string    `json:"name"`
	BaseModel string    `json:"base_model"`
	At        time.Time `json:"at"`
}

var (
	// ErrExists: the tenant has created a model of this entity, project and name before.
	ErrExists = errors.New("archive: there is such a model")
	// ErrModels: the tenant has created as many models as it may.
	ErrModels = errors.New("archive: the tenant has created too many models")
)

// MaxModels is how many models a tenant may have created, and not deleted, at a time.
const MaxModels = 10_000

func createdKey(tenant, id string) []byte { return modelKey(tagCreated, tenant, id) }

// namedKey is the key of the entry that leads from the names of a created model to its id.
func namedKey(tenant string, m *Created) []byte {
	return store.AppendString(store.AppendString(modelKey(tagNamed, tenant, m.Entity), m.Project), m.Name)
}

// goneKey is the key that says that a checkpoint was deleted.
func goneKey(tenant, model string, step int64) []byte {
	return store.AppendUint(modelKey(tagGone, tenant, model), uint64(step))
}

// CreateModel creates a model with the names and the base model of m, under a new id and the
// time of now. If the tenant has one of these names it returns that one with ErrExists.
func (a *Archive) CreateModel(ctx context.Context, tenant string, m Created) (Created, error) {
	var before *Created
	err := a.update(ctx, func(tx *store.Tx) (err error) {
		v := View{r: &tx.Reader, a: a, tenant: tenant}
		if before, err = v.named(&m); err != nil || before != nil {
			return err
		}
		n := 0
		if err := tx.Scan(store.Range{Prefix: tenantKey(tagCreated, tenant), Keys: true}, func([]byte, []byte) bool { n++; return n < MaxModels }); err != nil {
			return err
		}
		if n == MaxModels {
			return ErrModels
		}
		m.At = a.commitTime()
		m.ID = newID(m.At).String()
		value, err := jsontext.Encode(m)
		if err != nil {
			return err
		}
		tx.Set(createdKey(tenant, m.ID), value)
		tx.Set(namedKey(tenant, &m), []byte(m.ID))
		return nil
	})
	switch {
	case err != nil:
		return Created{}, err
	case before != nil:
		return *before, ErrExists
	}
	return m, nil
}

// named returns the model that was created with the names of m; nil: there is none.
func (v *View) named(m *Created) (*Created, error) {
	id, err := v.r.Get(namedKey(v.tenant, m))
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return v.Created(string(id))
}

// Created returns the model with an id if a client has created it; nil: none has.
func (v *View) Created(id string) (*Created, error) {
	value, err := v.r.Get(createdKey(v.tenant, id))
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return decodeCreated(value)
}

func decodeCreated(value []byte) (*Created, error) {
	m := new(Created)
	if err := jsontext.Decode(value, m); err != nil || m.ID == "" {
		return nil, fmt.Errorf("%w: a model that was created", ErrDamaged)
	}
	return m, nil
}

// createdModels returns the models that were created, in the order of their ids.
func (v *View) createdModels() (list []*Created, err error) {
	var bad error
	err = v.r.Scan(store.Range{Prefix: tenantKey(tagCreated, v.tenant)}, func(_, value []byte) bool {
		var m *Created
		if bad = v.meter.Spend(pace.Row + len(value)); bad == nil {
			if bad = v.Reserve(createdBytes); bad == nil {
				m, bad = decodeCreated(value)
			}
		}
		list = append(list, m)
		return bad == nil
	})
	return list, errors.Join(bad, err)
}

// createdBytes is about what a created model takes, with its names.
const createdBytes = 1536

// removeCreated removes that a model was created, if it was, and which of its checkpoints were
// deleted.
func (a *Archive) removeCreated(ctx context.Context, tenant, id string) error {
	err := a.update(ctx, func(tx *store.Tx) error {
		v := View{r: &tx.Reader, a: a, tenant: tenant}
		m, err := v.Created(id)
		if err != nil || m == nil {
			return err
		}
		tx.Delete(createdKey(tenant, id))
		tx.Delete(namedKey(tenant, m))
		return nil
	})
	for more := true; err == nil && more; {
		more, err = a.forgetGone(ctx, tenant, id)
	}
	return err
}

// forgetGone removes up to removeAtOnce notes of deleted checkpoints, and reports whether
// there may be more.
func (a *Archive) forgetGone(ctx context.Context, tenant, model string) (more bool, err error) {
	var keys [][]byte
	if err := a.View(tenant, func(v *View) error {
		return v.r.Scan(store.Range{Prefix: modelKey(tagGone, tenant, model), Keys: true}, func(key, _ []byte) bool {
			keys = append(keys, append([]byte(nil), key...))
			return len(keys) < removeAtOnce
		})
	}); err != nil || len(keys) == 0 {
		return false, err
	}
	return len(keys) == removeAtOnce, a.update(ctx, func(tx *store.Tx) error {
		for _, k := range keys {
			tx.Delete(k)
		}
		return nil
	})
}

// Steps returns the steps of which a model has checkpoints, without an order: 0, if the model
// was created, and each step of a logged trajectory (docs/interface/trajectories.md, section
// 9.3) from 0 on, but for those that were deleted.
func (v *View) Steps(model string) (map[int64]bool, error) {
	steps := make(map[int64]bool)
	var full error
	add := func(n int64) {
		if n < 0 || steps[n] {
			return
		}
		if full = errors.Join(full, v.Reserve(stepBytes)); full == nil {
			steps[n] = true
		}
	}
	created, err := v.Created(model)
	if err != nil {
		return nil, err
	}
	if created != nil {
		add(0)
	}
	var mixed []*Batch // whose header does not say which steps they have
	if err := v.Batches(model, ID{}, false, func(b *Batch) bool {
		switch {
		case b.Step.Given:
			if b.Trajectories > 0 {
				add(b.Step.N)
			}
		case b.Versions.Given && b.Versions.Min == b.Versions.Max:
			add(b.Versions.Min)
		case b.Versions.Given:
			full = errors.Join(full, v.Reserve(BatchBytes))
			mixed = append(mixed, b)
		}
		return full == nil
	}); err != nil || full != nil {
		return nil, errors.Join(err, full)
	}
	for _, b := range mixed {
		if err := v.Open(b).Visit(&Filter{}, Visitor{Trajectory: func(r *Row) error {
			if n := b.StepOf(r); n.Given {
				add(n.N)
			}
			return full
		}}); err != nil {
			return nil, err
		}
	}
	return steps, v.withoutGone(model, steps)
}

// stepBytes is about what a step takes in a map.
const stepBytes = 64

// withoutGone removes the steps whose checkpoints were deleted.
func (v *View) withoutGone(model string, steps map[int64]bool) error {
	prefix := modelKey(tagGone, v.tenant, model)
	err := v.r.Scan(store.Range{Prefix: prefix, Keys: true}, func(key, _ []byte) bool {
		if n, rest, err := store.CutUint(key[len(prefix):]); err == nil && len(rest) == 0 && n <= math.MaxInt64 {
			delete(steps, int64(n))
		}
		return v.meter.Spend(pace.Row) == nil
	})
	return errors.Join(err, v.meter.Err())
}

// DeleteCheckpoints deletes the checkpoints of steps of a model, which are not listed any
// more. It returns how many they were, and the steps of which there was none, in their order.
func (a *Archive) DeleteCheckpoints(ctx context.Context, tenant, model string, steps []int64) (deleted int, missing []int64, err error) {
	var there map[int64]bool
	if err := a.Query(ctx, tenant, func(v *View) (err error) {
		if err = v.Known(model); err == nil {
			there, err = v.Steps(model)
		}
		return err
	}); err != nil {
		return 0, nil, err
	}
	var gone []int64
	for _, n := range steps {
		if !there[n] {
			missing = append(missing, n)
			continue
		}
		delete(there, n) // it may be asked for twice
		gone = append(gone, n)
	}
	if len(gone) == 0 {
		return 0, missing, nil
	}
	err = a.update(ctx, func(tx *store.Tx) error {
		v := View{r: &tx.Reader, a: a, tenant: tenant}
		if err := v.Known(model); err != nil { // it was deleted meanwhile
			return err
		}
		for _, n := range gone {
			tx.Set(goneKey(tenant, model, n), nil)
		}
		return nil
	})
	return len(gone), missing, err
}
