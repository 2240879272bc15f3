// Package arch has the rules that the compiler cannot check, as tests whose messages say
// what to do instead: which package may import which, sizes of files and types, channels,
// tests that sleep, references to documents, and passages that are written twice.
//
// ARCHITECTURE.md has the same table of imports in words. A commit changes both.
package arch

const module = "weir/"

// A rule says what a package may import of ours (exact paths, tests included) and
// what it must not import of anything else (by prefix).
type rule struct {
	may    []string
	tests  []string // additionally, in _test.go files
	mayNot []string
}

var (
	// pure packages are state machines: no clock, no locks, no I/O, no logging.
	pure = []string{"sync", "time", "context", "os", "io", "log", "net", "github.com", "golang.org"}
	// noIO packages compute: they read no files and know no transport.
	noIO = []string{"net", "os", "log", "github.com/valyala", "github.com/dgraph-io"}
	http = []string{"net/http", "github.com/valyala"}
)

const inv = "internal/invariants"

var rules = map[string]rule{
	"api": {
		may:    []string{"internal/jsontext", "internal/longcopy"},
		tests:  []string{"internal/testkit"},
		mayNot: noIO,
	},
	"auth": {
		may:    []string{"internal/plainfile"},
		mayNot: http,
	},
	"backend": {
		mayNot: append([]string{"sync"}, pure...),
	},
	"backend/sim": {
		may:    []string{"backend", "sampler", inv},
		mayNot: noIO,
	},
	"batch": {
		may:    []string{"internal/jsontext"},
		mayNot: []string{"net"},
	},
	"bench": {
		may:   []string{"internal/jsontext", "api"},
		tests: []string{"internal/testkit"},
	},
	"bench/compute": {
		may:    []string{"internal/jsontext", "backend", "device/cpu/limits", "model", "weights"},
		tests:  []string{"device/cpu", "internal/testkit"},
		mayNot: append([]string{"log"}, http...),
	},
	"bench/hostside": {
		may:   []string{"internal/jsontext", "backend", "engine", "sampler", "tokenizer"},
		tests: []string{"backend/sim", "internal/testkit", "models"},
	},
	"calls": {
		may:    []string{"feedback", "internal/form", "internal/jsontext", "internal/longcopy", "internal/memory", "internal/pace", "internal/query", "internal/quota", "store"},
		tests:  []string{"internal/testkit", "store/storetest"},
		mayNot: http,
	},
	"chat": {
		may:    []string{"api", "chat/jinja", "chat/reasoning", "chat/toolcall", "internal/memory"},
		tests:  []string{"internal/testkit"},
		mayNot: noIO,
	},
	"chat/jinja": {
		may:    []string{"internal/jsontext"},
		mayNot: noIO,
	},
	"chat/reasoning": {
		mayNot: pure,
	},
	"chat/toolcall": {
		may:    []string{"internal/jsontext"},
		tests:  []string{"api", "chat", "chat/reasoning", "grammar"},
		mayNot: noIO,
	},
	"cmd/weir": {
		may: []string{"*"},
	},
	"device/cpu": {
		may:    []string{"backend", "internal/invariants", "model", "sampler", "weights"},
		tests:  []string{"internal/testkit"},
		mayNot: []string{"net", "github.com/valyala"},
	},
	"device/cpu/limits": {
		mayNot: []string{"net", "os", "log"},
	},
	"device/cuda": {
		may:    []string{"backend", "device/cuda/kernels", "internal/cudashim", "internal/cudrv", "internal/invariants", "model", "sampler", "weights"},
		tests:  []string{"device/cpu", "engine", "internal/testkit", "kvcache", "models", "scheduler", "tokenizer"},
		mayNot: []string{"net", "github.com/valyala"},
	},
	"device/cuda/check": {
		may:    []string{"internal/jsontext", "backend", "device/cpu", "device/cuda", "device/cuda/kernels", "internal/cudashim", "model", "models", "sampler", "weights"},
		mayNot: http,
	},
	"device/cuda/kernels": {
		tests:  []string{"backend", "sampler"},
		mayNot: noIO,
	},
	"engine": {
		may:    []string{"backend", inv, "internal/retry", "kvcache", "sampler", "scheduler", "tokenizer"},
		tests:  []string{"backend/sim", "device/cpu", "internal/testkit", "kvstore", "model", "models", "weights"},
		mayNot: []string{"net", "os", "encoding/json", "github.com"},
	},
	"examples":                 {},
	"examples/go/chat":         {},
	"examples/go/feedback":     {},
	"examples/go/trajectories": {},
	"feedback": {
		may:    []string{"internal/form", "internal/jsontext", "internal/longcopy", "internal/memory", "internal/pace", "internal/query", "store", "store/outbox"},
		tests:  []string{"internal/testkit", "store/storetest"},
		mayNot: []string{"net", "os", "github.com/dgraph-io", "github.com/valyala"},
	},
	"grammar": {
		may:    []string{"internal/jsontext", "internal/memory"},
		tests:  []string{"internal/growth"},
		mayNot: noIO,
	},
	"hub": {
		may:    []string{"internal/jsontext", "internal/plainfile"},
		tests:  []string{"hub/hubtest", "internal/testkit"},
		mayNot: []string{"github.com"},
	},
	"hub/hubtest": {
		may: []string{"internal/jsontext"},
	},
	"internal/arch":     {},
	"internal/cudashim": {},
	"internal/cudrv": {
		tests: []string{"internal/cudashim"},
	},
	"internal/growth": {
		mayNot: noIO,
	},
	"internal/invariants": {},
	"internal/jsontext": {
		may:    []string{"internal/longcopy"},
		mayNot: noIO,
	},
	"internal/longcopy": {
		mayNot: noIO,
	},
	"internal/memory": {
		may:    []string{inv, "internal/retry"},
		mayNot: noIO,
	},
	"internal/pace": {
		mayNot: append([]string{"sync", "time"}, noIO...),
	},
	"internal/plainfile": {
		mayNot: http,
	},
	"internal/tlsfiles": {
		may:    []string{"internal/plainfile"},
		tests:  []string{"internal/testkit"},
		mayNot: []string{"net/http"},
	},
	"internal/tilecache": {
		tests:  []string{"internal/testkit"},
		mayNot: http,
	},
	"internal/form": {
		may:    []string{"internal/jsontext", "internal/pace"},
		mayNot: noIO,
	},
	"internal/query": {
		may:    []string{"internal/form", "internal/jsontext", "internal/pace"},
		mayNot: noIO,
	},
	"internal/retry": {
		mayNot: append([]string{"sync"}, noIO...),
	},
	"internal/quota": {
		may:    []string{"internal/form", "store"},
		mayNot: http,
	},
	"internal/testkit": {
		may: []string{"internal/jsontext", "weights"},
	},
	"kvcache": {
		may:    []string{"backend", inv},
		tests:  []string{"internal/testkit"},
		mayNot: pure,
	},
	"kvevents": {
		may:    []string{"internal/jsontext", "kvcache"},
		mayNot: []string{"net/http", "github.com", "encoding/json"},
	},
	"kvtransfer": {
		may:    []string{"kvcache"},
		mayNot: []string{"net/http", "encoding/json", "github.com/valyala"},
	},
	"kvstore": {
		may:    []string{"internal/retry", "kvcache"},
		tests:  []string{"internal/testkit"},
		mayNot: http,
	},
	"metrics": {
		may:    []string{"engine", "internal/memory"},
		tests:  []string{"backend", "backend/sim", "kvcache", "sampler"},
		mayNot: http,
	},
	"model": {
		may:    []string{"internal/jsontext", "internal/plainfile", "backend", "quantconfig", "weights", "weights/gguf"},
		tests:  []string{"device/cpu", "internal/testkit", "models", "pooling"},
		mayNot: []string{"net", "github.com/valyala"},
	},
	"models": {
		mayNot: noIO,
	},
	"objects": {
		may:    []string{"internal/form", "internal/jsontext", "internal/pace", "internal/query", "internal/quota", "store"},
		tests:  []string{"internal/testkit", "store/storetest"},
		mayNot: http,
	},
	"pooling": {
		may:    []string{"internal/jsontext", "weights"},
		mayNot: http,
	},
	"quantconfig": {
		may:    []string{"internal/jsontext", "weights"},
		mayNot: noIO,
	},
	"queues": {
		may:    []string{"internal/form", "internal/jsontext", "internal/longcopy", "internal/memory", "internal/pace", "store"},
		tests:  []string{"internal/testkit", "store/storetest"},
		mayNot: http,
	},
	"ratelimit": {
		may:    []string{"auth", "internal/retry", "usage"},
		mayNot: http,
	},
	"sampler": {
		may:    []string{"backend", inv},
		tests:  []string{"internal/testkit"},
		mayNot: pure,
	},
	"scheduler": {
		may:    []string{inv, "kvcache"},
		tests:  []string{"backend", "internal/testkit"},
		mayNot: pure,
	},
	"server": {
		may:    []string{"api", "auth", "calls", "engine", "feedback", "internal/jsontext", "internal/memory", "metrics", "objects", "queues", "server/batchesapi", "server/benchapi", "server/failure", "server/feedbackapi", "server/liveapi", "server/messagesapi", "server/ollamaapi", "server/openai", "server/recording", "server/responsesapi", "server/routerapi", "server/trajectoryapi", "server/transport", "server/ui", "server/weaveapi", "store", "trajectory", "trajectory/archive", "trajectory/export", "usage"},
		tests:  []string{"backend", "backend/sim", "internal/testkit", "models", "pooling", "server/servertest", "tokenizer", "tracing/tracetest"},
		mayNot: []string{"net/http"},
	},
	"server/backlog": {
		mayNot: []string{"net", "os", "log", "github.com"},
	},
	"server/batchesapi": {
		may:    []string{"api", "auth", "batch", "internal/jsontext", "server/backlog", "server/failure", "server/transport", "store"},
		tests:  []string{"auth", "backend/sim", "feedback", "server/servertest", "store/storetest"},
		mayNot: []string{"net/http"},
	},
	"server/benchapi": {
		may:    []string{"api", "auth", "internal/jsontext", "server/failure", "server/transport"},
		tests:  []string{"server", "server/servertest"},
		mayNot: []string{"net/http"},
	},
	"server/failure": {
		may:    []string{"api", "calls", "engine", "feedback", "internal/memory", "internal/retry", "metrics", "objects", "queues", "ratelimit", "store", "trajectory", "trajectory/archive"},
		tests:  []string{"internal/testkit"},
		mayNot: []string{"net", "os", "github.com"},
	},
	"server/feedbackapi": {
		may:    []string{"auth", "feedback", "internal/memory", "server/failure", "server/transport"},
		tests:  []string{"server/servertest"},
		mayNot: []string{"net/http"},
	},
	"server/jsonfields": {
		may:    []string{"api", "internal/jsontext", "server/failure"},
		mayNot: []string{"net/http"},
	},
	"server/liveapi": {
		may:    []string{"api", "auth", "engine", "internal/jsontext", "metrics", "server/failure", "server/transport"},
		tests:  []string{"backend/sim", "server/servertest"},
		mayNot: []string{"net/http"},
	},
	"server/messagesapi": {
		may:    []string{"api", "chat", "internal/jsontext", "internal/memory", "server/failure", "server/jsonfields", "server/openai", "server/transport"},
		tests:  []string{"server/servertest"},
		mayNot: []string{"net/http"},
	},
	"server/ollamaapi": {
		may:    []string{"api", "chat", "internal/jsontext", "server/failure", "server/jsonfields", "server/openai", "server/transport"},
		tests:  []string{"pooling", "server/servertest"},
		mayNot: []string{"net/http"},
	},
	"server/openai": {
		may:    []string{"api", "auth", "chat", "chat/reasoning", "chat/toolcall", "engine", "grammar", "internal/jsontext", "internal/longcopy", "internal/memory", "kvcache", "kvtransfer", "metrics", "pooling", "ratelimit", "sampler", "server/failure", "server/recording", "server/transport", "tokenizer"},
		tests:  []string{inv, "backend", "backend/sim", "chat/jinja", "device/cpu", "internal/testkit", "model", "models", "server", "server/servertest", "weights"},
		mayNot: []string{"net/http"},
	},
	"server/recording": {
		may:    []string{"api", "calls", "feedback", "internal/jsontext", "internal/memory", "metrics", "server/failure", "store", "trajectory", "trajectory/archive", "trajectory/export"},
		tests:  []string{"auth", "backend/sim", "calls", "internal/testkit", "objects", "queues", "server", "server/servertest", "store"},
		mayNot: http,
	},
	"server/responsesapi": {
		may:    []string{"api", "auth", "internal/jsontext", "server/backlog", "server/failure", "server/openai", "server/transport", "store"},
		tests:  []string{"auth", "backend/sim", "chat", "feedback", "server/servertest"},
		mayNot: []string{"net/http"},
	},
	"server/routerapi": {
		may:    []string{"api", "engine", "internal/jsontext", "server/failure", "server/jsonfields", "server/openai", "server/transport", "tokenizer"},
		tests:  []string{"server/servertest"},
		mayNot: []string{"net/http"},
	},
	"server/sdktest": {
		tests: []string{"backend", "backend/sim", "chat", "engine", "models", "pooling", "server", "server/batchesapi", "server/openai", "server/servertest", "tokenizer"},
	},
	"server/servertest": {
		may: []string{"auth", "backend", "backend/sim", "calls", "chat", "engine", "feedback", "internal/jsontext", "models", "objects", "queues", "server", "server/openai", "server/transport", "store", "tokenizer", "trajectory/archive"},
	},
	"server/trajectoryapi": {
		may:    []string{"api", "auth", "internal/jsontext", "internal/memory", "internal/retry", "metrics", "server/failure", "server/transport", "trajectory", "trajectory/archive", "trajectory/export"},
		tests:  []string{"internal/testkit", "server", "server/servertest", "store"},
		mayNot: []string{"net/http"},
	},
	"server/transport": {
		may:    []string{inv, "api", "auth", "internal/longcopy", "internal/memory", "internal/pace", "internal/retry", "metrics", "ratelimit", "server/failure", "tracing", "usage"},
		tests:  []string{"backend", "backend/sim", "engine", "internal/testkit", "internal/tlsfiles", "server/servertest"},
		mayNot: []string{"net/http"},
	},
	"server/ui": {},
	"server/weaveapi": {
		may:    []string{"auth", "calls", "feedback", "internal/jsontext", "internal/memory", "objects", "queues", "server/failure", "server/transport", "spans"},
		tests:  []string{"internal/testkit", "server/servertest"},
		mayNot: []string{"net/http"},
	},
	"sinks": {
		may:    []string{"internal/jsontext", "store", "store/outbox", "usage"},
		tests:  []string{"feedback", "internal/testkit", "store/storetest", "trajectory", "trajectory/archive"},
		mayNot: append([]string{"os"}, http...),
	},
	"sinks/nats": {
		may:    []string{"store/outbox"},
		mayNot: http,
	},
	"sinks/s3": {
		may:    []string{"internal/jsontext", "sinks", "store/outbox"},
		mayNot: []string{"os", "github.com/valyala"},
	},
	"spans": {
		may:    []string{"calls", "internal/form", "internal/jsontext", "internal/memory", "internal/pace"},
		mayNot: http,
	},
	"store": {
		may:    []string{"internal/longcopy", "internal/retry"},
		tests:  []string{"internal/testkit"},
		mayNot: http,
	},
	"store/outbox": {
		may:    []string{"internal/jsontext", "store"},
		tests:  []string{"store/storetest"},
		mayNot: append([]string{"os"}, http...),
	},
	"store/storetest": {
		may: []string{"store"},
	},
	"tokenizer": {
		may:    []string{"internal/jsontext", "internal/longcopy"},
		tests:  []string{"internal/testkit"},
		mayNot: noIO,
	},
	"tools/browsers": {
		may: []string{"internal/jsontext"},
	},
	"tools/chaos": {
		may: []string{"internal/growth", "internal/jsontext"},
	},
	"tools/maskbench": {
		may: []string{"grammar", "internal/growth", "internal/jsontext", "tokenizer"},
	},
	"tools/peers": {
		may:   []string{"internal/jsontext"},
		tests: []string{"internal/testkit"},
	},
	"tools/release": {},
	"tools/routers": {
		may: []string{"internal/jsontext"},
	},
	"tools/soak": {},
	"tracing": {
		may:   []string{"internal/retry"},
		tests: []string{"tracing/tracetest"},
	},
	"tracing/tracetest": {
		may: []string{"tracing"},
	},
	"trajectory": {
		may:    []string{"internal/jsontext", "internal/longcopy"},
		tests:  []string{"internal/testkit"},
		mayNot: noIO,
	},
	"trajectory/archive": {
		may:    []string{"internal/jsontext", "internal/memory", "internal/pace", "store", "store/outbox", "trajectory"},
		tests:  []string{"internal/testkit"},
		mayNot: http,
	},
	"trajectory/export": {
		may:    []string{"internal/jsontext", "trajectory", "trajectory/archive"},
		tests:  []string{"internal/memory", "internal/pace", "store"},
		mayNot: http,
	},
	"usage": {
		tests:  []string{"internal/testkit"},
		mayNot: append([]string{"net"}, http...),
	},
	"weights": {
		may:    []string{"internal/jsontext", "internal/plainfile"},
		tests:  []string{"internal/testkit"},
		mayNot: []string{"net", "github.com"},
	},
	"weights/gguf": {
		may:    []string{"internal/plainfile", "weights"},
		tests:  []string{"internal/testkit"},
		mayNot: []string{"net", "github.com/valyala"},
	},
}
