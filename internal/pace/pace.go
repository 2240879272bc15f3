// Package pace lets long work that nobody waits for urgently, such as a query over many
// records, be stopped soon and share the processors with others. The work counts what it
// does on a [Meter]. Each time that a certain amount has been done, the meter looks whether
// the context has ended, and calls a function that may hold the work up for a while.
//
//	ctx = pace.With(ctx, turn.Pause) // by who starts the work
//	m := pace.Of(ctx)                // by the work itself, one meter for each goroutine
//	for ... {
//	        if err := m.Spend(pace.Key); err != nil {
//	                return err
//	        }
//	}
//
// Amounts are counted and not measured, so that tests see the same in every run.
// A unit is about a nanosecond on a machine of 2024, or a byte of JSON that is read.
package pace

import "context"

// What common operations cost, in units.
const (
	Key     = 1_000  // moving a cursor to the next key
	Seek    = 10_000 // moving a cursor to another place
	Row     = 5_000  // reading a value; its bytes come on top
	Compare = 50     // comparing two short values
)

// Grain is the amount after which a meter looks at its context.
const Grain = 50_000

type pauseKey struct{}

// With returns a context whose meters call pause after every Grain of work. Pause may wait;
// if it returns an error, the work has to end with it.
func With(ctx context.Context, pause func() error) context.Context {
	return context.WithValue(ctx, pauseKey{}, pause)
}

// A Meter counts the work of one goroutine. A nil Meter counts nothing and has no error.
type Meter struct {
	ctx   context.Context
	pause func() error // nil: there is none
	done  int          // since the last look at ctx
	err   error
}

// Of returns a meter for work that ends with a context.
func Of(ctx context.Context) *Meter {
	m := &Meter{ctx: ctx}
	m.pause, _ = ctx.Value(pauseKey{}).(func() error)
	return m
}

// Spend counts work that has been done. It returns why the work has to end: the cause of
// the context's end, or the error of pause. From then on all calls return it.
func (m *Meter) Spend(units int) error {
	if m == nil {
		return nil
	}
	if m.done += units; m.done < Grain || m.err != nil {
		return m.err
	}
	m.done = 0
	if m.ctx.Err() != nil {
		m.err = context.Cause(m.ctx)
	} else if m.pause != nil {
		m.err = m.pause()
	}
	return m.err
}

// Bytes is Spend for so many bytes that were read, and reports whether the work is to go on.
// It is what a text is read with (jsontext.Pace).
func (m *Meter) Bytes(n int) bool { return m.Spend(n) == nil }

// Err returns what the last Spend returned.
func (m *Meter) Err() error {
	if m == nil {
		return nil
	}
	return m.err
}
