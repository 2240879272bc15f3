package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"weir/api"
	"weir/auth"
	"weir/server"
	"weir/usage"
)

// processStart is as near to the start of the process as a program can look.
var processStart = time.Now()

func serveMain(args []string, env func(string) string, out, errOut io.Writer) error {
	fs := pflag.NewFlagSet("weir serve", pflag.ContinueOnError)
	fs.SetOutput(errOut)
	m, e, h, d := bindModel(fs), bindEngine(fs), bindHTTP(fs), bindData(fs)
	fs.Usage = func() {
		fmt.Fprintf(out, "weir serve [MODEL] serves MODEL, or the model inside the binary, over HTTP.\n\n%s", fs.FlagUsages())
	}
	*h.dataDir = defaultDataDir(env)
	h.dataByDefault = *h.dataDir
	rest, err := parse(fs, args, env)
	if err != nil {
		return err
	}
	h.settle(fs, env)
	if len(rest) > 1 {
		return usageError{fmt.Errorf("serve takes one model, not %d: %q", len(rest), rest)}
	}
	dir := ""
	if len(rest) == 1 {
		dir = rest[0]
	}
	if err := h.validate(); err != nil {
		return usageError{err}
	}
	log, err := newLog(errOut, *h.logLevel)
	if err != nil {
		return usageError{err}
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	return serve(dir, m, e, h, d, log, signals)
}

// settle takes up what only the flags together say, and the environment
// variables that scripts for vLLM set.
func (h *httpOptions) settle(fs *pflag.FlagSet, env func(string) string) {
	for _, name := range []string{"WEIR_DEV", "VLLM_SERVER_DEV_MODE"} {
		if env(name) == "1" && !fs.Changed("dev-mode") && !fs.Changed("no-dev-mode") {
			h.functions.Dev = true
		}
	}
	h.functions.Settings = settings(fs)
}

func newLog(w io.Writer, level string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, err
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: l})), nil
}

// serve runs the server until a signal comes or the engine ends. What is wrong
// with the model's files or the options is found before any port opens.
func serve(dir string, m modelOptions, e *engineOptions, h *httpOptions, d *dataOptions, log *slog.Logger, signals <-chan os.Signal) (err error) {
	src, err := openSource(dir, m)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.network.Close()) }()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var srv *server.Server
	said := time.Now()
	comp, err := newComputer(ctx, src, m, e, func(done, total int64) {
		if time.Since(said) > 2*time.Second { // of what is over at once nobody wants to hear
			said = time.Now()
			log.Info("loading", "megabytes", done>>20, "of", total>>20)
		}
		srv.SetProgress(fmt.Sprintf("the model is loading: %d of %d MB", done>>20, total>>20))
	})
	if err != nil {
		return err
	}
	cfg := h.config(log)
	cfg.Functions.Device = comp.about
	// What could never be admitted is refused for good, not with "try again".
	cfg.Limits.Prompts = min(cfg.Limits.Prompts, *e.maxLive)
	cfg.Limits.Choices = min(cfg.Limits.Choices, *e.maxLive)
	if cfg.Keys, err = auth.New(*h.keys, *d.credentials); err != nil {
		return err
	}
	if cfg.Usage, err = openUsage(*h.dataDir, h.dataByDefault, log); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cfg.Usage.Close()) }()
	kept, err := d.open(*h.dataDir, h.dataByDefault, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, kept.Close()) }()
	cfg.Feedback, cfg.FeedbackBearer = kept.book, *d.bearer
	cfg.Trajectories.Quota = int64(d.quota)
	cfg.Trajectories.Archive, cfg.Trajectories.Spool, cfg.Trajectories.Record = kept.archive, kept.spool, *d.record
	if srv, err = server.New(cfg); err != nil {
		return err
	}
	ln, url, err := h.listen()
	if err != nil {
		return err
	}
	if cfg.Keys.Open() && !loopback(ln.Addr()) {
		log.Warn("listening beyond this machine without --api-key or --credentials: everybody who reaches it can chat; feedback and trajectories are refused", "address", ln.Addr())
	}
	log.Info("listening", "url", url, "model", src.names[0])

	var running sync.WaitGroup
	var failure atomic.Pointer[error]
	ended := make(chan struct{})
	running.Go(func() {
		defer close(ended)
		if err := comp.engine.Run(ctx); err != nil && !(ctx.Err() != nil && errors.Is(err, context.Canceled)) { // a model that was still loading
			failure.Store(&err)
			srv.Fail(err)
		}
	})
	running.Go(func() { cfg.Keys.Watch(ctx, time.Second, log) })
	running.Go(func() {
		if err := srv.Serve(ln); err != nil {
			log.Error("serving ended", "error", err)
		}
	})
	running.Go(func() {
		select {
		case <-ended:
			return
		case <-comp.engine.Ready():
		}
		if err := srv.SetModel(comp.served(src, *e.policy == "priority")); err != nil {
			failure.Store(&err)
			cancel()
			return
		}
		log.Info("ready", "seconds", fmt.Sprintf("%.3f", time.Since(processStart).Seconds()), "device", comp.about,
			"parameters", src.network.Parameters(), "weights", inUnits(src.network.WeightBytes()), "kv_cache", inUnits(comp.kvBytes),
			"kv_tokens", (comp.spec.NumBlocks-1)*comp.spec.BlockTokens, "max_model_len", comp.spec.MaxSeqTokens, "defaults", src.defaults.String())
	})
	select {
	case sig := <-signals:
		log.Info("stopping: requests in flight may end, a second signal stops at once", "signal", sig.String(), "timeout", *h.shutdown)
	case <-ended:
	}
	stop, done := context.WithTimeout(context.Background(), *h.shutdown)
	go func() {
		select {
		case <-signals:
			done()
		case <-stop.Done():
		}
	}()
	if err := srv.Shutdown(stop); err != nil && failure.Load() == nil {
		log.Warn("some requests were cut short", "error", err)
	}
	done()
	cancel()
	running.Wait()
	if f := failure.Load(); f != nil {
		return *f
	}
	log.Info("stopped")
	return nil
}

// served is what the HTTP server has to know about the model.
func (c *computer) served(s *source, priority bool) *server.Model {
	return &server.Model{
		Names: s.names, Root: s.root, Created: time.Now(), Fingerprint: c.fingerprint,
		Engine: c.engine, Tokenizer: s.tokenizer, Chat: s.chat, TokenizerInfo: s.info,
		CacheType: c.cacheType, MaxLen: c.spec.MaxSeqTokens, VocabSize: c.spec.VocabSize, Priority: priority, Generation: s.defaults,
	}
}

// validate finds what only this build refuses.
func (h *httpOptions) validate() error {
	switch mode := *h.logprobsMode; mode {
	case "raw_logprobs", "processed_logprobs":
		return nil
	case "raw_logits", "processed_logits":
		return fmt.Errorf("--logprobs-mode %s: this server reports log-probabilities only, raw_logprobs or processed_logprobs", mode)
	default:
		return fmt.Errorf("--logprobs-mode %s is neither raw_logprobs nor processed_logprobs", mode)
	}
}

func (h *httpOptions) config(log *slog.Logger) server.Config {
	c := server.DefaultConfig()
	c.Version, c.APIKeys, c.Log = version, *h.keys, log
	c.CORS.Origins, c.CORS.Methods, c.CORS.Headers, c.CORS.Credentials = *h.origins, *h.methods, *h.headers, *h.credentials
	c.MaxBody, c.MaxBodies = int(h.maxBody), max(c.MaxBodies, int64(h.maxBody))
	c.PrepareQueue, c.LogRequests = *h.queue, *h.logRequests
	c.NoRequestID = !*h.requestIDs
	c.Heartbeat = *h.heartbeat
	c.Functions = h.functions
	c.Functions.RootPath = strings.TrimRight(*h.rootPath, "/")
	c.ProcessedLogprobs = *h.logprobsMode == "processed_logprobs"
	c.MaxLogprobs, c.TokensAsIDs, c.ForceUsage = *h.maxLogprobs, *h.tokensAsIDs, *h.forceUsage
	c.ReasoningField, _ = api.ParseReasoningField(*h.reasoningField) // the flag takes no other name
	return c
}

// defaultDataDir is where the XDG base directory specification puts the data of
// a user's programs; "" where there is no such user.
func defaultDataDir(env func(string) string) string {
	if dir := env("XDG_DATA_HOME"); filepath.IsAbs(dir) { // others are to be ignored, it says
		return filepath.Join(dir, "weir")
	}
	if home := env("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "share", "weir")
	}
	return ""
}

// openUsage opens the counts by project. A folder that was asked for has to be
// writable; the one that nobody chose need not be, as on a read-only system.
func openUsage(dir, byDefault string, log *slog.Logger) (*usage.Ledger, error) {
	cfg := usage.DefaultConfig()
	cfg.Dir, cfg.Log = dir, log
	l, err := usage.Open(cfg)
	if err == nil || dir != byDefault {
		if err != nil {
			err = fmt.Errorf("--data-dir %s: %w", dir, err)
		}
		return l, err
	}
	log.Warn("usage counts are kept in memory only; set --data-dir to a folder that can be written to", "error", err)
	cfg.Dir = ""
	return usage.Open(cfg)
}

// open opens the records in dir, in the same way.
func (d *dataOptions) open(dir, byDefault string, log *slog.Logger) (*records, error) {
	var rules retention
	var err error
	if rules.feedback, err = retainRules(*d.retention); err == nil {
		rules.trajectories, err = retainModels(*d.trajectory)
	}
	if err != nil {
		return nil, usageError{err}
	}
	r, err := openRecords(dir, int64(d.minFree), rules, log)
	if err == nil || dir != byDefault {
		return r, err
	}
	log.Warn("feedback and trajectories are not kept; set --data-dir to a folder that can be written to", "error", err)
	return openRecords("", 0, retention{}, log)
}
