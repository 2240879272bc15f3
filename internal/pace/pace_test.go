package pace

import (
	"context"
	"errors"
	"testing"
)

func TestMeter(t *testing.T) {
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(context.Background())
	pauses := 0
	m := Of(With(ctx, func() error { pauses++; return nil }))
	for range 10 {
		if err := m.Spend(Grain / 2); err != nil {
			t.Fatal(err)
		}
	}
	if pauses != 5 {
		t.Errorf("%d pauses in five grains", pauses)
	}
	cancel(gone)
	if err := m.Spend(Grain - 1); err != nil {
		t.Errorf("within a grain: %v", err)
	}
	if err := m.Spend(1); err != gone || m.Spend(1) != gone || m.Err() != gone || pauses != 5 {
		t.Errorf("after the end of the context: %v, then %v, %d pauses", err, m.Err(), pauses)
	}

	full := errors.New("full")
	m = Of(With(context.Background(), func() error { return full }))
	if err := m.Spend(Grain); err != full || m.Err() != full {
		t.Errorf("%v, want the error of pause", err)
	}
	m = nil
	if m.Spend(Grain) != nil || m.Err() != nil {
		t.Error("a nil meter has an error")
	}
	if m = Of(context.Background()); m.Spend(10*Grain) != nil {
		t.Error("a meter without a pause has an error")
	}
}
