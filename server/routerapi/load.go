package routerapi

import (
	"strconv"
	"strings"
	"time"

	"weir/api"
	"weir/engine"
	"weir/server/failure"
	"weir/server/openai"
	"weir/server/transport"
)

// sections are what include may name at /v1/loads. Of those that this server has nothing for, answers have nothing.
var sections = map[string]bool{"core": true, "memory": true, "queues": true, "all": true, "spec": false, "speculative": false, "lora": false, "disagg": false, "disaggregation": false}

// include reads the sections that a query asks for; without any it is all of them.
func include(c *transport.Call) (memory, queues bool, err error) {
	text := string(c.QueryArgs().Peek("include"))
	if text == "" {
		return true, true, nil
	}
	for name := range strings.SplitSeq(text, ",") {
		if _, known := sections[name]; !known {
			return false, false, failure.BadRequest("include", "include must list core, memory, spec, lora, disagg, queues or all, got %.64q.", name)
		}
		memory = memory || name == "memory" || name == "all"
		queues = queues || name == "queues" || name == "all"
	}
	return memory, queues, nil
}

// rank reads which rank a query asks for; there is one, 0.
func rank(c *transport.Call) error {
	if v := string(c.QueryArgs().Peek("dp_rank")); v != "" && v != "0" {
		return failure.BadRequest("dp_rank", "dp_rank must be 0, the only one, got %.64q.", v)
	}
	return nil
}

// load is how busy the engine is.
type load struct {
	engine.Stats
	block, most int // tokens of a block; sequences of a step
}

func loadOf(m *openai.Model) load {
	spec := m.Engine.Spec()
	return load{m.Engine.Stats(), spec.BlockTokens, spec.MaxSeqs}
}

func (l *load) used() int64 { return int64(l.BlocksUsed) * int64(l.block) }

func (l *load) room() int64 { return int64(l.BlocksTotal) * int64(l.block) }

// share is a part of a whole, 0 of nothing.
func share[N int | uint64](part, whole N) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// Loads answers GET /loads and GET /v1/loads: how busy the engine is, in SGLang's form.
func (h *Handlers) Loads(c *transport.Call) {
	m, err := h.cfg.Service.Serving()
	if err == nil {
		err = rank(c)
	}
	if err == nil {
		if name := string(c.QueryArgs().Peek("model")); !m.Serves(name) {
			err = api.ErrModelNotFound(name)
		}
	}
	memory, queues := false, false
	if err == nil {
		memory, queues, err = include(c)
	}
	if err != nil {
		c.Fail(err)
		return
	}
	l := loadOf(m)
	usage, busy := share(l.BlocksUsed, l.BlocksTotal), share(l.Running, l.most)
	dst := h.cfg.Now().UTC().AppendFormat([]byte(`{"timestamp":"`), time.RFC3339Nano)
	dst = api.AppendString(append(dst, `","version":`...), h.cfg.Version)
	dst = appendInts(append(dst, `,"dp_rank_count":1,"loads":[{"dp_rank":0`...),
		member{"num_running_reqs", int64(l.Running)}, member{"num_waiting_reqs", int64(l.Waiting)}, member{"num_total_reqs", int64(l.Running + l.Waiting)},
		member{"num_used_tokens", l.used()}, member{"num_total_tokens", l.used()}, member{"max_total_num_tokens", l.room()}, member{"max_running_requests", int64(l.most)})
	dst = appendFloat(append(dst, `,"token_usage":`...), usage)
	dst = appendFloat(append(dst, `,"gen_throughput":`...), l.Speed)
	dst = appendFloat(append(dst, `,"cache_hit_rate":`...), share(l.PrefixHits, l.PrefixQueries))
	dst = appendFloat(append(dst, `,"utilization":`...), busy)
	if memory {
		dst = appendFloat(append(dst, `,"memory":{"weight_gb":`...), float64(m.About.Bytes)/(1<<30))
		dst = append(appendInts(dst, member{"token_capacity", l.room()}), '}')
	}
	if queues {
		dst = append(dst, `,"queues":{"waiting":`...)
		dst = strconv.AppendInt(dst, int64(l.Waiting), 10)
		dst = append(appendInts(dst, member{"grammar", int64(h.cfg.Service.Compiling().Waiting())}, member{"paused", 0}, member{"retracted", int64(l.Preemptions)}), '}')
	}
	dst = append(dst, `}],"aggregate":{"total_running_reqs":`...)
	dst = appendInts(strconv.AppendInt(dst, int64(l.Running), 10), member{"total_waiting_reqs", int64(l.Waiting)}, member{"total_reqs", int64(l.Running + l.Waiting)})
	dst = appendFloat(append(dst, `,"avg_token_usage":`...), usage)
	dst = appendFloat(append(dst, `,"avg_throughput":`...), l.Speed)
	dst = appendFloat(append(dst, `,"avg_utilization":`...), busy)
	c.Reply(append(dst, "}}"...))
}

// GetLoad answers GET /get_load, which was there before /v1/loads. SGLang's own answer is a list of such objects; vllm-router reads the member
// load of one.
func (h *Handlers) GetLoad(c *transport.Call) {
	m, err := h.cfg.Service.Serving()
	if err != nil {
		c.Fail(err)
		return
	}
	l := loadOf(m)
	dst := appendInts([]byte(`{"dp_rank":0`), member{"load", int64(l.Running + l.Waiting)}, member{"num_reqs", int64(l.Running + l.Waiting)}, member{"num_waiting_reqs", int64(l.Waiting)},
		member{"num_tokens", l.used()}, member{"num_pending_tokens", 0})
	dst = appendFloat(append(dst, `,"ts_tic":`...), h.cfg.Now().Sub(h.began).Seconds())
	c.Reply(append(dst, '}'))
}

// member is a member of an object with a whole number.
type member struct {
	name  string
	value int64
}

// appendInts appends members, each behind a comma.
func appendInts(dst []byte, members ...member) []byte {
	for _, m := range members {
		dst = append(append(append(dst, `,"`...), m.name...), `":`...)
		dst = strconv.AppendInt(dst, m.value, 10)
	}
	return dst
}

// appendFloat appends a number with at most six decimals.
func appendFloat(dst []byte, x float64) []byte {
	start := len(dst)
	dst = strconv.AppendFloat(dst, x, 'f', 6, 64)
	for len(dst) > start+2 && dst[len(dst)-1] == '0' && dst[len(dst)-2] != '.' { // typed readers see by the point that it is no whole number
		dst = dst[:len(dst)-1]
	}
	return dst
}
