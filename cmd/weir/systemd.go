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
	w := watchdog{dump: func() { s.dumpSteps("a step takes too long") }, feed: func() {
		if pings {
			s.notify(daemon.SdNotifyWatchdog)
		}
	}}
	for {
		w.look(s.http.Alive())
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// watchdog decides when systemd is told that all is well.
type watchdog struct {
	feed  func()
	dump  func() // the newest steps
	hangs bool   // at the last look
}

// look takes what GET /health says. While the model is being loaded, systemd has a time of its own for that.
func (w *watchdog) look(health error) {
	hung := w.hangs
	w.hangs = errors.Is(health, failure.ErrStalled)
	switch {
	case w.hangs && !hung:
		w.dump()
	case !w.hangs && !errors.Is(health, failure.ErrEngineFailed):
		w.feed()
	}
}
