package main

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"weir/bench"
	"weir/internal/jsontext"
)

// benchLoad are the flags that bench serve and bench sweep have in common. Most of them are fields of the
// configuration already; the others are translated by settle.
type benchLoad struct {
	bench.ServeConfig
	data benchData

	binary        string // server to start; "": one is running
	host          string
	port          int
	backend       string
	endpoint      string
	servedName    string
	headers       []string
	wait          int // seconds
	usage         bool
	temperature   float64
	sampling      map[string]*float64 // further parameters of it, by their fields
	extraBody     string
	goodput       []string
	metadata      []string
	rampStart     float64
	rampEnd       float64
	leaveAfter    float64 // seconds
	quiet         bool
	serverArgs    []string // the arguments after --
	metadataPairs [][2]string
}

func (o *benchLoad) bindServer(f *flagSet) {
	o.ServeConfig = bench.DefaultServeConfig()
	f.group("Server")
	f.StringVar(&o.BaseURL, "base-url", o.BaseURL, "`URL` of the server, with or without /v1")
	f.StringVar(&o.host, "host", "", "`address` of the server, in place of --base-url")
	f.IntVar(&o.port, "port", 8000, "`port` of the server with --host")
	f.StringVar(&o.binary, "binary", "", "server `program` to start for the run on a free port, with the arguments after --; self is this program")
	f.StringVar(&o.Model, "model", "", "`name` of the model (default: the server's first)")
	f.StringVar(&o.servedName, "served-model-name", "", "`name` of the model in requests, in place of --model")
	f.StringVar(&o.APIKey, "api-key", "", "`key` for the server (default: $OPENAI_API_KEY)")
	f.StringSliceVar(&o.headers, "header", nil, "further `header` of each request: name=value")
	f.BoolVar(&o.Insecure, "insecure", false, "do not check the certificate of an https URL")
	f.oneOf(&o.backend, "backend", "function that is called, as vLLM names it: openai-chat is --endpoint chat, openai and vllm are --endpoint completions", "openai-chat", "openai", "vllm")
	o.endpoint = "chat"
	f.Var(&choice{&o.endpoint, []string{"chat", "completions"}, func(s string) bool { return strings.HasPrefix(s, "/") }}, "endpoint", "function that is called: chat, completions, or a path such as /v1/completions; it goes before --backend")
	f.BoolVar(&o.usage, "include-usage", true, "ask for usage at the end of streams; with --no-include-usage, for servers that refuse stream_options, tokens are counted by events")
	f.IntVar(&o.wait, "ready-check-timeout-sec", 0, "`seconds` to wait for a server that does not answer yet")
}

func (o *benchLoad) bindLoad(f *flagSet) {
	f.group("Load")
	f.IntVar(&o.NumPrompts, "num-prompts", o.NumPrompts, "`number` of requests")
	f.Float64Var(&o.Rate, "request-rate", o.Rate, "`requests` per second; inf sends all of them at once")
	f.Float64Var(&o.Burstiness, "burstiness", o.Burstiness, "`shape` of the gamma distribution of the times between requests: 1 is a Poisson process, less comes in bursts, inf is even")
	f.StringVar(&o.Ramp.Strategy, "ramp-up-strategy", "", "how the rate grows over the requests, in place of --request-rate: linear or exponential")
	f.Float64Var(&o.rampStart, "ramp-up-start-rps", 0, "`requests` per second at the beginning of the ramp")
	f.Float64Var(&o.rampEnd, "ramp-up-end-rps", 0, "`requests` per second at its end")
	f.IntVar(&o.MaxConcurrency, "max-concurrency", 0, "largest number of `requests` in flight; the others wait before they are sent (default: no limit, and no request waits)")
	f.Float64Var(&o.Leave.Percent, "request-cancellation-rate", 0, "`percent` of the clients that leave before their answer has ended")
	f.Float64Var(&o.leaveAfter, "request-cancellation-delay", 0, "`seconds` within which they leave, at random moments (default: after a random number of events, some of them before the first)")
	f.Uint64Var(&o.Seed, "seed", 0, "`seed` of the schedule and of prompts")
	f.IntVar(&o.Warmups, "warmups", 0, "number of `requests` that are sent before the run and not measured; also --num-warmups")
	f.IntVar(&o.Warmups, "num-warmups", 0, "")
	_ = f.MarkHidden("num-warmups") // vLLM's name of it
}

func (o *benchLoad) bindRequests(f *flagSet) {
	f.group("Requests")
	f.BoolVar(&o.IgnoreEOS, "ignore-eos", false, "let answers continue to their length limit; with random prompts and traces this is always so")
	f.Float64Var(&o.temperature, "temperature", 0, "sampling `temperature` (default: the server's)")
	o.sampling = map[string]*float64{}
	for _, name := range []string{"top-p", "top-k", "min-p", "frequency-penalty", "presence-penalty", "repetition-penalty", "logprobs"} {
		o.sampling[name] = f.Float64(name, 0, "field `"+strings.ReplaceAll(name, "-", "_")+"` of each request (default: the server's)")
	}
	f.StringVar(&o.extraBody, "extra-body", "", "`JSON` object whose fields are added to every request or replace its own")
}

// bindReport binds the flags that say what is reported.
func (o *benchLoad) bindReport(f *flagSet) {
	f.group("Results")
	f.StringSliceVar(&o.Metrics, "percentile-metrics", o.Metrics, "which `metrics` are reported: ttft, tpot, itl, e2el, client_queue_time, e2el_including_client_queue")
	f.Float64SliceVar(&o.Percentiles, "metric-percentiles", o.Percentiles, "which `percentiles` of them are reported")
	f.StringSliceVar(&o.goodput, "goodput", nil, "`conditions` in milliseconds that make a request a good one: ttft:500 tpot:50 e2el:10000")
	f.StringSliceVar(&o.metadata, "metadata", nil, "`name=value` that is saved with the results")
	f.BoolVar(&o.quiet, "disable-tqdm", false, "show no progress; it is shown on a terminal only")
}

// settle completes the configuration after the flags have been parsed. args are what is no flag, up to --.
func (o *benchLoad) settle(f *flagSet, args []string, getenv func(string) string) (err error) {
	if o.binary == "" && len(o.serverArgs) > 0 {
		return fmt.Errorf("arguments after -- are for a server that --binary starts: %q", o.serverArgs)
	}
	if err := o.settleValues(f, args); err != nil {
		return err
	}
	o.settleServer(f, getenv)
	if o.metadataPairs, err = pairs("metadata", o.metadata); err != nil {
		return err
	}
	if o.Header, err = headerOf(o.headers); err != nil {
		return err
	}
	if f.Changed("temperature") {
		o.Temperature = &o.temperature
	}
	if o.Goodput, err = bench.ParseGoodput(o.goodput); err != nil {
		return err
	}
	if o.Ramp.Strategy != "" {
		o.Ramp.Start, o.Ramp.End = o.rampStart, o.rampEnd
	} else if o.rampStart != 0 || o.rampEnd != 0 {
		return fmt.Errorf("--ramp-up-start-rps and --ramp-up-end-rps need --ramp-up-strategy")
	}
	o.Leave.Within = time.Duration(o.leaveAfter * float64(time.Second))
	if err := o.data.choose(&o.ServeConfig, f.Changed("num-prompts")); err != nil {
		return err
	}
	return o.settleBody(f)
}

// settleValues gives arguments to the flag before them: vLLM's --goodput, --metadata and --header take all values
// that follow.
func (o *benchLoad) settleValues(f *flagSet, args []string) error {
	for _, arg := range args {
		switch {
		case f.Changed("goodput") && !strings.Contains(arg, "="):
			o.goodput = append(o.goodput, arg)
		case f.Changed("metadata") && strings.Contains(arg, "=") && !f.Changed("header"):
			o.metadata = append(o.metadata, arg)
		case f.Changed("header") && strings.Contains(arg, "=") && !f.Changed("metadata"):
			o.headers = append(o.headers, arg)
		default:
			return fmt.Errorf("%s takes no arguments: %q", strings.TrimPrefix(f.Name(), "weir "), args)
		}
	}
	return nil
}

// settleServer completes what is known of the server.
func (o *benchLoad) settleServer(f *flagSet, getenv func(string) string) {
	if o.host != "" || f.Changed("port") {
		if o.host == "" {
			o.host = "127.0.0.1"
		}
		o.BaseURL = "http://" + net.JoinHostPort(o.host, strconv.Itoa(o.port))
	}
	if o.servedName != "" {
		o.Model = o.servedName
	}
	if o.APIKey == "" {
		o.APIKey = getenv("OPENAI_API_KEY")
	}
	if o.backend != "openai-chat" {
		o.Endpoint = bench.Completions
	}
	switch {
	case !f.Changed("endpoint"):
	case o.endpoint == "chat":
		o.Endpoint = bench.Chat
	case o.endpoint == "completions":
		o.Endpoint = bench.Completions
	default:
		o.Path = o.endpoint
		if !f.Changed("backend") && !strings.HasSuffix(o.endpoint, "/chat/completions") {
			o.Endpoint = bench.Completions
		}
	}
	o.NoUsage = !o.usage
	o.ReadyTimeout = time.Duration(o.wait) * time.Second
}

// settleBody adds the parameters of sampling to the fields of requests. Those of --extra-body win.
func (o *benchLoad) settleBody(f *flagSet) error {
	o.ExtraBody = jsontext.RawMessage(o.extraBody)
	fields := map[string]any{}
	for name, v := range o.sampling {
		if f.Changed(name) {
			fields[strings.ReplaceAll(name, "-", "_")] = *v
		}
	}
	if n, ok := fields["logprobs"].(float64); ok && o.Endpoint == bench.Chat { // it is a switch there, and the number has a field of its own
		fields["logprobs"], fields["top_logprobs"] = true, n
	}
	if len(fields) > 0 {
		if o.extraBody != "" {
			if err := jsontext.Decode(o.ExtraBody, &fields); err != nil {
				return fmt.Errorf("--extra-body: not a JSON object: %s", o.extraBody)
			}
		}
		o.ExtraBody = []byte(asJSON(fields))
	}
	return o.Validate()
}

// headerOf makes a header of the values of --header.
func headerOf(list []string) (http.Header, error) {
	header := http.Header{}
	all, err := pairs("header", list)
	for _, h := range all {
		header.Set(h[0], h[1])
	}
	return header, err
}

// pairs cuts name=value.
func pairs(flag string, list []string) (out [][2]string, err error) {
	for _, s := range list {
		name, value, ok := strings.Cut(s, "=")
		if !ok || strings.TrimSpace(name) == "" {
			return nil, fmt.Errorf("--%s %q is not name=value", flag, s)
		}
		out = append(out, [2]string{strings.TrimSpace(name), strings.TrimSpace(value)})
	}
	return out, nil
}

// start starts the server that is measured, if there is one to start.
func (o *benchLoad) start(ctx context.Context) (stop func() error, err error) {
	return startIfAsked(ctx, o.binary, o.serverArgs, &o.BaseURL)
}

// rateName is a rate as vLLM writes it in names of files.
func rateName(rate float64) string {
	if math.IsInf(rate, 1) {
		return "inf"
	}
	return strconv.FormatFloat(rate, 'f', -1, 64)
}
