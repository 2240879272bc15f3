package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// A vllmFlag is a flag of vllm serve that has no effect on this server: what it asks for is
// always so here, or it is about something that this server does not have. Scripts that were
// written for vLLM pass many of them. Such a flag is accepted with a line in the log. Only
// values that ask for something which this server cannot do are refused.
type vllmFlag struct {
	names  string   // separated by spaces
	takes  []string // nil: nothing or true, as of a switch; anyValue: any; otherwise the only values that are accepted
	reason string   // completes "--name has no effect: " or, if a value is refused, "--name value: "
}

// anyValue is what a flag takes whose value does not matter.
var anyValue = []string{"*"}

// impossible is what a flag takes that is always refused, and impossibleSwitch what a switch
// takes that cannot be turned on.
var (
	impossible       = []string{"None"}
	impossibleSwitch = []string{"false"}
)

// vllmFlags are the flags of vllm serve (vllm/engine/arg_utils.py and
// vllm/entrypoints/launchers/cli_args.py, version 0.32) that are neither flags of this server
// nor aliases of such (vllmAliases).
var vllmFlags = []vllmFlag{
	// One process on one device.
	{"tensor-parallel-size pipeline-parallel-size data-parallel-size data-parallel-size-local nnodes prefill-context-parallel-size decode-context-parallel-size api-server-count", []string{"1"}, "a model runs on one device, in one process"},
	{"distributed-executor-backend data-parallel-backend all2all-backend master-addr master-port node-rank data-parallel-address data-parallel-rpc-port data-parallel-rank data-parallel-start-rank data-parallel-supervisor-port distributed-timeout-seconds cpu-distributed-timeout-seconds max-parallel-loading-workers device-ids dp-sync-interval dcp-comm-backend dcp-kv-cache-interleave-size cp-kv-cache-interleave-size expert-placement-strategy eplb-config renderer-num-workers dp-supervisor-probe-interval-s dp-supervisor-probe-timeout-s dp-supervisor-probe-failure-threshold dbo-decode-token-threshold dbo-prefill-token-threshold elastic-ep-max-dp-size",
		anyValue, "a model runs on one device, in one process"},
	{"disable-custom-all-reduce enable-expert-parallel disable-nccl-for-dp-synchronization enable-eplb disable-frontend-multiprocessing ray-workers-use-nsight worker-use-ray engine-use-ray enable-nccl-comm-suspend enable-ep-weight-filter enable-shm-tensor-arena dcp-q-replicate enable-batch-sharded-sampling enable-hc-sp", nil, "a model runs on one device, in one process"},
	{"data-parallel-external-lb data-parallel-hybrid-lb data-parallel-multi-port-external-lb headless enable-elastic-ep enable-fault-tolerance enable-scale-out", impossibleSwitch, "a model runs on one device, in one process"},

	// Where the model comes from.
	{"trust-remote-code", nil, "code in a model's folder is never run"},
	{"load-format", []string{"auto", "safetensors", "fastsafetensors", "prefetch"}, "weights are read from safetensors files"},
	{"tokenizer-mode", []string{"auto", "hf", "slow", "fast"}, "vocabularies are read from tokenizer.json or from what a folder has in its place"},
	{"config-format", []string{"auto", "hf"}, "configurations are read from config.json"},
	{"model-impl convert task", []string{"auto", "vllm", "generate", "none"}, "weir has one implementation of each model; --runner says whether it generates or embeds"},
	{"tokenizer-revision code-revision ignore-patterns hf-config-path pt-load-map-location model-loader-extra-config safetensors-load-strategy safetensors-prefetch-block-size safetensors-prefetch-num-threads",
		anyValue, "weir chooses itself which files of a model it needs"},
	{"use-tqdm-on-load allow-deprecated-quantization language-model-only skip-mm-profiling", nil, "loading needs no choice"},
	{"model-class-overrides quantization-config rope-scaling rope-theta", []string{"{}", "", "None"}, "the model's own config.json decides"},
	{"pooler-config diffusion-config engram-config", impossible, "the model's files and --runner say what it does"},
	{"mamba-ssu-algorithm mamba-cache-philox-rounds mamba-cache-dtype mamba-ssm-cache-dtype mamba-block-size mamba-cache-mode replayssm-buffer-len sparse-indexer-topk-backend", anyValue, "weir chooses itself how recurrent states are computed and kept"},
	{"enable-mamba-cache-stochastic-rounding enable-mamba-shared-prefix-checkpoint use-replayssm swa-bounded-replay", nil, "weir chooses itself how recurrent states and windows are computed and kept"},

	// How it is computed.
	{"compilation-config optimization-level cudagraph-capture-sizes max-cudagraph-capture-size max-seq-len-to-capture attention-backend attention-config linear-backend moe-backend kernel-config performance-mode mamba-backend gdn-prefill-backend kda-prefill-backend kda-decode-backend jit-monitor-mode ir-op-priority additional-config numa-bind-cpus numa-bind-nodes ubatch-size num-scheduler-steps max-num-partial-prefills max-long-partial-prefills num-lookahead-slots preemption-mode prefix-match-unit prefix-cache-retention-interval ec-manager-config fault-tolerance-config",
		anyValue, "weir chooses its kernels and batches itself"},
	{"async-scheduling enable-flashinfer-autotune disable-cascade-attn disable-chunked-mm-input disable-hybrid-kv-cache-manager cudagraph-metrics numa-bind enable-dbo enable-cumem-allocator scheduler-reserve-full-isl long-prefill-token-threshold-adaptive kv-cache-metrics enable-mfu-metrics jit-monitor-verbose use-fp64-gumbel kv-sharing-fast-prefill use-v2-block-manager disable-async-output-proc sleep-mode-offload-cudagraph",
		nil, "weir chooses its kernels and batches itself"},
	{"watermark", []string{"0", "0.0"}, "a sequence that is admitted leaves a free KV block for each that runs"},
	{"prefill-schedule-interval", []string{"1"}, "prompts may begin in every step"},
	{"kv-cache-dtype-skip-layers", []string{"", "None"}, "all layers have keys and values of one type"},
	{"kv-offloading-backend offload-backend offload-num-in-group offload-prefetch-step offload-params cpu-offload-params sleep-preserve-parameter-names", anyValue, "weights stay where they are, and --kv-offload-dir and --kv-offload-memory keep copies of KV blocks"},
	{"swap-space cpu-offload-gb kv-offloading-size offload-group-size", []string{"0", "0.0", "None"}, "weights stay where they are; --kv-cache-memory says how many KV blocks there are, and --kv-offload-memory how many copies"},
	{"num-gpu-blocks-override", impossible, "--kv-cache-memory says how much memory the KV cache has"},
	{"kv-transfer-config", impossible, "--role, --kv-transfer-listen and --kv-transfer-peers say with whom KV blocks are exchanged"},
	{"ec-transfer-config weight-transfer-config", impossible, "only KV blocks are sent to other servers"},
	{"speculative-config spec-method spec-model spec-tokens", impossible, "there is no speculative decoding"},
	{"per-request-spec-decode-metrics", []string{"none"}, "there is no speculative decoding"},
	{"disable-sliding-window", impossibleSwitch, "a model that was trained with a window is computed with it"},
	{"worker-cls", []string{"auto"}, "there is no Python in which such a class could run"},
	{"scheduler-cls worker-extension-cls logits-processors io-processor-plugin reasoning-parser-plugin tool-parser-plugin middleware", impossible, "there is no Python in which such a class could run"},
	{"enable-lora enable-tower-connector-lora", impossibleSwitch, "there are no adapters (LoRA)"},
	{"lora-modules default-mm-loras", impossible, "there are no adapters (LoRA)"},
	{"max-loras max-lora-rank max-cpu-loras lora-dtype lora-target-modules max-lora-cls-labels", anyValue, "there are no adapters (LoRA)"},
	{"fully-sharded-loras specialize-active-lora enable-mixed-moe-lora-format enable-moe-shared-loras", nil, "there are no adapters (LoRA)"},
	{"enable-prompt-embeds", impossibleSwitch, "prompts are texts or token ids"},
	{"enable-sleep-mode", impossibleSwitch, "the server does not give up its weights while it runs"},
	{"enable-return-routed-experts return-sampling-mask enable-per-request-metrics enable-trace-replay", impossibleSwitch, "answers have no such field"},
	{"aux-output-config", []string{"{}", "None"}, "answers have no such field"},
	{"watermark-config", impossible, "the tokens of an answer carry no watermark"},
	{"skip-tokenizer-init tokens-only", impossibleSwitch, "the server always has a tokenizer"},
	{"reasoning-config", []string{"{}", "None"}, "--reasoning-parser says how the model marks its thoughts"},
	{"enable-reasoning", nil, "--reasoning-parser says how the model marks its thoughts"},
	{"guided-decoding-backend", anyValue, "constraints have one compiler"},
	{"fingerprint-mode", []string{"full", "hash"}, "system_fingerprint is a hash of all that decides the bits of an answer"},
	{"fingerprint-value", impossible, "system_fingerprint is a hash of all that decides the bits of an answer"},
	{"cohere-format anthropic-disabled-thinking-effort", anyValue, "this server has only OpenAI's interface"},
	{"cohere-is-reasoning-model", nil, "this server has only OpenAI's interface"},
	{"limit-mm-per-prompt media-io-kwargs mm-processor-kwargs mm-processor-cache-gb mm-processor-cache-type mm-encoder-tp-mode mm-encoder-attn-backend allowed-local-media-path allowed-media-domains video-pruning-rate video-pruning-method mm-shm-cache-max-object-size-mb mm-hasher-algorithm mm-encoder-attn-dtype mm-encoder-fp8-scale-path mm-encoder-fp8-scale-save-path mm-encoder-fp8-scale-save-margin mm-tensor-ipc mm-processor-device mm-ipc-gpu-memory-gb",
		anyValue, "requests contain text only"},
	{"interleave-mm-strings enable-mm-embeds trust-request-mm-kwargs mm-encoder-only mm-device-do-normalize", nil, "requests contain text only"},

	{"enable-auto-tool-choice", nil, "a request with tools has tool_choice \"auto\" unless it says otherwise"},
	{"tool-strict-level", anyValue, "--tool-constraint says what calls of tools obey"},

	// Logs and what surrounds the server.
	{"disable-log-stats aggregate-engine-logging enable-logging-iteration-details log-error-stack enable-log-deltas fail-on-environ-validation enable-flash-late-interaction enable-layerwise-nvtx-tracing enable-offline-docs",
		nil, "--log-level and --enable-log-requests say what is logged"},
	{"uvicorn-log-level log-config-file logging-config max-log-len show-hidden-metrics-for-version h11-max-incomplete-event-size h11-max-header-count shm-broadcast-timeout profiler-config custom-histogram-buckets kv-cache-metrics-sample",
		anyValue, "--log-level and --enable-log-requests say what is logged"},
	{"enable-ssl-refresh", nil, "the files of TLS are always read again when they change"},
	{"enable-log-outputs", impossibleSwitch, "what was said is never logged"},
	{"collect-detailed-traces", impossible, "a trace has the span of a request, with its times in the engine"},
	{"ssl-ciphers", impossible, "the cipher suites are those that Go holds for safe"},
	{"grpc-port tool-server", impossible, "this server speaks HTTP only"},
	{"grpc", impossibleSwitch, "this server speaks HTTP only"},
}

// bindVLLM adds the flags of vLLM that have no effect, and returns a function that lists what
// of them was given, for the log.
func bindVLLM(f *flagSet) (given func() []string) {
	var values []*ignored
	for _, v := range vllmFlags {
		for name := range strings.FieldsSeq(v.names) {
			value := &ignored{vllmFlag: v, name: name}
			values = append(values, value)
			flag := f.VarPF(value, name, "", v.reason)
			flag.Hidden = true
			if v.isSwitch() {
				flag.NoOptDefVal = "true"
			}
		}
	}
	return func() (lines []string) {
		for _, v := range values {
			if v.given {
				lines = append(lines, fmt.Sprintf("--%s has no effect: %s", v.name, v.reason))
			}
		}
		return lines
	}
}

// ignored is the value of a flag that has no effect.
type ignored struct {
	vllmFlag
	name  string
	given bool
}

func (v *ignored) String() string { return "" }

func (v *ignored) Type() string {
	if v.isSwitch() {
		return "bool"
	}
	return "value"
}

// isSwitch reports whether the flag is on or off, rather than one with a value.
func (v *vllmFlag) isSwitch() bool {
	return v.takes == nil || slices.Equal(v.takes, impossibleSwitch)
}

func (v *ignored) Set(text string) error {
	v.given = true
	switch {
	case v.takes == nil || slices.Equal(v.takes, anyValue) || slices.Contains(v.takes, text):
		return nil
	case slices.Equal(v.takes, impossible) && text == "":
		return nil // it asks for nothing
	}
	return fmt.Errorf("this server cannot do that: %s", v.reason)
}

// vllmAliases are other names of flags of this server. Some scripts use older names of vLLM.
var vllmAliases = map[string]string{
	"kv-cache-memory-bytes":   "kv-cache-memory",
	"max-num-queued-reqs":     "max-num-queued",
	"sse-keep-alive-interval": "sse-heartbeat",
	"max-num-active-seqs":     "max-num-seqs",

	"max-num-scheduled-tokens":  "max-num-batched-tokens",
	"device-memory-utilization": "gpu-memory-utilization",
}

// short are the names of more than one letter that vLLM has with a single dash.
var short = map[string]string{
	"-tp": "--tensor-parallel-size", "-pp": "--pipeline-parallel-size", "-dp": "--data-parallel-size", "-dcp": "--decode-context-parallel-size",
	"-pcp": "--prefill-context-parallel-size", "-ep": "--enable-expert-parallel", "-cc": "--compilation-config", "-sc": "--speculative-config",
	"-asc": "--api-server-count", "-n": "--nnodes", "-r": "--node-rank", "-q": "--quantization", "-O": "--optimization-level",
	"-dpn": "--data-parallel-rank", "-dpr": "--data-parallel-start-rank", "-dpl": "--data-parallel-size-local", "-dpa": "--data-parallel-address",
	"-dpp": "--data-parallel-rpc-port", "-dpb": "--data-parallel-backend", "-dph": "--data-parallel-hybrid-lb", "-dpe": "--data-parallel-external-lb",
	"-dpm": "--data-parallel-multi-port-external-lb", "-dc": "--diffusion-config", "-ac": "--attention-config",
}

// structuredFlag is the only flag with a JSON object whose members are flags here, too.
const structuredFlag = "--structured-outputs-config"

// several are the flags after which vLLM takes more than one value.
var several = []string{"served-model-name", "api-key", "lora-modules", "cudagraph-capture-sizes", "middleware", "ignore-patterns", "device-ids", "custom-histogram-buckets", "numa-bind-nodes"}

// fromVLLM rewrites arguments in the forms of vLLM's command line into those of pflag: names
// with underscores, names of several letters after a single dash, and several values after
// one flag. In "--served-model-name a b", b is a second name, as in vLLM. But in
// "--api-key secret MODEL" the folder MODEL is the model if no other argument names one,
// because that has always been the form here.
func fromVLLM(args []string) []string {
	args = withMembers(args)
	out := make([]string, 0, len(args))
	model := namesModel(args)
	for i := 0; i < len(args); i++ {
		arg := longName(args[i])
		if arg == "--hf-token" && (i+1 == len(args) || strings.HasPrefix(args[i+1], "-")) {
			arg += "=true" // the only one of vLLM's flags with a value that may be left out
		}
		out = append(out, arg)
		if arg == "--" {
			return append(out, args[i+1:]...)
		}
		name, isFlag := strings.CutPrefix(arg, "--")
		if !isFlag || !slices.Contains(several, name) || i+1 == len(args) {
			continue
		}
		i++
		out = append(out, args[i])
		for i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
			last := i+2 == len(args) || strings.HasPrefix(args[i+2], "-")
			if last && !model && isFolder(args[i+1]) {
				break
			}
			i++
			out = append(out, arg, args[i])
		}
	}
	return out
}

// longName returns an argument with the name of its flag as pflag knows it.
func longName(arg string) string {
	name, value, hasValue := strings.Cut(arg, "=")
	before, member, hasMember := strings.Cut(name, ".")
	if long, ok := short[before]; ok {
		if name = long; hasMember {
			name += "." + member
		}
	} else if len(name) == 3 && strings.HasPrefix(name, "-O") { // -O3
		name, value, hasValue = "--optimization-level", name[2:], true
	}
	if flag, member, isMember := strings.Cut(name, "."); strings.HasPrefix(name, "--") {
		name = strings.ReplaceAll(flag, "_", "-")
		if isMember && name == structuredFlag { // its members are flags
			name += "." + strings.ReplaceAll(member, "_", "-")
		} else if isMember {
			name += "." + member // a key in a JSON object
		}
	}
	if hasValue {
		return name + "=" + value
	}
	return name
}

// namesModel reports whether arguments name a model outside of the values of a flag that
// takes several: as the first argument, or by --model.
func namesModel(args []string) bool {
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		return true
	}
	return slices.ContainsFunc(args, func(a string) bool { return a == "--model" || strings.HasPrefix(a, "--model=") })
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// hashAlgorithm is a flag with one of a fixed set of values whose list is too long for a
// synopsis.
type hashAlgorithm struct{ *choice }

func (hashAlgorithm) Type() string { return "algorithm" }

// alias gives flags their other names.
func (f *flagSet) alias(names map[string]string) {
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if own, ok := names[name]; ok {
			name = own
		}
		return pflag.NormalizedName(name)
	})
}
