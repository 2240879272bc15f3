package main

import (
	"context"
	"errors"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"weir/server/failure"
)

// notify tells systemd the state of the service, if it asks for it (NOTIFY_SOCKET).
func (s *service) notify(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		s.log.Warn("systemd cannot be told the state of the server", "error", err)
	}
}

// hangUp is what SIGHUP does: it reads files anew, and tells systemd when that begins and ends.
func (s *service) hangUp() {
	select {
	case <-s.engine.engine.Ready():
		s.notify(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec())
		defer s.notify(daemon.SdNotifyReady)
	default: // it is not ready yet, and must not say so
	}
	s.reload()
}

// feedWatchdog tells systemd that the engine makes progress, twice in the time that it allows
// (WATCHDOG_USEC), until ctx ends. When a step takes too long, or the engine has failed, it stops, and
// systemd kills and restarts the process. What the engine did last is dumped before.
func (s *service) feedWatchdog(ctx context.Context) {
	every, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		s.log.Warn("systemd's watchdog is not fed", "error", err)
	}
	pings := err == nil && every > 0
	if !pings {
		every = 10 * time.Second // the dump alone
	}
	tick := time.NewTicker(every / 2)
	defer tick.Stop()
	stalled := false
	for {
		err := s.http.Alive()
		hangs := errors.Is(err, failure.ErrStalled)
		if hangs && !stalled {
			s.dumpSteps("a step takes too long")
		}
		stalled = hangs
		if pings && !hangs && !errors.Is(err, failure.ErrEngineFailed) {
			s.notify(daemon.SdNotifyWatchdog)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
