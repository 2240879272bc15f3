package main

import "weir/device/cpu"

// modelOptions say which model runs and how its files are read.
type modelOptions struct {
	path             string // --model of weir serve: the same as the argument MODEL
	tokenizer        string
	names            []string
	maxModelLen      int
	chatTemplate     string
	contentFormat    string
	trustTemplate    bool
	templateKwargs   string
	responseRole     string
	reasoningParser  string
	callParser       string // --tool-call-parser
	generationConfig string
	override         string // --override-generation-config
	runner           string
	overrides        string // --hf-overrides
	hub              hubOptions
}

func (o *modelOptions) bind(f *flagSet) {
	f.group("Model")
	f.StringVar(&o.tokenizer, "tokenizer", "", "`folder` with the tokenizer, tokenizer_config.json and chat template to use, or the name of a model on the hub that has them (default: the model's folder)")
	f.StringArrayVar(&o.names, "served-model-name", nil, "`name` under which clients address the model; repeat it for aliases, the first of which appears in answers (default: the name of the model's folder or that in its GGUF file, or its name on the hub)")
	f.Var(tokens{&o.maxModelLen, true}, "max-model-len", "longest sequence in `tokens`, prompt and output together; 32k is 32000 and 32K is 32768 (default, also as auto: the length that the model was made for, or the longest that the memory holds if that is less, but at least 4096)")
	f.StringVar(&o.chatTemplate, "chat-template", "", "`file` with a chat template to use instead of the model's own, or the text of one")
	f.oneOf(&o.contentFormat, "chat-template-content-format", "what the template sees of a message's content: string, the text; openai, the list of parts; auto decides by looking at the template", "auto", "string", "openai")
	f.BoolVar(&o.trustTemplate, "trust-request-chat-template", false, "accept a chat template in a request even if the model has its own")
	f.StringVar(&o.templateKwargs, "default-chat-template-kwargs", "", "`JSON` object with arguments for the template, which requests may override")
	f.StringVar(&o.responseRole, "response-role", "assistant", "`role` of the message that the model writes")
	f.StringVar(&o.reasoningParser, "reasoning-parser", "auto", "`name` of the way in which the model marks its reasoning, such as qwen3 or deepseek_r1; auto goes by the marks in the chat template, none leaves the marks in the content")
	f.StringVar(&o.callParser, "tool-call-parser", "auto", "`name` of the form in which the model calls tools, such as hermes or llama3_json; auto goes by the marks in the chat template")
	f.StringVar(&o.generationConfig, "generation-config", "auto", "where default sampling parameters come from: auto, the model's generation_config.json; vllm, nowhere; otherwise a `folder` with such a file")
	o.hub.bind(f)
	f.oneOf(&o.runner, "runner", "what the model does: generate text, or give a vector for each text (pooling); auto embeds if the model's folder has the modules.json of sentence-transformers, or scores if these say so", "auto", "generate", "pooling")
	f.StringVar(&o.overrides, "hf-overrides", "", "`JSON` object that makes a reranker of a network that generates, as in vLLM, for example {\"classifier_from_token\": [\"no\", \"yes\"], \"is_original_qwen3_reranker\": true}")
	f.StringVar(&o.override, "override-generation-config", "", "`JSON` object whose members replace those of --generation-config, for example {\"temperature\": 0.5}; max_new_tokens is then a cap on every request")
}

// cpuOptions say how the CPU computes, and with which types. weir bench engine has
// the same flags.
type cpuOptions struct {
	threads      int
	pin          string
	tier         string // --cpu
	dtype        string
	quantization string
	requantize   bool
	convert      bool // --allow-converted-weights
	kvDtype      string
}

func (o *cpuOptions) bind(f *flagSet) {
	f.IntVar(&o.threads, "threads", 0, "`number` of computing threads (default: one for each physical core that this process may use, or for each processor that --cpu-pin names)")
	f.StringVar(&o.pin, "cpu-pin", cpu.PinNodes, "which processors computing threads are bound to: nodes keeps each thread on the memory node whose weights it reads, and binds nothing on a machine with one node; cores gives each thread a physical core; none leaves it to the system; a `list` such as 0-7,16 names processors")
	o.bindTypes(f)
	f.oneOf(&o.kvDtype, "kv-cache-dtype", "type of keys and values; auto is bfloat16, or float32 for a model that embeds; int8 is 8 bits with a scale for each head and position, and takes about half the memory", "auto", "float32", "float16", "bfloat16", "int8")
}

// bindTypes adds the flags that decide how weights are kept in memory.
func (o *cpuOptions) bindTypes(f *flagSet) {
	f.StringVar(&o.tier, "cpu", "", "`tier` of instructions to use, such as avx2; or a feature to do without, as in -avx2; weir version lists the tiers of this machine (default: the best of them)")
	f.oneOf(&o.dtype, "dtype", "type of the weights in memory; auto keeps the type that is stored; float32 leaves the codes of a quantized model and multiplies them with float32 activations, for exactness", "auto", "float32", "float16", "bfloat16")
	f.oneOf(&o.quantization, "quantization", "store the weights of linear layers as integers, rounded while loading: q8 and q4 are 8 or 4 bits in blocks of 32 with a scale; w8a8 is 8 bits with one scale per row, the fastest and coarsest, and not available on a GPU; auto stores them as --dtype says", "auto", "q8", "q4", "w8a8")
	f.BoolVar(&o.requantize, "requantize", false, "round weights with --quantization that are quantized in their file already")
	f.BoolVar(&o.convert, "allow-converted-weights", false, "load quantized weights also where the device has no format that keeps their numbers at about the size of their file: they are widened to float32, which takes several times the memory, or rounded as --dtype says; without it such a model is refused")
}

// types returns the formats of weights and of keys and values, and the name that
// the latter has in --kv-cache-dtype.
func (o *cpuOptions) types() (weights, kv cpu.Format, kvName string) {
	weights, kvName = weightFormats[o.dtype], o.kvDtype
	if f, ok := quantizations[o.quantization]; ok {
		weights = f
	}
	if kvName == "auto" {
		kvName = "bfloat16"
	}
	return weights, cacheFormats[kvName], kvName
}

// config returns the configuration of the CPU device, and the name of the type of
// its keys and values.
func (o *cpuOptions) config() (c cpu.Config, kvName string, err error) {
	c = cpu.Default()
	c.WeightType, c.KVType, kvName = o.types()
	c.Threads, c.Pin, c.Impl = o.threads, o.pin, o.tier
	if err := c.Validate(); err != nil {
		return c, kvName, usageError{err}
	}
	return c, kvName, nil
}

// engineOptions say what computes and how requests are scheduled.
type engineOptions struct {
	cpuOptions
	gpuOptions
	device     string
	simProfile string
	simScript  string
	kvMemory   size
	blockSize  int
	maxSeqs    int
	maxTokens  int
	maxPrefill int     // -1: the default
	itlTarget  float64 // milliseconds; 0: none
	maxLive    int
	maxPrompts int
	policy     string
	offload    offloadOptions
	events     eventOptions
	transfer   transferOptions
	caching    bool
	hashAlgo   string
	tiles      tileOptions
	longPrompt int // --long-prefill-token-threshold
	chunked    bool
}

func (o *engineOptions) bind(f *flagSet) {
	f.group("Device and types")
	f.deviceFlag(&o.device)
	o.cpuOptions.bind(f)
	o.tiles.bind(f)
	f.StringVar(&o.simProfile, "sim-profile", "instant", "how long --device sim takes for a step: instant, h100-llama-8b or a JSON `file`")
	f.StringVar(&o.simScript, "sim-script", "", "JSON `file` with the answers that --device sim writes: a list of {\"prompt\": \"regular expression\", \"answer\": \"text\"}; the first whose expression matches the text of the prompt, as the chat template made it, is the answer")
	f.group("GPU")
	o.gpuOptions.bind(f)
	f.group("Scheduling and KV cache")
	f.Var(&o.kvMemory, "kv-cache-memory", "memory for keys and values, such as 4GiB (default: a quarter of the available memory, but no more than --max-num-seqs full sequences need)")
	f.IntVar(&o.blockSize, "block-size", 16, "`tokens` in a block of the KV cache, a multiple of 16")
	f.IntVar(&o.maxSeqs, "max-num-seqs", 256, "largest number of `sequences` that run at the same time; unless it is given, no more than --max-num-batched-tokens")
	f.Var(tokens{&o.maxTokens, false}, "max-num-batched-tokens", "largest number of `tokens` in a step (default: 512, on a GPU 2048; with --no-enable-chunked-prefill at least --max-model-len)")
	f.IntVar(&o.maxPrefill, "max-prefill-tokens", -1, "largest number of `tokens` of a step that are spent on prompts while answers are being written; 0 sets no such limit (default: 128, on a GPU 1024)")
	f.Float64Var(&o.itlTarget, "itl-target", 0, "`milliseconds` between two tokens of running answers that prompts should leave them: while answers are being written, the number of prompt tokens of a step adapts to that, and grows up to --max-num-batched-tokens; prompts keep nearly half of the time, however small it is; 0 lets --max-prefill-tokens decide")
	f.IntVar(&o.maxLive, "max-num-queued", 4096, "largest number of `choices` that are accepted and not finished; requests beyond it are refused with 503")
	f.IntVar(&o.maxPrompts, "max-num-queued-tokens", 0, "largest number of prompt `tokens` of requests of which nothing has been computed yet; requests beyond it are refused with 503. A good value is the time to the first token that you want, times the tokens of prompts that are computed in a second; 0 sets no such limit")
	f.oneOf(&o.policy, "scheduling-policy", "order in which requests are served: fcfs, first come, first served; priority, by their field priority, lower numbers first", "fcfs", "priority")
	f.BoolVar(&o.caching, "enable-prefix-caching", true, "compute a prefix that several requests share only once")
	o.hashAlgo = "sha256"
	f.Var(hashAlgorithm{&choice{&o.hashAlgo, []string{"sha256", "sha256_cbor", "xxhash", "xxhash_cbor", "builtin"}, nil}}, "prefix-caching-hash-algo",
		"`algorithm` by which equal prefixes are found: sha256, or another one that vLLM has, in whose place SHA-256 is used")
	f.BoolVar(&o.chunked, "enable-chunked-prefill", true, "compute a long prompt in several steps, so that running answers go on meanwhile; --no-enable-chunked-prefill computes every prompt in one step: --max-num-batched-tokens must then be at least --max-model-len, and --max-prefill-tokens and --long-prefill-token-threshold have no effect")
	f.IntVar(&o.longPrompt, "long-prefill-token-threshold", 0, "most `tokens` of one prompt that a step computes; 0 sets no such limit")
}

// gpuOptions say how a GPU is used.
type gpuOptions struct {
	driver string
	launch string
	eager  bool
	gemm   string
	share  float64
}

func (o *gpuOptions) bind(f *flagSet) {
	f.StringVar(&o.driver, "cuda-driver", "", "`file` of the CUDA driver's library (default: libcuda.so.1)")
	f.BoolVar(&o.eager, "enforce-eager", false, "the same as --cuda-launch cu; on the CPU it changes nothing")
	f.oneOf(&o.launch, "cuda-launch", "how kernels are started: graph replays a decode step as one CUDA graph; cu starts each kernel by itself, for comparison", "graph", "cu")
	f.oneOf(&o.gemm, "cuda-gemm", "instructions for matrix products; wgmma needs a Hopper GPU, is faster there, and gives other bits than mma; auto is wgmma where there is one", "auto", "mma", "wgmma")
	f.Float64Var(&o.share, "gpu-memory-utilization", 0.9, "`share` of the GPU's memory that may be used; the KV cache gets what the weights leave of it, unless --kv-cache-memory says less")
}

// weightFormats are the types of weights by their names in --dtype.
var weightFormats = map[string]cpu.Format{"auto": cpu.Auto, "float32": cpu.F32, "float16": cpu.F16, "bfloat16": cpu.BF16}

// cacheFormats are the types of keys and values by their names in --kv-cache-dtype.
var cacheFormats = map[string]cpu.Format{"float32": cpu.F32, "float16": cpu.F16, "bfloat16": cpu.BF16, "int8": cpu.Int8}

// quantizations are the integer formats of weights by their names in --quantization.
var quantizations = map[string]cpu.Format{"q8": cpu.Q8, "q4": cpu.Q4, "w8a8": cpu.W8A8}
