package sim

import (
	"errors"
	"fmt"

	"weir/backend"
)

// ErrClosed is returned by calls after Close.
var ErrClosed = errors.New("sim: closed")

// broken is an error about a breach of the contract that only a backend can notice, because
// it needs to know the steps before.
func broken(format string, args ...any) error {
	return fmt.Errorf("%w: %s", backend.ErrContract, fmt.Sprintf(format, args...))
}

// turns counts the calls of each kind and refuses those out of turn. After an
// error every call returns it again: the backend is only good for Close.
type turns struct {
	depth, begun, drawn, ended int
	err                        error
}

func (t *turns) begin() error {
	switch {
	case t.err != nil:
	case t.drawn < t.begun:
		t.err = broken("Begin of step %d before Draw of step %d", t.begun, t.drawn)
	case t.begun-t.ended >= t.depth:
		t.err = broken("Begin of step %d with %d in flight, at depth %d", t.begun, t.begun-t.ended, t.depth)
	}
	return t.err
}

func (t *turns) draw() error {
	switch {
	case t.err != nil:
	case t.drawn == t.begun:
		t.err = broken("Draw of step %d before its Begin", t.drawn)
	case t.ended < t.drawn:
		t.err = broken("Draw of step %d before End of step %d", t.drawn, t.ended)
	}
	return t.err
}

func (t *turns) end() error {
	if t.err == nil && t.ended == t.drawn {
		t.err = broken("End of step %d before its Draw", t.ended)
	}
	return t.err
}

// fail keeps the first error.
func (t *turns) fail(err error) error {
	if t.err == nil {
		t.err = err
	}
	return err
}
