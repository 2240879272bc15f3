package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"weir/api"
	"weir/auth"
	"weir/server"
)

// processStart is as near to the start of the process as a program can look.
var processStart = time.Now()

func serveMain(args []string, env func(string) string, out, errOut io.Writer) error {
	fs := pflag.NewFlagSet("weir serve", pflag.ContinueOnError)
	fs.SetOutput(errOut)
	m, e, h, d := bindModel(fs), bindEngine(fs), bindHTTP(fs), bindData(fs, env)
	fs.Usage = func() {
		fmt.Fprintf(out, "weir serve [MODEL] serves MODEL, or the model inside the binary, over HTTP.\n\n%s", fs.FlagUsages())
	}
	rest, err := parse(fs, args, env)
	if err != nil {
		return err
	}
	if len(rest) > 1 {
		return usageError{fmt.Errorf("serve takes one model, not %d: %q", len(rest), rest)}
	}
	dir := ""
	if len(rest) == 1 {
		dir = rest[0]
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
	comp, err := newComputer(ctx, src, m, e, func(done, total int64) {
		srv.SetProgress(fmt.Sprintf("the model is loading: %d of %d MB", done>>20, total>>20))
	})
	if err != nil {
		return err
	}
	cfg := h.config(log)
	if cfg.Keys, err = auth.New(*h.keys, *d.credentials); err != nil {
		return err
	}
	kept, err := d.open(log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, kept.Close()) }()
	cfg.Feedback, cfg.FeedbackBearer = kept.book, *d.bearer
	cfg.Trajectories.Archive, cfg.Trajectories.Spool, cfg.Trajectories.Record = kept.archive, kept.spool, *d.record
	if srv, err = server.New(cfg); err != nil {
		return err
	}
	ln, err := net.Listen("tcp", net.JoinHostPort(*h.host, strconv.Itoa(*h.port)))
	if err != nil {
		return err
	}
	if cfg.Keys.Open() && !loopback(ln.Addr()) {
		log.Warn("listening beyond this machine without --api-key or --credentials: everybody who reaches it can chat; feedback and trajectories are refused", "address", ln.Addr())
	}
	log.Info("listening", "url", "http://"+ln.Addr().String(), "model", src.names[0])

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
		Engine: c.engine, Tokenizer: s.tokenizer, Chat: s.chat,
		MaxLen: c.spec.MaxSeqTokens, VocabSize: c.spec.VocabSize, Priority: priority, Generation: s.defaults,
	}
}

func (h *httpOptions) config(log *slog.Logger) server.Config {
	c := server.DefaultConfig()
	c.Version, c.APIKeys, c.Log = version, *h.keys, log
	c.CORS.Origins, c.CORS.Methods, c.CORS.Headers, c.CORS.Credentials = *h.origins, *h.methods, *h.headers, *h.credentials
	c.MaxBody, c.MaxBodies = int(h.maxBody), max(c.MaxBodies, int64(h.maxBody))
	c.PrepareQueue = *h.queue
	c.Heartbeat = *h.heartbeat
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

// open opens the records. A folder that was asked for has to be writable; the one
// that nobody chose need not be, as on a read-only system.
func (d *dataOptions) open(log *slog.Logger) (*records, error) {
	rules, err := retainRules(*d.retention)
	if err != nil {
		return nil, usageError{err}
	}
	r, err := openRecords(*d.dir, int64(d.minFree), rules, log)
	if err == nil || *d.dir != d.byDefault {
		return r, err
	}
	log.Warn("feedback and trajectories are not kept; set --data-dir to a folder that can be written to", "error", err)
	return openRecords("", 0, nil, log)
}

// loopback reports whether only this machine can reach the address.
func loopback(a net.Addr) bool {
	t, ok := a.(*net.TCPAddr)
	return ok && t.IP.IsLoopback()
}
