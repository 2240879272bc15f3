package kvevents

import (
	"encoding/binary"
	"math"
	"net"
	"strings"
	"sync"
	"time"
)

const (
	// mostConns is the most connections to both sockets together.
	mostConns = 256
	// mostTopics is the most topics that a connection may subscribe to.
	mostTopics = 100
	// burst is the most batches that are sent before a connection looks at what else there is.
	burst = 64

	leastRedial, mostRedial = 100 * time.Millisecond, 5 * time.Second
)

// connections are those that are open.
type connections struct {
	mu     sync.Mutex
	all    map[net.Conn]bool
	closed bool
}

// add reports false if there are too many, or the publisher has ended.
func (c *connections) add(conn net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || len(c.all) >= mostConns {
		return false
	}
	c.all[conn] = true
	return true
}

func (c *connections) remove(conn net.Conn) {
	_ = conn.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.all, conn)
}

func (c *connections) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for conn := range c.all {
		_ = conn.Close()
	}
}

// accept serves connections until the listener is closed.
func (p *Publisher) accept(l net.Listener, serve func(*wire)) {
	for {
		c, err := l.Accept()
		if err != nil {
			select {
			case <-p.closing:
				return
			case <-time.After(leastRedial): // too many open files, perhaps
				continue
			}
		}
		if !p.conns.add(c) {
			_ = c.Close()
			continue
		}
		p.serving.Go(func() {
			defer p.conns.remove(c)
			serve(newWire(c))
		})
	}
}

// dial keeps a connection to a subscriber that listens.
func (p *Publisher) dial(a address) {
	wait := leastRedial
	for {
		d := net.Dialer{Timeout: mostRedial}
		if c, err := d.DialContext(p.dialing, a.network, a.address); err == nil && p.conns.add(c) {
			begun := time.Now()
			p.serveSubscriber(newWire(c))
			p.conns.remove(c)
			if time.Since(begun) > mostRedial {
				wait = leastRedial
			}
		}
		select {
		case <-p.closing:
			return
		case <-time.After(wait):
			wait = min(2*wait, mostRedial)
		}
	}
}

// subscriber is a connection to which batches are sent.
type subscriber struct {
	*wire
	topic string
	mu    sync.Mutex // also for writing
	about map[string]int
	on    bool
	next  uint64

	changed chan struct{} // capacity 1: on has changed
	gone    chan struct{} // closed when the other side has gone
}

// serveSubscriber sends batches to a subscriber, from the next one on after it has subscribed.
func (p *Publisher) serveSubscriber(w *wire) {
	kind, err := w.handshake("PUB")
	if err != nil || kind != "SUB" && kind != "XSUB" {
		return
	}
	s := &subscriber{wire: w, topic: p.cfg.Topic, about: map[string]int{}, changed: make(chan struct{}, 1), gone: make(chan struct{})}
	defer func() {
		_ = w.Close()
		<-s.gone
		if s.on {
			p.subscribers.Add(-1)
		}
	}()
	p.serving.Go(func() {
		defer close(s.gone)
		for {
			command, parts, err := w.receive()
			if err != nil || !p.handle(s, command, parts) {
				_ = w.Close()
				return
			}
		}
	})
	p.sendAll(s)
}

// handle takes in what a subscriber has sent. It reports false if that is too much.
func (p *Publisher) handle(s *subscriber, command string, parts [][]byte) bool {
	body := parts[0]
	switch {
	case command == "PING":
		s.mu.Lock()
		defer s.mu.Unlock()
		_ = s.frame(flagCommand, append([]byte("\x04PONG"), body[min(2, len(body)):]...)) // after the time to live comes what is sent back
		return s.flush() == nil
	case command == "" && len(body) > 0 && body[0] <= 1: // as in ZMTP 3.0
		command, body = [2]string{"CANCEL", "SUBSCRIBE"}[body[0]], body[1:]
	}
	if command != "SUBSCRIBE" && command != "CANCEL" {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	topic := string(body)
	if command == "SUBSCRIBE" {
		s.about[topic]++
	} else if s.about[topic]--; s.about[topic] <= 0 {
		delete(s.about, topic)
	}
	was := s.on
	s.on = false
	for prefix := range s.about {
		s.on = s.on || strings.HasPrefix(s.topic, prefix)
	}
	if s.on && !was {
		s.next = p.history.next()
		p.subscribers.Add(1)
	}
	if was && !s.on {
		p.subscribers.Add(-1)
	}
	select {
	case s.changed <- struct{}{}:
	default:
	}
	return len(s.about) <= mostTopics
}

// sendAll sends batches until one of the sides ends.
func (p *Publisher) sendAll(s *subscriber) {
	var list []message
	topic := []byte(s.topic)
	for {
		s.mu.Lock()
		on, next := s.on, s.next
		s.mu.Unlock()
		list = list[:0]
		var more <-chan struct{}
		if on {
			list, more = p.history.from(list, next, p.cfg.HWM, burst)
		}
		if len(list) == 0 {
			select {
			case <-more:
			case <-s.changed:
			case <-s.gone:
				return
			case <-p.closing: // there may be a last batch
				if !on || p.history.next() == next {
					return
				}
			}
			continue
		}
		if !s.sendSome(topic, list) {
			return
		}
		clear(list) // what has been sent need not be kept
	}
}

// sendSome sends batches, unless the subscription has changed.
func (s *subscriber) sendSome(topic []byte, list []message) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.on || s.next > list[0].seq {
		return true
	}
	for _, m := range list {
		if s.send(topic, sequence(m.seq), m.payload) != nil {
			return false
		}
		s.next = m.seq + 1
	}
	return s.flush() == nil
}

// serveReplay answers those who ask for batches from a number on, with all that are kept and then an empty one with
// number -1.
func (p *Publisher) serveReplay(w *wire) {
	kind, err := w.handshake("ROUTER")
	if err != nil || kind != "REQ" && kind != "DEALER" && kind != "ROUTER" {
		return
	}
	for {
		command, parts, err := w.receive()
		switch {
		case err != nil:
			return
		case command == "PING":
			body := parts[0]
			_ = w.frame(flagCommand, append([]byte("\x04PONG"), body[min(2, len(body)):]...))
			if w.flush() != nil {
				return
			}
		case command == "" && len(parts) == 2 && len(parts[0]) == 0 && len(parts[1]) == 8:
			if !p.replay(w, binary.BigEndian.Uint64(parts[1])) {
				return
			}
		}
	}
}

// replay sends the batches from number seq on that there are now.
func (p *Publisher) replay(w *wire, seq uint64) bool {
	var list []message
	for end := p.history.next(); seq < end; {
		list, _ = p.history.from(list[:0], seq, math.MaxInt, burst)
		if len(list) == 0 {
			break
		}
		for _, m := range list {
			if m.seq >= end {
				break
			}
			if w.send(nil, sequence(m.seq), m.payload) != nil {
				return false
			}
		}
		if w.flush() != nil {
			return false
		}
		seq = list[len(list)-1].seq + 1
	}
	_ = w.send(nil, sequence(math.MaxUint64), nil)
	return w.flush() == nil
}
