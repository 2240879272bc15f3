package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

const (
	chat        = "/v1/chat/completions"
	completions = "/v1/completions"
	query       = "/feedback/query"
)

// intruder is the loopback address of most attackers. The neighbours come from 127.0.0.1.
const intruder = "127.0.0.2"

// attacks are all kinds of misbehaviour, in the order in which they are made.
var attacks = slices.Concat(heavyAttacks, oddAttacks)

// heavyAttacks ask for much work or memory, or are broken or slow.
var heavyAttacks = []attack{
	{"answers", "155 bytes that ask for an answer of hundreds of megabytes", 4, posts(chat,
		`{"messages":[{"role":"user","content":"x"}],"max_tokens":4000,"n":128,"logprobs":true,"top_logprobs":20,"ignore_eos":true}`), false, "400"},
	{"pieces", "31 MB without a place to split, to be tokenized", 2, onePiece, false, "200"},
	{"unread", "60 clients that ask for long streams and never read", 60, unread, true, "left"},
	{"ambiguous", "a grammar whose texts can be read in very many ways", 4, ambiguous, false, "200"},
	{"schemas", "JSON schemas, each of them new", 4, newSchemas, false, "200"},
	{"sampling", "the longest legal lists of biases, stop strings and bad words", 8, longLists, false, "200"},
	{"in", "queries with thousands of values, whose clients leave", 16, inQueries, false, "200"},
	{"wide", "queries with as many fields and sorts as are legal, and with thousands", 4, wideQueries, false, "200"},
	{"backlog", "hundreds of the longest prompts at a time, under many project names", 400, backlog, false, ""},
	{"drip", "72 bodies of 31 MB that come a byte at a time", 72, drip, true, ""},
	{"headers", "500 connections whose headers never end", 500, endlessHeaders, true, ""},
	{"prompts", "prompts of 12 MB, whose clients leave", 3, leavingPrompts, false, "200"},
	{"leavers", "clients that ask and leave at once", 64, leavers, true, "left"},
	{"malformed", "requests that break the rules of HTTP or JSON", 16, malformed, true, "400"},
}

// posts returns an attack that sends one body again and again.
func posts(path, body string) func(*attacker) func(context.Context, int) {
	return func(at *attacker) func(context.Context, int) {
		c := from(intruder)
		return func(ctx context.Context, _ int) { at.post(ctx, c, path, body) }
	}
}

func onePiece(at *attacker) func(context.Context, int) {
	c := from(intruder)
	piece := strings.Repeat("a", 31_000_000)
	bodies := []string{`{"prompt":"` + piece + `"}`, `{"prompt":"` + piece + `","max_tokens":4,"truncate_prompt_tokens":16}`}
	return func(ctx context.Context, client int) {
		at.post(ctx, c, []string{"/tokenize", completions}[client%2], bodies[client%2])
	}
}

func unread(at *attacker) func(context.Context, int) {
	body := `{"messages":[{"role":"user","content":"x"}],"stream":true,"max_tokens":2000,"n":16,"logprobs":true,"top_logprobs":20,"ignore_eos":true}`
	return func(ctx context.Context, _ int) {
		c, ok := at.open(ctx, intruder)
		if !ok {
			return
		}
		defer func() { _ = c.Close() }() // nothing is lost
		if _, err := io.WriteString(c, request(chat, body)); err != nil {
			at.ended(ctx, 0, err)
			return
		}
		<-ctx.Done()
		at.count("left")
	}
}

func ambiguous(at *attacker) func(context.Context, int) {
	c := from(intruder)
	var g strings.Builder
	g.WriteString("root ::= ")
	for i := range 200 {
		if i > 0 {
			g.WriteString(" | ")
		}
		fmt.Fprintf(&g, "r%d", i)
	}
	for i := range 200 {
		fmt.Fprintf(&g, "\\nr%d ::= [a-z ]{0,%d} [a-z ]{0,300} \\\".\\\"", i, 300+i)
	}
	body := `{"messages":[{"role":"user","content":"x"}],"max_tokens":200,"structured_outputs":{"grammar":"` + g.String() + `"}}`
	return func(ctx context.Context, _ int) { at.post(ctx, c, chat, body) }
}

func newSchemas(at *attacker) func(context.Context, int) {
	c := from(intruder)
	var n atomic.Int64
	return func(ctx context.Context, _ int) {
		id := n.Add(1)
		var p strings.Builder
		for i := range 100 {
			fmt.Fprintf(&p, `%s"p%d_%d":{"type":"string","maxLength":%d}`, comma(i), id, i, 10+i)
		}
		at.post(ctx, c, chat, `{"messages":[{"role":"user","content":"x"}],"max_tokens":2,"structured_outputs":{"json":{"type":"object","properties":{`+p.String()+`}}}}`)
	}
}

// comma separates the elements of a list.
func comma(i int) string {
	if i == 0 {
		return ""
	}
	return ","
}

// list is n elements of a JSON list or object; format has a place for the number.
func list(n int, format string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(comma(i))
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

func longLists(at *attacker) func(context.Context, int) {
	const tokens = 3523 // that the bundled model knows
	biases, ids := list(tokens, `"%d":-1.5`), list(tokens, "%d")
	rest := `"messages":[{"role":"user","content":"x"}],"max_tokens":300,"n":8,"ignore_eos":true,"logprobs":true,"top_logprobs":20,
		"repetition_detection":{"max_pattern_size":2048,"min_pattern_size":1,"min_count":2048},"logit_bias":{` + biases + `}`
	return inTurn(at, [][2]string{
		{chat, `{` + rest + `,"stop":[` + list(256, `"`+strings.Repeat("ab", 30)+`%04d"`) + `],"bad_words":[` + list(4096, `"bad word %d"`) + `]}`},
		{chat, `{` + rest + `,"repetition_penalty":1.1,"presence_penalty":0.5,"frequency_penalty":0.5,"allowed_token_ids":[` + ids + `],"logprob_token_ids":[` + list(128, "%d") + `]}`},
	})
}

func inQueries(at *attacker) func(context.Context, int) {
	c := from(intruder)
	body := `{"project_id":"acme/support","query":{"$expr":{"$in":[{"$getField":"payload.note"},[` + list(9000, `{"$literal":"no such note %d"}`) + `]]}}}`
	return func(ctx context.Context, client int) {
		if client%2 == 0 {
			short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
			defer cancel()
			ctx = short
		}
		at.post(ctx, c, query, body)
	}
}

func wideQueries(at *attacker) func(context.Context, int) {
	wide := func(fields, sorts int) string {
		return `{"project_id":"acme/support","fields":[` + list(fields, `"payload.f%d"`) + `],"sort_by":[` + list(sorts, `{"field":"payload.f%d","direction":"asc"}`) + `]}`
	}
	return inTurn(at, [][2]string{{query, wide(200, 8)}, {query, wide(100_000, 0)}, {query, wide(1, 1000)}})
}

func backlog(at *attacker) func(context.Context, int) {
	c := from(intruder)
	return func(ctx context.Context, client int) {
		body := fmt.Sprintf(`{"prompt":"%d %s","max_tokens":100,"ignore_eos":true,"truncate_prompt_tokens":3900}`, client, strings.Repeat("many words ", 3000))
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+at.server+completions, strings.NewReader(body))
		if err != nil {
			return
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Compat-Project", fmt.Sprintf("attack/p%d", client))
		resp, err := c.Do(req)
		if err != nil {
			at.ended(ctx, 0, err)
			return
		}
		_, err = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close() // read to its end, or broken
		at.ended(ctx, resp.StatusCode, err)
	}
}

func drip(at *attacker) func(context.Context, int) {
	head := "POST " + chat + " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 31000000\r\n\r\n{\"messages\":\""
	return func(ctx context.Context, client int) {
		// Every client has an address of its own, to get past a share by address.
		c, ok := at.open(ctx, fmt.Sprintf("127.0.1.%d", client+1))
		if !ok {
			return
		}
		defer func() { _ = c.Close() }() // nothing is lost
		if _, err := io.WriteString(c, head+strings.Repeat("x", 1<<20)); err != nil {
			at.ended(ctx, 0, err)
			return
		}
		for {
			if !sleep(ctx, 100*time.Millisecond) {
				at.count("left")
				return
			}
			if _, err := io.WriteString(c, "x"); err != nil {
				_ = c.SetReadDeadline(time.Now().Add(time.Second))
				at.count(readStatus(c))
				return
			}
		}
	}
}

func endlessHeaders(at *attacker) func(context.Context, int) {
	return func(ctx context.Context, client int) {
		c, ok := at.open(ctx, intruder)
		if !ok {
			return
		}
		defer func() { _ = c.Close() }() // nothing is lost
		line := "GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\n"
		for i := 0; ; i++ {
			if _, err := io.WriteString(c, line); err != nil {
				_ = c.SetReadDeadline(time.Now().Add(time.Second))
				at.count(readStatus(c))
				return
			}
			if !sleep(ctx, 200*time.Millisecond) {
				at.count("left")
				return
			}
			line = fmt.Sprintf("X-Header-%d: %d\r\n", client, i)
		}
	}
}

func leavingPrompts(at *attacker) func(context.Context, int) {
	c := from(intruder)
	body := `{"truncate_prompt_tokens":16,"prompt":"` + strings.Repeat("many different words, ", 12_000_000/22) + `"}`
	return func(ctx context.Context, _ int) {
		short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		at.post(short, c, completions, body)
	}
}

func leavers(at *attacker) func(context.Context, int) {
	bytes := request(chat, `{"messages":[{"role":"user","content":"Tell me a story."}],"stream":true,"max_tokens":1000,"ignore_eos":true}`)
	return func(ctx context.Context, _ int) {
		c, ok := at.open(ctx, intruder)
		if !ok {
			return
		}
		_, _ = io.WriteString(c, bytes)
		_ = sleep(ctx, 20*time.Millisecond)
		_ = c.Close() // the attack
		at.count("left")
	}
}

// broken are requests that must not be answered as if they were right.
var broken = []string{
	"GET / HTTP/9.9\r\nHost: x\r\n\r\n",
	"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
	"GET  /  HTTP/1.1\r\n\r\n",
	"POST " + chat + " HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"POST " + chat + " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: identity\r\n\r\n",
	"POST " + chat + " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n",
	"POST " + chat + " HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
	"POST " + chat + " HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\nExpect: 100-continue\r\n\r\n",
	"GET /v1/models HTTP/1.1\r\nHost: x\r\nX-Long: " + strings.Repeat("a", 20<<10) + "\r\n\r\n",
	request(chat, strings.Repeat("[", 100_000)),
	request(chat, `{"messages":[{"role":"user","content":"\ud800"}]}`),
	request(chat, `{"messages":[{"role":"user","content":"x"}],"temperature":1e999}`),
	request(chat, `{"messages":`),
	request(query, `{"project_id":"acme/support","query":{"$expr":`+strings.Repeat(`{"$not":[`, 1000)+`1`+strings.Repeat(`]}`, 1000)+`}}`),
	request("/v1/preview/models/agent/log", `{"split":"train","trajectory_groups":[{"trajectories":[{}]}]}`),
}

func malformed(at *attacker) func(context.Context, int) {
	var n atomic.Int64
	return func(ctx context.Context, _ int) {
		at.raw(ctx, intruder, broken[int(n.Add(1))%len(broken)])
	}
}
