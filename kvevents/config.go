package kvevents

import (
	"fmt"
	"net"
	"slices"
	"strings"

	"weir/internal/jsontext"
)

// Config says what is published and where. Its JSON form is that of vLLM's --kv-events-config.
type Config struct {
	Enabled        bool    `json:"enable_kv_cache_events"`
	Publisher      string  `json:"publisher"` // "zmq"; "null" or "": none, unless Enabled, which makes "" zmq
	Endpoint       string  `json:"endpoint"`
	ReplayEndpoint *string `json:"replay_endpoint"`
	BufferSteps    int     `json:"buffer_steps"`   // batches that are kept for those who missed some
	HWM            int     `json:"hwm"`            // batches that a subscriber may lag behind
	MaxQueueSize   int     `json:"max_queue_size"` // changes that wait to be published
	Topic          string  `json:"topic"`

	// IntHashes has the hashes of blocks published as integers of 64 bits; else as 16 bytes.
	IntHashes bool `json:"use_int_block_hashes"`

	// Bind has the publisher listen at its endpoint, or connect to it. nil: as binds says.
	Bind *bool `json:"bind"`

	// The following are not in the JSON.
	Groups []Group `json:"-"` // of layers, by their numbers; the last one is for states, if there are any
	Tier   string  `json:"-"` // medium of copies: CPU or FS
}

// Group is a kind of layers with blocks of their own.
type Group struct {
	Kind   string // as vLLM calls it: full_attention, sliding_window, chunked_local_attention, mamba
	Window int    // positions; 0: all
}

const (
	maxSteps = 1_000_000
	maxQueue = 1_000_000
	maxTopic = 1024
)

// known are the members of the JSON form.
var known = []string{"enable_kv_cache_events", "publisher", "endpoint", "replay_endpoint", "buffer_steps", "hwm", "max_queue_size", "topic", "use_int_block_hashes", "bind"}

// Parse reads a configuration in JSON. What it does not say is as in vLLM, except that the endpoint is on
// loopback: events have the token ids of prompts.
func Parse(text string) (*Config, error) {
	c := &Config{BufferSteps: 10_000, HWM: 100_000, MaxQueueSize: 100_000, IntHashes: true}
	var members map[string]jsontext.RawMessage
	if err := jsontext.Decode([]byte(text), &members); err != nil {
		return nil, err
	}
	for name := range members {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("%q is not one of %s", name, strings.Join(known, ", "))
		}
	}
	if err := jsontext.Decode([]byte(text), c); err != nil {
		return nil, err
	}
	if c.Publisher == "" && c.Enabled {
		c.Publisher = "zmq"
	}
	switch {
	case c.Publisher != "zmq" && c.Publisher != "null" && c.Publisher != "":
		return nil, fmt.Errorf("publisher %q: it takes zmq or null", c.Publisher)
	case c.BufferSteps < 0 || c.BufferSteps > maxSteps:
		return nil, fmt.Errorf("buffer_steps %d: it takes 0 to %d", c.BufferSteps, maxSteps)
	case c.HWM < 0 || c.HWM > maxSteps:
		return nil, fmt.Errorf("hwm %d: it takes 0 to %d", c.HWM, maxSteps)
	case c.MaxQueueSize < 1 || c.MaxQueueSize > maxQueue:
		return nil, fmt.Errorf("max_queue_size %d: it takes 1 to %d", c.MaxQueueSize, maxQueue)
	case len(c.Topic) > maxTopic:
		return nil, fmt.Errorf("topic: it has %d bytes, and may have %d", len(c.Topic), maxTopic)
	}
	if c.HWM == 0 { // in ZeroMQ, no limit
		c.HWM = maxSteps
	}
	if _, err := parseEndpoint(c.endpoint()); err != nil {
		return nil, fmt.Errorf("endpoint: %w", err)
	}
	if r := c.ReplayEndpoint; r != nil {
		if _, err := parseEndpoint(*r); err != nil {
			return nil, fmt.Errorf("replay_endpoint: %w", err)
		}
	}
	return c, nil
}

// On reports whether there is anything to publish to.
func (c *Config) On() bool { return c != nil && c.Enabled && c.Publisher == "zmq" }

// endpoint is where the events go.
func (c *Config) endpoint() string {
	if c.Endpoint == "" {
		return "tcp://127.0.0.1:5557"
	}
	return c.Endpoint
}

// binds reports whether the publisher listens at its endpoint. vLLM listens at wildcards and connects to anything else;
// an endpoint on loopback that is not given can only be meant to be listened at.
func (c *Config) binds() bool {
	if c.Bind != nil {
		return *c.Bind
	}
	e := c.Endpoint
	return e == "" || strings.Contains(e, "*") || strings.Contains(e, "::") || strings.HasPrefix(e, "ipc://")
}

// Exposed are the endpoints that other machines may reach.
func (c *Config) Exposed() (list []string) {
	if !c.On() {
		return nil
	}
	all := []string{c.endpoint()}
	if c.ReplayEndpoint != nil {
		all = append(all, *c.ReplayEndpoint)
	}
	for _, e := range all {
		a, err := parseEndpoint(e)
		if err != nil || a.network == "unix" {
			continue
		}
		host, _, _ := net.SplitHostPort(a.address)
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			list = append(list, e)
		}
	}
	return list
}

// address is what package net takes.
type address struct{ network, address string }

// parseEndpoint reads an endpoint of ZeroMQ.
func parseEndpoint(e string) (address, error) {
	if path, ok := strings.CutPrefix(e, "ipc://"); ok && path != "" {
		return address{"unix", path}, nil
	}
	rest, ok := strings.CutPrefix(e, "tcp://")
	if !ok {
		return address{}, fmt.Errorf("%q: it takes tcp://host:port, tcp://*:port or ipc://path", e)
	}
	host, port, err := net.SplitHostPort(rest)
	if err != nil && strings.HasPrefix(rest, "::") { // ZeroMQ allows an address without brackets
		i := strings.LastIndexByte(rest, ':')
		host, port, err = rest[:i], rest[i+1:], nil
	}
	if err != nil {
		return address{}, fmt.Errorf("%q: %w", e, err)
	}
	if _, err := net.LookupPort("tcp", port); err != nil || port == "" {
		return address{}, fmt.Errorf("%q: the port is not a number from 0 to 65535", e)
	}
	if host == "*" {
		host = ""
	}
	return address{"tcp", net.JoinHostPort(host, port)}, nil
}
