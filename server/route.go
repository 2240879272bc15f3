package server

import (
	"strings"

	"weir/server/failure"
	"weir/server/feedbackapi"
	"weir/server/liveapi"
	"weir/server/openai"
	"weir/server/routerapi"
	"weir/server/transport"
	"weir/server/ui"
	"weir/server/weaveapi"
)

// route is one function of the server.
type route struct {
	methods string // separated by ", "
	open    bool   // needs no key
	private bool   // is about other clients: without keys, for this machine alone
	maxBody int64  // bound of its body; 0: as that of all others
	basic   bool   // takes Basic credentials, as the functions of Weave do, beside others
	serve   func(*Server, *transport.Call)
	when    func(Functions) bool // whether it is there; nil: always
}

// routes are found by the path as it was sent: an escaped or doubled slash
// names something else, and cannot lead around the keys.
var routes = map[string]route{
	"/v1/chat/completions":        {methods: "POST", serve: generates((*openai.Service).ChatCompletions)},
	"/v1/completions":             {methods: "POST", serve: generates((*openai.Service).Completions)},
	"/v1/messages":                {methods: "POST", serve: func(s *Server, c *transport.Call) { s.messages.Messages(c) }},
	"/v1/messages/count_tokens":   {methods: "POST", serve: func(s *Server, c *transport.Call) { s.messages.CountTokens(c) }},
	"/":                           {methods: "GET", open: true, serve: (*Server).root},
	"/api/chat":                   {methods: "POST", serve: func(s *Server, c *transport.Call) { s.ollama.Chat(c) }},
	"/api/generate":               {methods: "POST", serve: func(s *Server, c *transport.Call) { s.ollama.Generate(c) }},
	"/api/embed":                  {methods: "POST", serve: func(s *Server, c *transport.Call) { s.ollama.Embed(c) }},
	"/api/embeddings":             {methods: "POST", serve: func(s *Server, c *transport.Call) { s.ollama.Embeddings(c) }},
	"/api/tags":                   {methods: "GET", serve: func(s *Server, c *transport.Call) { s.ollama.Tags(c) }},
	"/api/ps":                     {methods: "GET", serve: func(s *Server, c *transport.Call) { s.ollama.Running(c) }},
	"/api/show":                   {methods: "POST", serve: func(s *Server, c *transport.Call) { s.ollama.Show(c) }},
	"/api/version":                {methods: "GET", open: true, serve: func(s *Server, c *transport.Call) { s.ollama.Version(c) }},
	"/v1/embeddings":              {methods: "POST", serve: generates((*openai.Service).Embeddings)},
	"/pooling":                    {methods: "POST", serve: generates((*openai.Service).Pooling)},
	"/classify":                   {methods: "POST", serve: generates((*openai.Service).Classify)},
	"/score":                      {methods: "POST", serve: generates((*openai.Service).Score)},
	"/v1/score":                   {methods: "POST", serve: generates((*openai.Service).Score)},
	"/rerank":                     {methods: "POST", serve: generates((*openai.Service).Rerank)},
	"/v1/rerank":                  {methods: "POST", serve: generates((*openai.Service).Rerank)},
	"/v2/rerank":                  {methods: "POST", serve: generates((*openai.Service).Rerank)},
	"/v1/models":                  {methods: "GET", serve: generates((*openai.Service).Models)},
	"/v1/chat/completions/render": {methods: "POST", serve: generates((*openai.Service).RenderChat)},
	"/v1/completions/render":      {methods: "POST", serve: generates((*openai.Service).RenderTexts)},
	"/tokenizer_info":             {methods: "GET", serve: generates((*openai.Service).TokenizerInfo), when: func(f Functions) bool { return f.TokenizerInfo }},
	"/tokenize":                   {methods: "POST", serve: generates((*openai.Service).Tokenize)},
	"/detokenize":                 {methods: "POST", serve: generates((*openai.Service).Detokenize)},
	"/health":                     {methods: "GET", open: true, serve: (*Server).health},
	"/health_generate":            {methods: "GET", open: true, serve: (*Server).health},
	"/ping":                       {methods: "GET, POST", open: true, serve: (*Server).health},
	"/ready":                      {methods: "GET", open: true, serve: (*Server).ready},
	metricsPath:                   {methods: "GET", open: true, serve: (*Server).scrape},
	"/version":                    {methods: "GET", open: true, serve: (*Server).version},
	"/openapi.json":               {methods: "GET", open: true, serve: (*Server).openAPI, when: documented},
	"/docs":                       {methods: "GET", open: true, serve: (*Server).docs, when: documented},
	"/usage":                      {methods: "GET", private: true, serve: (*Server).projectUsage},
	liveapi.Path:                  {methods: "GET", serve: func(s *Server, c *transport.Call) { s.live.Live(c) }},
	"/load":                       {methods: "GET", serve: (*Server).serverLoad},
	"/loads":                      {methods: "GET", serve: routed((*routerapi.Handlers).Loads)},
	"/v1/loads":                   {methods: "GET", serve: routed((*routerapi.Handlers).Loads)},
	"/get_load":                   {methods: "GET", serve: routed((*routerapi.Handlers).GetLoad)},
	"/model_info":                 {methods: "GET", serve: routed((*routerapi.Handlers).ModelInfo)},
	"/get_model_info":             {methods: "GET", serve: routed((*routerapi.Handlers).ModelInfo)},
	"/kv_event_sources":           {methods: "GET", serve: routed((*routerapi.Handlers).EventSources)},
	"/generate":                   {methods: "POST", serve: routed((*routerapi.Handlers).Generate)},
	"/server_info":                {methods: "GET", basic: true, serve: (*Server).serverInfo},
	"/get_server_info":            {methods: "GET", serve: (*Server).serverInfo},
	"/flush_cache":                {methods: "POST", private: true, serve: (*Server).flushCache},
	"/reset_prefix_cache":         {methods: "POST", serve: (*Server).resetPrefixCache, when: dev},
}

// generates is a function of the OpenAI interface as one of the server.
func generates(f func(*openai.Service, *transport.Call)) func(*Server, *transport.Call) {
	return func(s *Server, c *transport.Call) { f(s.openai, c) }
}

// routed is a function for routers as one of the server.
func routed(f func(*routerapi.Handlers, *transport.Call)) func(*Server, *transport.Call) {
	return func(s *Server, c *transport.Call) { f(s.routers, c) }
}

func dev(f Functions) bool { return f.Dev }

func documented(f Functions) bool { return !f.NoDocs }

// metricsPath may be followed by anything (docs/interface/chat-completions.md,
// section 1.1).
const metricsPath = "/metrics"

// noRoute is what paths are called that lead nowhere.
const noRoute = "none"

// find returns the route of a path, and what all paths of that route are called.
func (s *Server) find(path string) (r route, name string, found bool) {
	if r, ok := routes[path]; ok && (r.when == nil || r.when(s.cfg.Functions)) {
		return r, path, true
	}
	if id, ok := strings.CutPrefix(path, openai.ModelPath); ok && id != "" {
		return route{methods: "GET", serve: generates((*openai.Service).OneModel)}, openai.ModelPath + "{id}", true
	}
	if strings.HasPrefix(path, ui.Prefix) && !s.cfg.Functions.NoUI {
		return route{methods: "GET", open: true, serve: func(_ *Server, c *transport.Call) { pageFile(c) }}, ui.Prefix, true
	}
	if name, methods, serve := s.responses.Find(path); serve != nil {
		return route{methods: methods, serve: func(_ *Server, c *transport.Call) { serve(c) }}, name, true
	}
	if s.batches != nil {
		if name, methods, serve := s.batches.Find(path); serve != nil {
			return route{methods: methods, maxBody: s.batches.MaxBody(path), serve: func(_ *Server, c *transport.Call) { serve(c) }}, name, true
		}
	}
	if s.bench != nil {
		if name, methods, serve := s.bench.Find(path); serve != nil {
			return route{methods: methods, private: true, serve: func(_ *Server, c *transport.Call) { serve(c) }}, name, true
		}
	}
	if strings.HasPrefix(path, metricsPath) {
		return routes[metricsPath], metricsPath, true
	}
	return route{}, noRoute, false
}

// router finds the functions of a server's routes.
type router struct{ s *Server }

func (r router) Find(path string) (transport.Route, bool) {
	s := r.s
	switch interfaceOf(path) {
	case failure.Feedback:
		switch {
		case strings.HasPrefix(path, feedbackapi.Prefix) && s.feedback != nil:
			return s.feedback.Find(path)
		case weaveapi.Owns(path) && s.weave != nil:
			return s.weave.Find(path)
		}
	case failure.Trajectories:
		if s.trajectories != nil {
			return s.trajectories.Find(path)
		}
	default:
		f, name, found := s.find(path)
		return transport.Route{Name: name, Methods: f.methods, Open: f.open, Private: f.private, Basic: f.basic, MaxBody: f.maxBody, Serve: func(c *transport.Call) { f.serve(s, c) }}, found
	}
	return transport.Route{}, false
}

func (router) Interface(path string) failure.Interface { return interfaceOf(path) }

// interfaceOf is the interface that a path belongs to.
func interfaceOf(path string) failure.Interface {
	if path == "/v1/messages" || strings.HasPrefix(path, "/v1/messages/") {
		return failure.Messages
	}
	if strings.HasPrefix(path, "/api/") {
		return failure.Ollama
	}
	if _, own := routes[path]; own { // Weave has all others below /v2/
		return failure.OpenAI
	}
	switch {
	case strings.HasPrefix(path, feedbackapi.Prefix), weaveapi.Owns(path):
		return failure.Feedback
	case strings.HasPrefix(path, "/v1/preview/"):
		return failure.Trajectories
	}
	return failure.OpenAI
}
