package grammar

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestLeavingFreesTheWorker: soon after the last client has left, the worker is free. (On an
// idle machine it takes less than 50 ms; here, others may need the processor.)
func TestLeavingFreesTheWorker(t *testing.T) {
	cfg := DefaultConfig()
	cfg.MaxWork, cfg.Deadline, cfg.MaxStates = 1<<50, time.Hour, 1<<30
	c := testCompiler(t, testVocabulary, cfg)
	for name, s := range map[string]Spec{
		"groups":            hostileSpecs["groups"](30_000),
		"rules in a row":    hostileSpecs["rules in a row"](30_000),
		"patternProperties": hostileSpecs["patternProperties"](3000),
	} {
		ctx, leave := context.WithCancel(t.Context())
		var left time.Time
		freed := make(chan time.Time, 1)
		_, err := c.CompileOn(ctx, s, func(ctx context.Context, large bool, f func()) error {
			if !large {
				f()
				return nil
			}
			go func() {
				f()
				freed <- time.Now()
			}()
			time.Sleep(20 * time.Millisecond)
			left = time.Now()
			leave()
			<-ctx.Done()
			return context.Cause(ctx)
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
		took := (<-freed).Sub(left)
		t.Logf("%s: %v", name, took)
		if took > 500*time.Millisecond {
			t.Errorf("%s: the worker was free %v after the client had left", name, took)
		}
		leave()
	}
}
