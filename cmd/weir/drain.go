package main

import (
	"errors"
	"os"
	"sync"
	"time"
)

// drains is the state of draining on demand, POST /drain of the operator's listener.
type drains struct {
	exit func() // stops the server as SIGTERM does

	mu       sync.Mutex
	stopping bool        // SIGTERM came: there is no way back
	timer    *time.Timer // until new requests are refused; nil: it is not draining
}

// errStopping is the answer to who wants to drain a server that stops, or to go on with it.
var errStopping = errors.New("the server is stopping")

// stop is called when the server begins to stop.
func (d *drains) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stopping = true
	if d.timer != nil {
		d.timer.Stop()
	}
}

// drain makes /ready 503 at once, and refuses new requests after --drain-delay.
func (s *service) drain() error {
	d := &s.drains
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.stopping:
		return errStopping
	case d.timer != nil:
		return nil
	}
	s.log.Info("draining", "delay", s.options.life.delay)
	s.http.Transport().Leave()
	d.timer = time.AfterFunc(s.options.life.delay, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.timer != nil {
			s.http.Transport().Drain()
		}
	})
	return nil
}

// undrain takes requests again.
func (s *service) undrain() error {
	d := &s.drains
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopping {
		return errStopping
	}
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
		s.http.Transport().Resume()
		s.log.Info("not draining any longer")
	}
	return nil
}

// delay waits for --drain-delay, in which requests are still taken, unless another signal comes or the
// engine ends.
func (s *service) delay(stops <-chan os.Signal, ended <-chan struct{}) {
	if s.options.life.delay <= 0 || s.http.Transport().Draining() {
		return
	}
	timer := time.NewTimer(s.options.life.delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-stops:
	case <-ended:
	}
}
