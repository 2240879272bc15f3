package liveapi

import (
	"strconv"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"weir/api"
	"weir/auth"
	"weir/engine"
	"weir/metrics"
	"weir/server/failure"
	"weir/server/transport"
)

// Path is the path of the stream.
const Path = "/v1/live"

// Limits of what is watched.
const (
	maxViewers    = 32  // streams at a time
	maxOfTenant   = 8   // of these, streams of one tenant
	mostRequests  = 200 // in a state
	viewerBytes   = 512 << 10
	shortInterval = 200 * time.Millisecond
	longInterval  = 10 * time.Second
	maxCount      = 1_000_000       // states that a client may ask for
	patience      = 5 * time.Second // for a write
)

// Config is what Handlers are made of.
type Config struct {
	HTTP   *transport.Server
	Engine func() *engine.Engine // nil: there is no model
	Counts *metrics.Metrics
	// Version is that of the server, for those who look at it.
	Version string
}

// Handlers answer Path.
type Handlers struct {
	cfg Config

	mu      sync.Mutex
	viewers int
	tenants map[string]int // viewers of each tenant
}

// New returns handlers.
func New(cfg Config) *Handlers { return &Handlers{cfg: cfg, tenants: map[string]int{}} }

// Viewers is how many streams are open.
func (h *Handlers) Viewers() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.viewers
}

// enter takes a place for a viewer of a tenant, and reports whether there is one.
func (h *Handlers) enter(tenant string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.viewers >= maxViewers || h.tenants[tenant] >= maxOfTenant {
		return false
	}
	h.viewers++
	h.tenants[tenant]++
	return true
}

func (h *Handlers) leave(tenant string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.viewers--
	if h.tenants[tenant]--; h.tenants[tenant] == 0 {
		delete(h.tenants, tenant)
	}
}

// errViewers refuses a viewer because there are too many.
func errViewers() *api.Error {
	return &api.Error{
		Name: "viewers", Status: fasthttp.StatusTooManyRequests, Code: fasthttp.StatusTooManyRequests, Type: "RateLimitError",
		Message: "Too many streams of " + Path + " are open: there may be " + strconv.Itoa(maxViewers) + ", and " + strconv.Itoa(maxOfTenant) + " of one tenant.",
	}
}

// Live answers GET /v1/live.
func (h *Handlers) Live(c *transport.Call) {
	if h.cfg.HTTP.Draining() {
		c.Fail(failure.ErrDraining)
		return
	}
	every, count, bad := asked(c)
	if bad != nil {
		c.Fail(bad)
		return
	}
	head := &c.Response.Header
	head.Set("Cache-Control", "no-cache")
	head.Set("X-Accel-Buffering", "no") // nginx
	if c.IsHead() {
		c.SetContentType(contentType)
		return
	}
	tenant := c.Tenant()
	if !c.Memory().TryGrow(viewerBytes) {
		c.Fail(failure.ErrMemory)
		return
	}
	if !h.enter(tenant) {
		c.Fail(errViewers())
		return
	}
	c.Impatient(patience)
	stop := h.cfg.Counts.Watch()
	c.AtEnd(func() {
		stop()
		h.leave(tenant)
	})
	c.Stream(contentType, &viewer{h: h, call: c, sees: sightOf(c, tenant), every: every, left: count, begin: true})
}

const contentType = "text/event-stream; charset=utf-8"

// asked reads the query: how often a state is sent, and after how many the stream ends; 0: it goes on.
func asked(c *transport.Call) (every time.Duration, count int, bad *api.Error) {
	every = time.Second
	q := c.QueryArgs()
	if text := string(q.Peek("interval")); text != "" {
		seconds, err := strconv.ParseFloat(text, 64)
		if err != nil || !(seconds >= shortInterval.Seconds() && seconds <= longInterval.Seconds()) {
			return 0, 0, failure.BadRequest("interval", "interval must be a number of seconds from %v to %v, got %.64q.", shortInterval.Seconds(), longInterval.Seconds(), text)
		}
		every = time.Duration(seconds * float64(time.Second))
	}
	if text := string(q.Peek("count")); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxCount {
			return 0, 0, failure.BadRequest("count", "count must be a whole number from 1 to %d, got %.64q.", maxCount, text)
		}
		count = n
	}
	return every, count, nil
}

// sight is what a viewer may see.
type sight struct {
	who    *auth.Identity
	tenant string
	all    bool // everything
	closed bool // nothing of others: there are no keys, and other machines reach the server
}

func sightOf(c *transport.Call, tenant string) sight {
	insider := c.Insider()
	return sight{who: c.Who, tenant: tenant, all: insider != nil && insider.May(auth.Admin, "*"), closed: insider == nil}
}

// request reports whether a request is shown: the viewer's own, and those of the projects that it
// administers.
func (s *sight) request(r *transport.Ongoing) bool {
	switch {
	case s.all:
		return true
	case s.closed:
		return r.Tenant == s.tenant
	case r.Who != nil && r.Who.Key == s.who.Key && r.Who.Share == s.who.Share:
		return true
	}
	return r.Project != "" && s.who.May(auth.Admin, r.Project)
}

// project reports whether the use of a project is shown, as GET /usage shows it.
func (s *sight) project(name string) bool { return s.all || !s.closed && s.who.Covers(name) }
