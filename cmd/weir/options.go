package main

import (
	"strings"
	"time"

	"github.com/spf13/pflag"

	"weir/device/cpu"
	"weir/server"
)

// modelOptions say which model runs and how it answers.
type modelOptions struct {
	names            *[]string
	chatTemplate     *string
	contentFormat    *string
	trustTemplate    *bool
	templateKwargs   *string
	responseRole     *string
	reasoningParser  *string
	generationConfig *string
	maxModelLen      *int
}

func bindModel(fs *pflag.FlagSet) (o modelOptions) {
	o.names = fs.StringArray("served-model-name", nil, "`name` that clients may use; repeat for aliases, the first one is what answers say (default: the folder's name)")
	o.maxModelLen = fs.Int("max-model-len", 0, "longest sequence in `tokens`, prompt and output together (default: what the model was made for)")
	o.chatTemplate = fs.String("chat-template", "", "`file` with a chat template in place of the model's own")
	o.contentFormat = oneOf(fs, "chat-template-content-format", "shape of a message's content that the template sees", "auto", "string", "openai")
	o.trustTemplate = fs.Bool("trust-request-chat-template", false, "accept a chat template in a request although the model has one")
	o.templateKwargs = fs.String("default-chat-template-kwargs", "", "`JSON` object with template arguments that requests may override")
	o.responseRole = fs.String("response-role", "assistant", "`role` of the message that a generation prompt opens")
	o.reasoningParser = fs.String("reasoning-parser", "auto", "how the model marks its thoughts: `name`, as qwen3 or deepseek_r1; auto looks for think tags in the chat template, none leaves them in the content")
	o.generationConfig = fs.String("generation-config", "auto", "where default sampling parameters come from: auto is the model's generation_config.json, vllm is none; else a `folder` with such a file")
	return o
}

// cpuOptions say how a CPU computes and in which types; weir bench engine has
// them, too.
type cpuOptions struct {
	threads                                *int
	pin, cpu, dtype, quantization, kvDtype *string
}

func bindCPU(fs *pflag.FlagSet) (o cpuOptions) {
	o.threads = fs.Int("threads", 0, "computing threads (default: one per physical core that this process may use, or per processor of --cpu-pin)")
	o.pin = fs.String("cpu-pin", cpu.PinNodes, "bind computing threads to processors: nodes keeps each on the memory node whose weights it reads (nothing is bound where there is one node), cores gives each a physical core, none leaves it to the system, and a `list` such as 0-7,16 names processors")
	o.cpu = fs.String("cpu", "", "`tier` of instructions, one of "+strings.Join(cpu.Impls(), ", ")+" here; or what to go without, as -avx2 (default: the best there is)")
	o.dtype = oneOf(fs, "dtype", "type of the weights in memory; auto keeps the stored one", "auto", "float32", "float16", "bfloat16")
	o.quantization = oneOf(fs, "quantization", "weights of linear layers as integers, rounded while loading: 8 or 4 bits in blocks of 32 with a scale, or (w8a8, the fastest and coarsest, not on a GPU) 8 bits with one scale per row; auto keeps them as --dtype says", "auto", "q8", "q4", "w8a8")
	o.kvDtype = oneOf(fs, "kv-cache-dtype", "type of keys and values; auto is bfloat16, int8 is 8 bits with a scale per head and position, in half the memory", "auto", "float32", "float16", "bfloat16", "int8")
	return o
}

// types are those of weights, and of keys and values with the name of their
// --kv-cache-dtype.
func (o *cpuOptions) types() (weights, kv cpu.Format, kvName string) {
	weights, kvName = formats[*o.dtype], *o.kvDtype
	if f, ok := quantizations[*o.quantization]; ok {
		weights = f
	}
	if kvName == "auto" {
		kvName = "bfloat16"
	}
	return weights, cacheFormats[kvName], kvName
}

// engineOptions say how it is computed.
type engineOptions struct {
	cpuOptions
	device              *string
	gpu                 gpuOptions
	simProfile          *string
	kvMemory            size
	blockSize           *int
	maxSeqs, maxTokens  *int
	maxPrefill, maxLive *int
	policy              *string
	caching             *bool
}

func bindEngine(fs *pflag.FlagSet) (o *engineOptions) {
	o = &engineOptions{cpuOptions: bindCPU(fs)}
	o.device = deviceFlag(fs)
	o.gpu = bindGPU(fs)
	o.simProfile = fs.String("sim-profile", "instant", "how long --device sim takes: instant, h100-llama-8b or a JSON `file`")
	fs.Var(&o.kvMemory, "kv-cache-memory", "memory for keys and values, such as 4GiB (default: a quarter of the memory there is, but no more than max-num-seqs full sequences need)")
	o.blockSize = fs.Int("block-size", 16, "`tokens` in a KV block, a multiple of 16")
	o.maxSeqs = fs.Int("max-num-seqs", 256, "most `sequences` that run at a time")
	o.maxTokens = fs.Int("max-num-batched-tokens", 0, "most `tokens` of a step (default: 512, on a GPU 2048)")
	o.maxPrefill = fs.Int("max-prefill-tokens", -1, "most `tokens` of a step that go to prompts while answers are being written; 0 is no such limit (default: 128, on a GPU 1024)")
	fs.Lookup("max-prefill-tokens").DefValue = "0" // so that the text says it
	o.maxLive = fs.Int("max-num-queued", 4096, "most choices accepted and not yet answered; beyond it the answer is 503")
	o.policy = oneOf(fs, "scheduling-policy", "order of requests: first come, first served; or by their field priority, lower first", "fcfs", "priority")
	o.caching = fs.Bool("enable-prefix-caching", true, "compute a prefix that requests share only once")
	return o
}

// httpOptions say how it is served.
type httpOptions struct {
	host                      *string
	port                      *int
	keys                      *[]string
	maxLogprobs               *int
	logprobsMode              *string
	reasoningField            *string
	tokensAsIDs, forceUsage   *bool
	origins, methods, headers *[]string
	credentials               *bool
	heartbeat, shutdown       *time.Duration
	maxBody                   size
	queue                     *int
	logLevel                  *string
	rootPath, socket          *string
	functions                 server.Functions
	logRequests, requestIDs   *bool
	dataDir                   *string
	dataByDefault             string // what dataDir is if nobody chose it
}

// dataOptions say who may come in, and how long what they leave is kept.
type dataOptions struct {
	credentials *string
	minFree     size
	retention   *[]string
	trajectory  *[]string
	quota       size
	bearer      *bool
	record      *[]string
}

func bindData(fs *pflag.FlagSet) (o *dataOptions) {
	o = &dataOptions{minFree: 256 << 20}
	o.credentials = fs.String("credentials", "", "YAML `file` with hashed keys, their users, projects and rights; it is read anew when it changes")
	fs.Var(&o.minFree, "min-free-disk", "space on the disk of --data-dir below which nothing is written and the answer is 503")
	o.retention = fs.StringArray("feedback-retention", nil, "`PROJECT=DAYS`: delete a project's feedback after so many days; PROJECT may be team/* or *; repeat for more, the first that fits counts (default: keep it)")
	o.trajectory = fs.StringArray("trajectory-retention", nil, "`MODEL=DAYS` or MODEL:SPLIT=DAYS: delete a model's trajectories after so many days; MODEL may end in *; repeat for more, the first that fits counts (default: keep them)")
	fs.Var(&o.quota, "trajectory-quota", "most bytes of trajectories that a tenant may have logged, as they are sent, such as 100GiB; beyond it the answer is 413 until some are deleted (default: no limit)")
	o.bearer = fs.Bool("feedback-bearer", false, "accept Bearer tokens for feedback, beside Basic")
	o.record = fs.StringArray("record-trajectories", nil, "keep the chat completions of a `PROJECT`, team/project or team/* or *, as trajectories with token ids and log-probabilities; repeat for more (default: only those that ask with record_split in engine_xargs)")
	return o
}

func bindHTTP(fs *pflag.FlagSet) (o *httpOptions) {
	o = &httpOptions{maxBody: 32 << 20}
	o.host = fs.String("host", "127.0.0.1", "`address` to listen on; an empty one is all")
	o.port = fs.Int("port", 8000, "TCP `port` to listen on; 0 takes a free one")
	o.socket = fs.String("uds", "", "listen on this Unix `socket` instead of an address")
	o.rootPath = fs.String("root-path", "", "`prefix` of every path, for a proxy that passes it on")
	o.keys = fs.StringArray("api-key", nil, "`key` that opens all but /health, /ping, /ready, /version and /metrics; repeat for more (default: open to everybody)")
	o.maxLogprobs = fs.Int("max-logprobs", 20, "most top_logprobs and prompt_logprobs; -1 is the vocabulary")
	o.logprobsMode = fs.String("logprobs-mode", "raw_logprobs", "`mode` of the log-probabilities of generated tokens: raw_logprobs are the model's own, processed_logprobs those of the distribution that was drawn from")
	o.reasoningField = oneOf(fs, "reasoning-field", "name of the field with the model's thoughts; reasoning_content is the older name", "reasoning", "reasoning_content", "both")
	o.tokensAsIDs = fs.Bool("return-tokens-as-token-ids", false, "default of the field of that name")
	o.forceUsage = fs.Bool("enable-force-include-usage", false, "send usage in streams that did not ask for it")
	o.origins = fs.StringSlice("allowed-origins", []string{"*"}, "`origins` of pages that may call")
	o.methods = fs.StringSlice("allowed-methods", []string{"*"}, "`methods` they may use")
	o.headers = fs.StringSlice("allowed-headers", []string{"*"}, "`headers` they may send")
	o.credentials = fs.Bool("allow-credentials", false, "let them send cookies")
	o.heartbeat = fs.Duration("sse-heartbeat", 15*time.Second, "silence after which a stream gets a blank line; 0 is never")
	o.shutdown = fs.Duration("shutdown-timeout", 30*time.Second, "how long requests may go on after SIGTERM")
	fs.Var(&o.maxBody, "max-body-size", "largest request body")
	o.queue = fs.Int("max-preparing", 4096, "most requests that wait to be rendered and tokenized; beyond it the answer is 503")
	fs.BoolVar(&o.functions.Dev, "dev-mode", false, "open /server_info and /reset_prefix_cache; also WEIR_DEV=1")
	fs.BoolVar(&o.functions.TokenizerInfo, "enable-tokenizer-info-endpoint", false, "open /tokenizer_info, which shows the chat template")
	fs.BoolVar(&o.functions.LoadTracking, "enable-server-load-tracking", false, "let /load count the requests that generate")
	o.logLevel = oneOf(fs, "log-level", "what is logged to standard error", "info", "debug", "warn", "error")
	o.logRequests = fs.Bool("enable-log-requests", false, "log every finished request: id, project, status, tokens, time; never what was said")
	o.requestIDs = fs.Bool("enable-request-id-headers", true, "send X-Request-Id with every response: the request's, or a random one")
	o.dataDir = fs.String("data-dir", "", "`folder` for what outlives the process, the counts of GET /usage, feedback and trajectories; several servers may share the counts, only one has the others, and \"\" keeps nothing (default: $XDG_DATA_HOME/weir, else ~/.local/share/weir)")
	return o
}
