package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"weir/auth"
	"weir/internal/tlsfiles"
	"weir/model"
	"weir/server"
	"weir/server/openai"
)

// processStart is as close to the start of the process as a program can observe.
var processStart = time.Now()

func setupServe(f *flagSet, env *environment) action {
	o := &serveOptions{}
	o.bind(f, env.getenv)
	return func(args []string) error {
		dir, err := o.model.folder(args)
		if err != nil {
			return err
		}
		if err := o.settle(f, env.getenv); err != nil {
			return err
		}
		lines := newQueuedLog(env.errOut, o.logs.format)
		defer lines.Close()
		log, err := newLogAs(lines, o.logs.level, o.logs.format)
		if err != nil {
			return usageError{err}
		}
		for _, line := range o.withoutEffect() {
			log.Info(line)
		}
		if dir, err = o.model.locate(dir, env, log); err != nil {
			return err
		}
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
		defer signal.Stop(signals)
		o.life.dump = env.errOut
		return serve(dir, o, log, signals)
	}
}

func newLog(w io.Writer, level string) (*slog.Logger, error) { return newLogAs(w, level, "text") }

func newLogAs(w io.Writer, level, format string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, err
	}
	return slog.New(logHandler(w, l, format)), nil
}

// serve runs the server until a signal arrives or the engine ends. Mistakes in the
// model's files or in the options are found before any port opens.
func serve(dir string, o *serveOptions, log *slog.Logger, signals chan os.Signal) (err error) {
	src, err := openSource(dir, &o.model)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.network.Close()) }()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	o.engine.tiles.log, o.engine.offload.log, o.engine.transfer.log = log, log, log
	s := &service{source: src, options: o, log: log, cancel: cancel}
	if s.engine, err = prepareEngine(ctx, src, &o.model, &o.engine, s.progress); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, s.engine.closeEvents(), s.engine.closeTransfers(), s.engine.closeCopies())
	}()
	for _, line := range s.engine.notes {
		log.Info(line)
	}
	if s.keys, err = auth.New(o.access.keys, o.access.credentials); err != nil {
		return err
	}
	usage, err := openUsage(&o.records, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, usage.Close()) }()
	limits, err := openLimits(&o.records, o.access.credentials, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, limits.Close()) }()
	systems, err := o.records.sinks.open()
	if err != nil {
		return usageError{err}
	}
	stored, err := openRecords(&o.records, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stored.Close()) }()
	told := startSinks(systems, o.records.sinks.backlog, stored, usage, log)
	defer told.Close()

	memory := planMemory(int64(o.listen.memory), memoryLimit(), s.engine.hostBytes)
	if !o.heapIsLimited {
		defer memory.limitHeap(s.engine.hostBytes)()
	}

	cfg := o.serverConfig(log)
	cfg.Memory = memory.requests
	if cfg.Prefixes, err = s.engine.prefixes(&o.engine.offload, &o.engine.events); err != nil {
		return err
	}
	cfg.Keys, cfg.Usage, cfg.Functions.Device = s.keys, usage, s.engine.device
	cfg.KeyLimits = limits
	cfg.Responses, cfg.Batches = stored.responses, stored.batches
	cfg.Weave = server.Weave{Calls: stored.calls, Objects: stored.objects, Queues: stored.queues}
	cfg.Feedback, cfg.Trajectories.Archive, cfg.Trajectories.Spool = stored.book, stored.archive, stored.spool
	if told != nil {
		cfg.Sinks = told.stats
	}
	if cfg.Traces, err = o.logs.openTraces(log); err != nil {
		return usageError{err}
	}
	defer closeTraces(cfg.Traces, log)
	if cfg.Bench, err = s.selfBench(); err != nil {
		return err
	}
	if s.http, err = server.New(cfg); err != nil {
		return err
	}
	if s.tls, err = o.tls.open(log); err != nil {
		return err
	}
	lns, err := o.openAll(s.tls != nil)
	if err != nil {
		return err
	}
	url := urlHere(lns.public, s.tls != nil)
	s.ownURL.Store(&url)
	for i, ln := range lns.public {
		if s.keys.Open() && !loopback(ln.Addr()) {
			log.Warn("other machines can connect, and there is neither --api-key nor --credentials: everybody who can reach this address may chat; feedback and trajectories are refused", "address", ln.Addr())
		}
		log.Info("listening", "url", lns.urls[i], "model", src.names[0], "memory_limit", inUnits(memory.requests))
	}
	return s.run(ctx, lns, signals)
}

// service is a server that is running: an engine, the HTTP server in front of it,
// and the goroutines that connect them.
type service struct {
	source  *source
	options *serveOptions
	engine  *preparedEngine
	http    *server.Server
	keys    *auth.Keyring
	tls     *tlsfiles.Files // nil: there is no TLS
	log     *slog.Logger
	loading loadReport
	drains  drains
	ownURL  atomic.Pointer[string] // see urlHere; nil: no port is open yet

	cancel  context.CancelFunc    // stops the engine
	failure atomic.Pointer[error] // the first error that ends the service
}

// progress takes in how many bytes of the weights are loaded.
func (s *service) progress(done, total int64) {
	text, left, due := s.loading.add(time.Now(), done, total)
	if due {
		s.log.Info("loading", s.loading.attributes()...)
	}
	s.http.SetProgress("the model is loading: "+text, left)
}

// run serves ln until a signal arrives or the engine ends, and then shuts down.
func (s *service) run(ctx context.Context, lns *listeners, signals chan os.Signal) error {
	var running sync.WaitGroup
	ended := make(chan struct{})
	running.Go(func() {
		defer close(ended)
		s.runEngine(ctx)
	})
	running.Go(func() { s.keys.Watch(ctx, time.Second, s.log) })
	var security func() *tls.Config
	if s.tls != nil {
		security = s.tls.Config
		s.http.SetTLS(s.tls.Expires, s.tls.Stale)
		running.Go(func() { s.tls.Watch(ctx, time.Second, s.log) })
	}
	for _, ln := range lns.public {
		running.Go(func() {
			if err := s.http.ServeTLS(ln, security); err != nil {
				s.log.Error("serving ended", "error", err)
			}
		})
	}
	s.drains.exit = func() {
		select {
		case signals <- syscall.SIGTERM:
		default: // a signal is waiting
		}
	}
	closeAdmin := s.startOperator(lns.admin)
	running.Go(func() { s.becomeReady(ended) })
	running.Go(func() { s.feedWatchdog(ctx) })

	stops := s.stops(ctx, signals)
	select {
	case sig := <-stops:
		s.log.Info("stopping: requests in flight may end, a second signal stops at once", "signal", sig.String(), "delay", s.options.life.delay, "timeout", s.options.life.shutdown)
		s.drains.stop()
		s.notify(daemon.SdNotifyStopping)
		s.http.Transport().Leave()
		s.delay(stops, ended)
	case <-ended:
	}
	s.shutDown(stops)
	s.cancel()
	closeAdmin()
	running.Wait()
	if failure := s.failure.Load(); failure != nil {
		return *failure
	}
	s.log.Info("stopped")
	return nil
}

// stops returns the signals that stop the server. SIGHUP does not, which reads files anew, and neither
// does SIGQUIT, which dumps the flight recorder.
func (s *service) stops(ctx context.Context, signals <-chan os.Signal) <-chan os.Signal {
	stops := make(chan os.Signal, 1)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case sig := <-signals:
				switch sig {
				case syscall.SIGHUP:
					s.hangUp()
					continue
				case syscall.SIGQUIT:
					s.dumpSteps("SIGQUIT")
					continue
				}
				select {
				case stops <- sig:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	return stops
}

// reload reads what can be read anew while the server runs: the credentials file, and those of TLS.
func (s *service) reload() {
	if s.options.access.credentials == "" && s.tls == nil {
		s.log.Info("SIGHUP: there is no credentials file, and nothing else can be read anew")
		return
	}
	if s.options.access.credentials != "" {
		if err := s.keys.Reload(); err != nil {
			s.log.Error("SIGHUP: the credentials file is not used; the keys before it stay valid", "error", err)
		} else {
			s.log.Info("SIGHUP: the credentials file was read anew")
		}
	}
	if s.tls == nil {
		return
	}
	if err := s.tls.Reload(); err != nil {
		s.log.Error("SIGHUP: the files of TLS are not used; those before them stay in use", "error", err)
		return
	}
	s.log.Info("SIGHUP: the files of TLS were read anew", "expires", s.tls.Expires())
}

// runEngine runs the engine until it fails or is stopped. That it is stopped while
// the model is still loading is no failure.
func (s *service) runEngine(ctx context.Context) {
	defer func() {
		if p := recover(); p != nil { // a broken invariant
			s.dumpSteps("the engine panicked")
			panic(p)
		}
	}()
	err := s.engine.engine.Run(ctx)
	if err == nil || ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return
	}
	s.failure.Store(&err)
	s.http.Fail(err)
	s.dumpSteps("the engine has failed")
}

// becomeReady gives the HTTP server its model as soon as the engine is ready.
func (s *service) becomeReady(ended <-chan struct{}) {
	select {
	case <-ended:
		return
	case <-s.engine.engine.Ready():
	}
	if err := s.http.SetModel(s.engine.served(s.source, s.options.engine.policy == "priority")); err != nil {
		s.failure.Store(&err)
		s.cancel()
		return
	}
	network, spec := s.source.network, &s.engine.spec
	if line := s.engine.shortened(&network.Config); line != "" {
		s.log.Info(line, "max_model_len", spec.MaxSeqTokens, "model", network.Config.MaxSeqTokens)
	}
	ready := []any{"seconds", fmt.Sprintf("%.3f", time.Since(processStart).Seconds()), "device", s.engine.device,
		"parameters", network.Parameters(), "weights", inUnits(network.WeightBytes()), "kv_cache", inUnits(s.engine.kvBytes),
		"kv_tokens", spec.PoolTokens()}
	if n := spec.NumGroups(); n > 1 {
		ready = append(ready, "kv_tokens_short", (spec.NumBlocks-1)/n*spec.BlockTokens)
	}
	if spec.StateSlots > 0 {
		ready = append(ready, "state_slots", spec.StateSlots-1)
	}
	s.notify(daemon.SdNotifyReady)
	s.log.Info("ready", append(ready, "max_model_len", spec.MaxSeqTokens, "defaults", s.source.defaults.String())...)
}

// shortened is what the log says if the context is shorter than the model's although no length
// was asked for; "" if it is not.
func (e *preparedEngine) shortened(c *model.Config) string {
	if !e.shorten || e.spec.MaxSeqTokens >= c.MaxSeqTokens {
		return ""
	}
	return "the context is the longest that the memory holds, and shorter than the model's: --kv-cache-memory, --kv-cache-dtype int8 and --quantization make room for more, and --max-model-len settles it"
}

// shutDown lets requests in flight end, until the time for that is over or another
// signal arrives.
func (s *service) shutDown(signals <-chan os.Signal) {
	ctx, done := context.WithTimeout(context.Background(), s.options.life.shutdown)
	defer done()
	go func() {
		select {
		case <-signals:
			done()
		case <-ctx.Done():
		}
	}()
	if err := s.http.Shutdown(ctx); err != nil && s.failure.Load() == nil {
		s.log.Warn("some requests were cut short", "error", err)
	}
}

// served is what the HTTP server has to know about the model.
func (e *preparedEngine) served(s *source, priority bool) *openai.Model {
	return &openai.Model{
		Names: s.names, Root: s.root, Created: time.Now(), Fingerprint: e.fingerprint,
		Engine: e.engine, Tokenizer: s.tokenizer, Chat: s.chat, TokenizerInfo: s.tokenizerInfo,
		About:     s.about(),
		CacheType: e.cacheType, MaxLen: e.spec.MaxSeqTokens, VocabSize: e.spec.VocabSize, Priority: priority, Generation: s.defaults, Pooling: s.pooling, Scoring: s.scoring, Transfer: e.transfers.Transfer,
	}
}

// about describes the model to clients.
func (s *source) about() openai.About {
	n := s.network
	a := openai.About{Family: n.Config.Architecture, Format: "safetensors", Parameters: n.Parameters(), Bytes: n.WeightBytes()}
	if n.GGUF() != nil {
		a.Format = "gguf"
	}
	sizes := map[string]int64{}
	for _, t := range n.Tensors() {
		name := strings.ToUpper(t.DType.String())
		if sizes[name] += int64(len(t.Data)); a.Quantization == "" || sizes[name] > sizes[a.Quantization] {
			a.Quantization = name
		}
	}
	return a
}
