package server

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"

	"weir/api"
	"weir/auth"
	"weir/engine"
	"weir/internal/jsontext"
	"weir/metrics"
	"weir/server/failure"
	"weir/server/openai"
	"weir/server/transport"
	"weir/server/weaveapi"
	"weir/store"
	"weir/usage"
)

// serverLoad answers GET /load.
func (s *Server) serverLoad(c *transport.Call) {
	c.Answer(fasthttp.StatusOK, `{"server_load":`+strconv.FormatInt(s.openai.Load(), 10)+`}`)
}

// scrape answers GET /metrics, also while there is no model yet and when the
// engine has failed. What a project does is for those whom GET /usage tells, and what a tenant
// has is for itself and for those who administer all projects.
func (s *Server) scrape(c *transport.Call) {
	var shows func(string) bool
	who := c.Insider()
	if who != nil {
		shows = who.Covers
	}
	var text bytes.Buffer
	err := s.counts.WriteText(&text, shows)
	if err == nil && who != nil {
		all := who.May(auth.Admin, "*")
		err = s.counts.WriteShares(&text, func(tenant string) bool { return all || tenant == who.Share })
	}
	if err != nil {
		c.Fail(err)
		return
	}
	c.SetContentType(metrics.ContentType)
	c.Response.SetBodyRaw(text.Bytes())
}

// stores are the databases that metrics tell of.
func (s *Server) stores() map[string]func() metrics.Store {
	list := make(map[string]func() metrics.Store)
	add := func(name string, stats func() store.Stats) {
		list[name] = func() metrics.Store {
			d := stats()
			return metrics.Store{Updates: d.Updates, Commits: d.Commits, Written: d.Bytes, Committing: d.Committing.Seconds(), Syncing: d.Syncing.Seconds(), Failures: d.Failures, Damaged: d.Corrupt, Doubts: d.Doubts,
				Waiting: d.Waiting, Size: d.LSM + d.ValueLog}
		}
	}
	if b := s.cfg.Feedback; b != nil {
		add("feedback", b.StoreStats)
	}
	if w := s.cfg.Weave.Calls; w != nil {
		add("traces", w.StoreStats)
	}
	if a := s.cfg.Trajectories.Archive; a != nil {
		add("trajectories", a.Stats)
	}
	if r := s.cfg.Responses; r != nil {
		add("responses", r.StoreStats)
	}
	if b := s.cfg.Batches; b != nil {
		add("batches", b.StoreStats)
	}
	return list
}

// serverInfo answers GET /server_info and GET /get_server_info: what routers ask for, what the clients of Weave
// ask for when they start and, for developers, what scripts for vLLM look for. One object has the keys of all.
func (s *Server) serverInfo(c *transport.Call) {
	info := map[string]any{}
	if s.weave != nil {
		info = weaveapi.Info()
	}
	s.routers.Info(info)
	if s.cfg.Functions.Dev && !s.settings(c, info) {
		return
	}
	body, err := jsontext.Encode(info)
	if err != nil {
		c.Fail(err)
		return
	}
	c.Answer(fasthttp.StatusOK, string(body))
}

// settings adds the members for developers, or answers the request and returns false.
func (s *Server) settings(c *transport.Call, info map[string]any) bool {
	var config any = s.cfg.Functions.Settings
	switch format := string(c.QueryArgs().Peek("config_format")); format {
	case "", "text":
		var lines []string
		for name, value := range s.cfg.Functions.Settings {
			lines = append(lines, name+"="+value)
		}
		slices.Sort(lines)
		config = strings.Join(lines, "\n")
	case "json":
	default:
		c.Fail(failure.BadRequest("config_format", "config_format must be text or json, got %.64q.", format))
		return false
	}
	info["vllm_config"], info["vllm_env"] = config, map[string]string{}
	info["system_env"] = map[string]any{
		"version": s.cfg.Version, "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH, "device": s.cfg.Functions.Device,
		"processors": runtime.NumCPU(), "gomaxprocs": runtime.GOMAXPROCS(0), "goroutines": runtime.NumGoroutine(),
	}
	return true
}

// resetPrefixCache answers POST /reset_prefix_cache, for developers and
// benchmarks: 200 whether or not the cache could be emptied, as the reference
// engine does. The body says which. It makes the prompts of all tenants slower, so a key needs
// the right to administrate.
func (s *Server) resetPrefixCache(c *transport.Call) {
	if c.Who.Rights&auth.Admin == 0 {
		c.Fail(api.ErrPermission("The key may not reset caches."))
		return
	}
	m, err := s.openai.Serving()
	if err != nil {
		c.Fail(err)
		return
	}
	force, bad := flag(c, "reset_running_requests")
	if _, bad1 := flag(c, "reset_external"); bad == nil { // copies outside of the device are a part of the cache at any rate
		bad = bad1
	}
	if bad != nil {
		c.Fail(bad)
		return
	}
	switch err = s.forgetPrefixes(c, m, force); {
	case errors.Is(err, engine.ErrBusy):
		s.log.Warn("prefix cache not reset: requests are running", "reset_running_requests", force)
		c.Answer(fasthttp.StatusOK, `{"success":false}`)
	case err != nil:
		c.Fail(err)
		return
	default:
		s.log.Info("prefix cache reset", "reset_running_requests", force)
		c.Answer(fasthttp.StatusOK, `{"success":true}`)
	}
}

// forgetPrefixes empties the prefix cache and removes what is kept of it, unless requests run; force preempts those.
func (s *Server) forgetPrefixes(c *transport.Call, m *openai.Model, force bool) error {
	err := m.Engine.ForgetPrefixes(c.Context(), force)
	if err == nil && s.cfg.Prefixes.Erase != nil {
		err = s.cfg.Prefixes.Erase()
	}
	return err
}

// flushCache answers POST /flush_cache, by which routers empty the prefix caches of all servers behind them: 400 while
// requests run, as SGLang does.
func (s *Server) flushCache(c *transport.Call) {
	if c.Who.Rights&auth.Admin == 0 {
		c.Fail(api.ErrPermission("The key may not reset caches."))
		return
	}
	m, err := s.openai.Serving()
	if err == nil {
		err = s.forgetPrefixes(c, m, false)
	}
	switch {
	case errors.Is(err, engine.ErrBusy):
		c.Fail(failure.BadRequest("", "The prefix cache was not emptied, because requests are running or waiting."))
	case err != nil:
		c.Fail(err)
	default:
		s.log.Info("prefix cache reset")
		c.SetStatusCode(fasthttp.StatusOK)
		c.SetContentType("text/plain; charset=utf-8")
		c.SetBodyString("Cache flushed.\n")
	}
}

// erasePrefixes empties the prefix cache and removes what is kept of it. Requests that run are preempted and go on.
func (s *Server) erasePrefixes(ctx context.Context) error {
	if m, err := s.openai.Serving(); err == nil {
		if err := m.Engine.ForgetPrefixes(ctx, true); err != nil && !errors.Is(err, engine.ErrStopped) {
			return err
		}
	}
	return s.cfg.Prefixes.Erase()
}

// flag reads a boolean from the query, in the spellings that bodies have; false
// if it is not there.
func flag(c *transport.Call, name string) (bool, *api.Error) {
	text := string(c.QueryArgs().Peek(name))
	if text == "" {
		return false, nil
	}
	on, ok := api.ParseBool(text)
	if !ok {
		return false, failure.BadRequest(name, "%s must be a boolean, got %.64q.", name, text)
	}
	return on, nil
}

// projectUsage answers GET /usage: what each project has used, or with
// ?project=team/project one of them, and with ?project= the requests without.
func (s *Server) projectUsage(c *transport.Call) {
	args := c.QueryArgs()
	only, filter := string(args.Peek("project")), args.Has("project")
	if only != "" && only != usage.Other && !transport.ValidProject(only) {
		c.Fail(api.ErrProject(only))
		return
	}
	// An error is about the file, and the ledger has logged it: the counts in memory are
	// right all the same.
	projects, since, _ := s.http.Usage().Totals()
	list := make([]api.ProjectUsage, 0, len(projects))
	for _, p := range projects {
		if (!filter || p.Name == only) && c.Who.Covers(p.Name) {
			list = append(list, api.ProjectUsage{Project: p.Name, Requests: p.Requests, Prompt: p.Prompt, Cached: p.Cached, Completion: p.Completion})
		}
	}
	c.Answer(fasthttp.StatusOK, string(api.AppendProjectUsage(nil, since, list)))
}
