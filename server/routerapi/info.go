package routerapi

import (
	"time"

	"weir/api"
	"weir/internal/jsontext"
	"weir/server/openai"
	"weir/server/transport"
)

// Config is what Handlers answer from.
type Config struct {
	Service *openai.Service
	Version string
	Now     func() time.Time
	Feed    *Feed // nil: changes of the prefix cache are not published
}

// Feed says where changes of the prefix cache are published.
type Feed struct {
	Endpoint    string // tcp://host:port, where * is any address of the machine
	Replay      string // where those who missed something ask; "": nowhere
	Topic       string
	HWM         int // batches that a subscriber may lag behind
	BufferSteps int // batches that can be asked for again
}

// Handlers answer the functions of the interface. They are safe for concurrent use.
type Handlers struct {
	cfg   Config
	began time.Time
}

// New returns handlers.
func New(cfg Config) *Handlers { return &Handlers{cfg: cfg, began: cfg.Now()} }

// Info adds what routers read at GET /server_info of the model that is served. There is nothing to add while there is none.
func (h *Handlers) Info(info map[string]any) {
	info["version"] = h.cfg.Version
	m, err := h.cfg.Service.Serving()
	if err != nil {
		return
	}
	l := loadOf(m)
	for name, value := range map[string]any{
		"model_id": m.Names[0], "served_model_name": m.Names[0], "model_path": m.Root, "tokenizer_path": m.Root, "weight_version": weightVersion,
		"is_embedding": m.Pooling != nil, "context_length": m.MaxLen, "max_total_num_tokens": l.room(), "max_running_requests": l.most, "kv_block_size": l.block,
		"tp_size": 1, "dp_size": 1, "pp_size": 1, "disaggregation_mode": "null",
		"internal_states": []any{map[string]any{"last_gen_throughput": l.Speed, "effective_max_running_requests_per_dp": l.most}},
	} {
		info[name] = value
	}
}

// weightVersion is SGLang's word for weights that were never replaced.
const weightVersion = "default"

// ModelInfo answers GET /model_info and GET /get_model_info.
func (h *Handlers) ModelInfo(c *transport.Call) {
	m, err := h.cfg.Service.Serving()
	if err != nil {
		c.Fail(err)
		return
	}
	info := map[string]any{
		"model_path": m.Root, "tokenizer_path": m.Root, "served_model_name": m.Names[0], "is_generation": m.Pooling == nil, "preferred_sampling_params": nil,
		"weight_version": weightVersion, "has_image_understanding": false, "has_audio_understanding": false, "max_model_len": m.MaxLen, "vocab_size": m.VocabSize,
	}
	if family := m.About.Family; family != "" {
		info["model_type"] = family
	}
	body, err := jsontext.Encode(info)
	if err != nil {
		c.Fail(err)
		return
	}
	c.Reply(body)
}

// EventSources answers GET /kv_event_sources: where the changes of the prefix cache are published, by the number of the engine, of which there
// is one. vllm-router reads an object; newer versions of vLLM answer with a list.
func (h *Handlers) EventSources(c *transport.Call) {
	f := h.cfg.Feed
	if f == nil {
		c.Reply([]byte("{}"))
		return
	}
	dst := api.AppendString([]byte(`{"0":{"data_parallel_rank":0,"publisher":"zmq","enable_kv_cache_events":true,"endpoint":`), f.Endpoint)
	dst = append(dst, `,"replay_endpoint":`...)
	if f.Replay == "" {
		dst = append(dst, "null"...)
	} else {
		dst = api.AppendString(dst, f.Replay)
	}
	dst = api.AppendString(append(dst, `,"topic":`...), f.Topic)
	c.Reply(append(appendInts(dst, member{"hwm", int64(f.HWM)}, member{"buffer_steps", int64(f.BufferSteps)}), "}}"...))
}
