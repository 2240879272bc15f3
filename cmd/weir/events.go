package main

import (
	"errors"
	"fmt"
	"strings"

	"weir/backend"
	"weir/kvevents"
	"weir/metrics"
	"weir/server"
	"weir/server/openai"
	"weir/server/routerapi"
)

// eventOptions say where changes of the prefix cache are published.
type eventOptions struct {
	config *kvevents.Config // nil: nowhere
}

func (o *eventOptions) bind(f *flagSet) {
	f.Var(o, "kv-events-config", "where the changes of the prefix cache are published for routers, as vLLM's `JSON`: {\"enable_kv_cache_events\": true}, and endpoint, replay_endpoint, buffer_steps, hwm, max_queue_size, topic. Events have the token ids of prompts; the endpoint is on loopback unless it is given (default: nowhere)")
}

// Set, String and Type make it the value of a flag.
func (o *eventOptions) Set(text string) (err error) {
	o.config, err = kvevents.Parse(text)
	return err
}

func (o *eventOptions) String() string { return "" }

func (o *eventOptions) Type() string { return "JSON" }

// check refuses to publish what there is not.
func (o *eventOptions) check(e *engineOptions) error {
	if o.config.On() && !e.caching {
		return errors.New("--kv-events-config publishes what changes in the prefix cache, which --no-enable-prefix-caching turns off")
	}
	return nil
}

// open begins to publish; nil: there is nothing to publish to.
func (o *eventOptions) open(spec backend.Spec, copies *offloadOptions) (*kvevents.Publisher, error) {
	if !o.config.On() {
		return nil, nil
	}
	cfg := *o.config
	for _, g := range spec.Groups {
		switch {
		case g.Window > 0:
			cfg.Groups = append(cfg.Groups, kvevents.Group{Kind: "sliding_window", Window: g.Window})
		case g.Chunk > 0:
			cfg.Groups = append(cfg.Groups, kvevents.Group{Kind: "chunked_local_attention"})
		default:
			cfg.Groups = append(cfg.Groups, kvevents.Group{Kind: "full_attention"})
		}
	}
	if len(cfg.Groups) == 0 {
		cfg.Groups = []kvevents.Group{{Kind: "full_attention"}}
	}
	if spec.StateSlots > 0 {
		cfg.Groups = append(cfg.Groups, kvevents.Group{Kind: "mamba"})
	}
	if cfg.Tier = "CPU"; copies.dir != "" {
		cfg.Tier = "FS"
	}
	p, err := kvevents.Open(cfg, spec.BlockTokens)
	if err != nil {
		return nil, fmt.Errorf("--kv-events-config: %w", err)
	}
	return p, nil
}

// note says where events go, for the log.
func (o *eventOptions) note(p *kvevents.Publisher) string {
	events, replay := p.Addresses()
	if events == "" {
		events = o.config.Endpoint
	}
	line := "KV events are published at " + events
	if replay != "" {
		line += ", and again at " + replay
	}
	if exposed := o.config.Exposed(); len(exposed) > 0 {
		line += "; they have the token ids of prompts, without encryption or keys, and other machines may reach " + strings.Join(exposed, " and ")
	}
	return line
}

// tellEvents tells the publisher and the HTTP server of each other.
func (e *preparedEngine) tellEvents(s *server.Prefixes, o *eventOptions) {
	p := e.events
	if p == nil {
		return
	}
	p.SetPlain(openai.PlainSalt(s.SaltKey))
	s.Events = func() metrics.Events {
		st := p.Stats()
		return metrics.Events{Batches: st.Batches, Lost: st.Lost, Subscribers: st.Subscribers}
	}
	if events, replay := p.Endpoints(); events != "" {
		s.Feed = &routerapi.Feed{Endpoint: events, Replay: replay, Topic: o.config.Topic, HWM: o.config.HWM, BufferSteps: o.config.BufferSteps}
	}
}

// closeEvents publishes what waits.
func (e *preparedEngine) closeEvents() error {
	if e.events == nil {
		return nil
	}
	return e.events.Close()
}
