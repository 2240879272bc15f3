package main

import (
	"cmp"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"weir/api"
	"weir/server"
	"weir/server/batchesapi"
	"weir/server/responsesapi"
	"weir/server/transport"
)

// serveOptions are all flags of weir serve.
type serveOptions struct {
	model   modelOptions
	engine  engineOptions
	listen  listenOptions
	tls     tlsOptions
	life    lifeOptions
	access  accessOptions
	api     interfaceOptions
	answers answerOptions
	records recordOptions
	logs    logOptions

	heapIsLimited bool // the environment has GOMEMLIMIT

	withoutEffect func() []string   // flags of vLLM that were given and have no effect, with the reasons
	settings      map[string]string // all of them by the names of their flags, for /server_info
}

func (o *serveOptions) bind(f *flagSet, getenv func(string) string) {
	o.model.bind(f)
	f.StringVar(&o.model.path, "model", "", "`folder` of the model, or its name on the hub; the same as the argument MODEL")
	o.engine.bind(f)
	o.engine.offload.bind(f)
	o.engine.events.bind(f)
	o.engine.transfer.bind(f)
	o.listen.bind(f)
	o.tls.bind(f)
	o.life.bind(f)
	o.access.bind(f)
	o.api.bind(f)
	o.answers.bind(f, &o.model.reasoningParser)
	o.records.bind(f, getenv)
	o.logs.bind(f)
	o.withoutEffect = bindVLLM(f)
	f.alias(vllmAliases)
}

// settle completes the options after the flags have been parsed: it reads the
// environment variables that scripts for vLLM set, and refuses combinations that
// this server does not have.
func (o *serveOptions) settle(f *flagSet, getenv func(string) string) error {
	for _, name := range []string{"WEIR_DEV", "VLLM_SERVER_DEV_MODE"} {
		if getenv(name) == "1" && !f.Changed("dev-mode") && !f.Changed("no-dev-mode") {
			o.api.functions.Dev = true
		}
	}
	o.heapIsLimited = getenv("GOMEMLIMIT") != ""
	o.logs.settle(f.given["enable-log-requests"])
	o.logs.getenv = getenv
	if key := getenv("VLLM_API_KEY"); key != "" && len(o.access.keys) == 0 && o.access.credentials == "" {
		o.access.keys = []string{key}
	}
	if o.engine.maxTokens > 0 && !f.given["max-num-seqs"] {
		o.engine.maxSeqs = min(o.engine.maxSeqs, o.engine.maxTokens)
	}
	if o.engine.eager {
		o.engine.launch = "cu"
	}
	if !o.engine.chunked && o.engine.longPrompt > 0 {
		log := o.withoutEffect
		o.withoutEffect = func() []string {
			return append(log(), "--long-prefill-token-threshold has no effect: with --no-enable-chunked-prefill no prompt is cut")
		}
	}
	o.settings = f.settings()
	return cmp.Or(o.access.validate(), o.api.validate(), o.records.validate(), o.tls.settle(), o.life.validate())
}

// listenOptions say where the server listens and how connections are treated.
type listenOptions struct {
	host      string
	port      int
	socket    string // --uds
	rootPath  string
	maxBody   size
	memory    size
	preparing int
	queueTime time.Duration
	heartbeat time.Duration
}

func (o *listenOptions) bind(f *flagSet) {
	o.maxBody, o.heartbeat = 32<<20, 15*time.Second
	f.group("Listening and connections")
	f.StringVar(&o.host, "host", "127.0.0.1", "`address` to listen on; an empty one means all addresses of this machine")
	f.IntVar(&o.port, "port", 8000, "TCP `port` to listen on; 0 chooses a free one")
	f.StringVar(&o.socket, "uds", "", "listen on the Unix domain socket at this `path` instead of a TCP port")
	f.StringVar(&o.rootPath, "root-path", "", "`prefix` of every URL path, for a proxy that does not remove it")
	f.Var(&o.maxBody, "max-body-size", "largest body of a request")
	f.Var(&o.memory, "memory-limit", "most memory that all requests together may hold, for bodies, preparing them, and answers that are not sent or not read yet; requests beyond it wait a few seconds and are then refused with 503 (default: four fifths of what the machine or its control group leaves beside the weights and the KV cache)")
	f.IntVar(&o.preparing, "max-preparing", 4096, "largest number of `requests` that wait to be rendered and tokenized; requests beyond it are refused with 503")
	f.Var((*span)(&o.queueTime), "max-queue-time", "how long a request may wait until something of it is computed; one that has waited for so long, or will have by what was measured, is refused with 503. The header X-Max-Queue-Time, in seconds, asks for less; 0 sets no such limit")
	f.Var((*span)(&o.heartbeat), "sse-heartbeat", "how long a stream may be silent before a blank line is sent to keep the connection open; 0 sends none")
}

// accessOptions say who may use the server.
type accessOptions struct {
	keys        []string
	credentials string
	bearer      bool
	cors        transport.CORS
	hosts       []string
}

func (o *accessOptions) bind(f *flagSet) {
	f.group("Access")
	f.StringArrayVar(&o.keys, "api-key", nil, "`key` that clients must send, except to /health, /ping, /ready, /version and /metrics; repeat it for several (default: that in the environment variable VLLM_API_KEY; without it and --credentials, no key is needed)")
	f.StringVar(&o.credentials, "credentials", "", "YAML `file` with hashed keys and their users, projects and rights; it is read again when it changes")
	f.BoolVar(&o.bearer, "feedback-bearer", false, "accept Bearer tokens for feedback, in addition to Basic authentication")
	o.cors.Methods, o.cors.Headers = []string{"*"}, []string{"*"}
	f.Var(&texts{list: &o.cors.Origins}, "allowed-origins", "`origins` whose web pages may call the server: * for all, null for pages without an origin, or scheme://host:port, where one * may stand for any text; "+
		"separated by commas, or a JSON list (default: * if there are keys; without keys the pages of localhost and loopback addresses, and of app, file, tauri and vscode programs)")
	f.Var(&texts{list: &o.cors.Methods}, "allowed-methods", "HTTP `methods` that web pages may use")
	f.Var(&texts{list: &o.cors.Headers}, "allowed-headers", "`headers` that web pages may send")
	f.Var(&texts{list: &o.hosts}, "allowed-hosts", "`hosts` that requests may name in the header Host, besides localhost, *.localhost and loopback addresses; it is checked if there are no keys and --host is a loopback address. * is all of them")
	f.BoolVar(&o.cors.Credentials, "allow-credentials", false, "let web pages send cookies")
}

// validate refuses origins and hosts that no request can have.
func (o *accessOptions) validate() error {
	if err := o.cors.Validate(); err != nil {
		return usageError{fmt.Errorf("--allowed-origins: %w", err)}
	}
	if err := transport.ValidateHosts(o.hosts); err != nil {
		return usageError{fmt.Errorf("--allowed-hosts: %w", err)}
	}
	return nil
}

// interfaceOptions say what the HTTP interface offers and how it answers.
type interfaceOptions struct {
	maxLogprobs    int
	logprobsMode   string
	reasoningField string
	tokensAsIDs    bool
	forceUsage     bool
	streamInterval int
	requestIDs     bool
	bench          bool
	functions      server.Functions
}

func (o *interfaceOptions) bind(f *flagSet) {
	f.group("HTTP interface")
	f.IntVar(&o.maxLogprobs, "max-logprobs", 20, "largest `number` that top_logprobs and prompt_logprobs may ask for; -1 allows the whole vocabulary")
	f.StringVar(&o.logprobsMode, "logprobs-mode", "raw_logprobs", "`mode` of the log-probabilities of generated tokens: raw_logprobs are those of the model, processed_logprobs those of the distribution that tokens are drawn from")
	f.oneOf(&o.reasoningField, "reasoning-field", "name of the field that holds the model's reasoning; reasoning_content is its older name", "reasoning", "reasoning_content", "both")
	f.BoolVar(&o.tokensAsIDs, "return-tokens-as-token-ids", false, "default of the request field of that name")
	f.IntVar(&o.streamInterval, "stream-interval", 1, "least `number` of tokens in a chunk of a stream; more of them cost less to send and arrive later")
	f.BoolVar(&o.forceUsage, "enable-force-include-usage", false, "send usage in every chunk of every stream and at its end, even if the request does not ask for it")
	f.BoolVar(&o.requestIDs, "enable-request-id-headers", true, "send X-Request-Id with every response: the request's own, or a random one")
	f.BoolVar(&o.functions.TokenizerInfo, "enable-tokenizer-info-endpoint", false, "serve /tokenizer_info, which shows the chat template")
	f.BoolVar(&o.bench, "enable-bench", false, "serve /v1/bench, by which keys with the right admin, or without keys this machine, have the server start weir bench to measure itself")
	f.BoolVar(&o.functions.NoUI, "no-ui", false, "do not serve the page to browsers at / and its files below /ui/")
	f.BoolVar(&o.functions.NoDocs, "disable-fastapi-docs", false, "do not serve /openapi.json and the page /docs")
	f.BoolVar(&o.functions.LoadTracking, "enable-server-load-tracking", false, "let /load count the requests that are generating")
	f.BoolVar(&o.functions.Dev, "dev-mode", false, "show the settings at /server_info, and serve /reset_prefix_cache; WEIR_DEV=1 does the same")
}

// validate refuses what vLLM's flags allow and this server does not have.
func (o *interfaceOptions) validate() error {
	if o.streamInterval < 1 {
		return usageError{fmt.Errorf("--stream-interval %d: it takes 1 or more", o.streamInterval)}
	}
	switch mode := o.logprobsMode; mode {
	case "raw_logprobs", "processed_logprobs":
		return nil
	case "raw_logits", "processed_logits":
		return usageError{fmt.Errorf("--logprobs-mode %s: this server reports log-probabilities only, raw_logprobs or processed_logprobs", mode)}
	default:
		return usageError{fmt.Errorf("--logprobs-mode %s is neither raw_logprobs nor processed_logprobs", mode)}
	}
}

// recordOptions say what the server stores on disk, and for how long.
type recordOptions struct {
	dir                 string
	defaultDir          string // what dir is if --data-dir is not given
	minFree             size
	record              []string
	feedbackRetention   []string
	trajectoryRetention []string
	quota               size
	projectQuota        size
	responseQuota       size
	responseDays        int
	batchQuota          size
	maxFile             size
	batchDays           int
	background          responsesapi.Background
	sinks               sinkOptions
}

func (o *recordOptions) bind(f *flagSet, getenv func(string) string) {
	o.minFree, o.defaultDir = 256<<20, defaultDataDir(getenv)
	o.responseQuota, o.responseDays = responsesapi.DefaultBytes, int(responsesapi.DefaultAge/(24*time.Hour))
	o.background = responsesapi.Background{MostWaiting: responsesapi.DefaultWaiting, MostOfOwner: responsesapi.DefaultOfOwner, MostAtOnce: responsesapi.DefaultAtOnce}
	o.batchQuota, o.batchDays = batchesapi.DefaultBytes, int(batchesapi.DefaultAge/(24*time.Hour))
	o.maxFile = batchesapi.DefaultFile
	f.group("Stored records")
	dataDirFlag(f, &o.dir, o.defaultDir, "`folder` for what is kept between runs: the counts of GET /usage, feedback and trajectories. Several servers may share the counts, but only one can have the rest. An empty name keeps nothing")
	f.Var(&o.minFree, "min-free-disk", "free space on the disk of --data-dir below which nothing is written and writes are refused with 503")
	f.StringArrayVar(&o.record, "record-trajectories", nil, "record the chat completions of a `PROJECT` (team/project, team/* or *) as trajectories, with token ids and log-probabilities; repeat it for several (default: only requests that ask for it with record_split in engine_xargs)")
	f.StringArrayVar(&o.feedbackRetention, "feedback-retention", nil, "`PROJECT=DAYS`: delete feedback, calls, objects, tables and files of a project after this many days. PROJECT may be team/* or *. Repeat it for several; the first that matches counts (default: keep them for ever)")
	f.StringArrayVar(&o.trajectoryRetention, "trajectory-retention", nil, "`MODEL=DAYS` or MODEL:SPLIT=DAYS: delete trajectories of a model after this many days. MODEL may end in *, and is the name, team/project/name or the id of one that a client has created. Repeat it for several; the first that matches counts (default: keep trajectories for ever)")
	f.Var(&o.quota, "trajectory-quota", "most bytes of trajectories that a tenant may store, counted as they were sent, such as 100GiB; requests beyond it are refused with 413 until some are deleted (default: no limit)")
	f.Var(&o.projectQuota, "project-quota", "most bytes of calls and of objects, tables and files that a project may have, such as 100GiB; requests beyond it are refused with 403 until some are deleted (default: no limit)")
	f.Var(&o.responseQuota, "response-quota", "most bytes of responses of POST /v1/responses that a project keeps, such as 10GiB; beyond it the oldest are dropped; 0: no limit")
	f.Var(&o.batchQuota, "batch-quota", "most bytes of files of POST /v1/files, and of the results of batches, that a project may have, such as 100GiB; files beyond it are refused with 400 until some are deleted; 0: no limit")
	f.Var(&o.maxFile, "max-file-size", "largest file of POST /v1/files, with the form that it is sent in; it goes to the disk as it comes, and is not held in memory. A line of it has at most --max-body-size")
	f.IntVar(&o.batchDays, "batch-retention", o.batchDays, "days after which files and batches are deleted; 0: they are kept")
	f.IntVar(&o.responseDays, "response-retention", o.responseDays, "days after which responses of POST /v1/responses are deleted; 0: they are kept")
	o.sinks.bind(f, getenv)
	f.IntVar(&o.background.MostAtOnce, "background-at-once", o.background.MostAtOnce, "largest `number` of responses in the background that are computed at a time")
	f.IntVar(&o.background.MostOfOwner, "background-of-project", o.background.MostOfOwner, "largest `number` of responses in the background of a project that have not ended; one more is 429")
	f.IntVar(&o.background.MostWaiting, "background-in-all", o.background.MostWaiting, "the same of all projects together")
}

// validate refuses limits that would let nothing be computed.
func (o *recordOptions) validate() error {
	for _, l := range []struct {
		name string
		n    int
	}{{"background-at-once", o.background.MostAtOnce}, {"background-of-project", o.background.MostOfOwner}, {"background-in-all", o.background.MostWaiting}} {
		if l.n < 1 {
			return usageError{fmt.Errorf("--%s %d: it takes 1 or more", l.name, l.n)}
		}
	}
	return nil
}

// dataDirFlag adds --data-dir.
func dataDirFlag(f *flagSet, dir *string, byDefault, usage string) {
	f.StringVar(dir, "data-dir", byDefault, usage+" (default: $XDG_DATA_HOME/weir, or ~/.local/share/weir)")
}

// defaultDataDir is where the XDG base directory specification puts the data of a
// user's programs, or "" if there is no such user.
func defaultDataDir(getenv func(string) string) string {
	if dir := getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) { // the specification says to ignore a relative path
		return filepath.Join(dir, "weir")
	}
	if home := getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "share", "weir")
	}
	return ""
}

// logOptions say what is logged to standard error.
type logOptions struct {
	level    string
	format   string
	requests bool
	probes   bool
	unlogged string // paths, separated by commas
	silent   bool   // --disable-log-requests, vLLM's older name of --no-enable-log-requests
	uvicorn  bool   // --disable-uvicorn-access-log, which is about the same lines
	traces   string // --otlp-traces-endpoint

	getenv func(string) string
}

func (o *logOptions) bind(f *flagSet) {
	f.group("Logs and traces")
	f.oneOf(&o.level, "log-level", "least level of the messages that are logged to standard error", "info", "debug", "warn", "error")
	f.oneOf(&o.format, "log-format", "form of the log: text, or json with an object for each line, durations in seconds", "text", "json")
	f.BoolVar(&o.requests, "enable-log-requests", false, "log every finished request: its ids, key's name, project, route, status, tokens and times, but no text of prompts or answers (default: with --log-format json)")
	f.BoolVar(&o.probes, "log-probes", false, "with --enable-log-requests, log those to paths that need no key, too, such as /health and /metrics")
	f.StringVar(&o.unlogged, "disable-access-log-for-endpoints", "", "`paths`, separated by commas, whose requests --enable-log-requests leaves out")
	f.StringVar(&o.traces, "otlp-traces-endpoint", "", "`URL` of the OpenTelemetry collector that the spans of requests are sent to, such as http://localhost:4318/v1/traces or, with gRPC, grpc://localhost:4317 (default: what OTEL_EXPORTER_OTLP_ENDPOINT says)")
	f.BoolVar(&o.uvicorn, "disable-uvicorn-access-log", false, "")
	f.Lookup("disable-uvicorn-access-log").Hidden = true
	f.BoolVar(&o.silent, "disable-log-requests", false, "")
	f.Lookup("disable-log-requests").Hidden = true
}

// settle decides whether requests are logged; given says that --enable-log-requests was.
func (o *logOptions) settle(given bool) {
	if o.format == "json" && !given {
		o.requests = true
	}
	if o.silent || o.uvicorn {
		o.requests = false
	}
}

// paths are those that are left out.
func (o *logOptions) paths() []string {
	return strings.FieldsFunc(o.unlogged, func(r rune) bool { return r == ',' || r == ' ' })
}

// serverConfig is the part of the HTTP server's configuration that flags decide.
func (o *serveOptions) serverConfig(log *slog.Logger) server.Config {
	c := server.DefaultConfig()
	c.UseProcessors(processors)
	c.Version, c.APIKeys, c.Log = version, o.access.keys, log
	c.CORS.Origins, c.CORS.Methods, c.CORS.Headers, c.CORS.Credentials = o.access.cors.Origins, o.access.cors.Methods, o.access.cors.Headers, o.access.cors.Credentials
	c.FeedbackBearer, c.AllowedHosts = o.access.bearer, o.access.hosts
	c.MaxBody, c.MaxBodies = int(o.listen.maxBody), max(c.MaxBodies, int64(o.listen.maxBody))
	c.Background, c.MaxFile = o.records.background, int64(o.records.maxFile)
	c.PrepareQueue, c.LogRequests, c.LogProbes, c.Unlogged = o.listen.preparing, o.logs.requests, o.logs.probes, o.logs.paths()
	c.NoRequestID = !o.api.requestIDs
	c.Heartbeat, c.MaxQueueTime = o.listen.heartbeat, o.listen.queueTime
	o.answers.apply(&c.Answers)
	c.Functions = o.api.functions
	c.Functions.Settings = o.settings
	c.RootPath = strings.TrimRight(o.listen.rootPath, "/")
	c.ProcessedLogprobs = o.api.logprobsMode == "processed_logprobs"
	c.StreamInterval = o.api.streamInterval
	c.MaxLogprobs, c.TokensAsIDs, c.ForceUsage = o.api.maxLogprobs, o.api.tokensAsIDs, o.api.forceUsage
	c.ReasoningField, _ = api.ParseReasoningField(o.api.reasoningField) // the flag takes no other name
	// A request with more prompts or choices than the engine ever accepts is refused
	// for good, rather than with "try again later".
	c.Limits.Prompts = min(c.Limits.Prompts, o.engine.maxLive)
	c.Limits.Choices = min(c.Limits.Choices, o.engine.maxLive)
	c.Trajectories.Quota, c.Trajectories.Record = int64(o.records.quota), o.records.record
	return c
}
