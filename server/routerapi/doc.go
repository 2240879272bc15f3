// Package routerapi is what routers and gateways in front of several servers ask a server for: its load, what it serves, where the changes of
// its prefix cache are published, and generations in SGLang's form, which some of them hand on.
//
//	h := routerapi.New(routerapi.Config{Service: chats, ...})
//	h.Loads(call) // GET /loads and /v1/loads
//
// The forms are those of SGLang (python/sglang/srt/entrypoints/http_server.py) and vLLM (vllm/entrypoints/serve/kv_events), as far as the
// routers read them: vllm-router 0.1.17 and smg 1.13.0 were run in front of a recorder, and LiteLLM 1.108.7 in front of weir. The first two read one object with types and
// refuse it for a member that they know under two names (block_size beside kv_block_size, model beside model_id), so that each fact has one
// name here.
//
// A generation of POST /generate is a chat completion underneath whose prompt is the text or the tokens as they are (openai.Plain), so that
// checks, limits, usage and recording are the same.
//
// load.go has the load, info.go what is served, generate.go the requests of /generate and answer.go their answers.
package routerapi
