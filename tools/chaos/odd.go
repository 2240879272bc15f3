package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// oddAttacks are about the number and the shape of the parts of a request, about names, and about
// connections and bodies that are unusual without being broken.
var oddAttacks = []attack{
	{"parts", "chats of thousands of messages, content parts, tool calls and tools", 4, manyParts, false, "200"},
	{"ids", "lists of millions of token ids, as a prompt, to be told the text of, and as the only ones allowed", 3, manyIDs, false, "200"},
	{"scores", "the log-probabilities of every token of the longest prompts", 4, posts(completions,
		`{"prompt":"`+strings.Repeat("y ", 1900)+`","prompt_logprobs":20,"logprobs":20,"max_tokens":16,"n":8}`), false, "200"},
	{"numbers", "numbers of ten million digits, and hundreds of thousands of fields that are the same or unknown", 3, longNumbers, false, "400"},
	{"constraints", "structured outputs of every kind that is hard to compile", 4, hardConstraints, false, "200"},
	{"hostile", "200 schemas, regular expressions, grammars and tags: whatever grows at its largest, exponential, ambiguous, left-recursive", 16, hostile, false, "200"},
	{"names", "a new project, salt, request id, path, method and model with every request, and scrapes of the metrics", 16, newNames, false, "200"},
	{"trajectories", "trajectories of a hundred thousand turns, under new names, and lists of them that nobody reads", 3, longTrajectories, true, "200"},
	{"compressed", "compressed bodies that grow a thousandfold", 4, bombs, false, "413"},
	{"records", "batches of feedback as large as a body may be", 3, largeRecords, false, "200"},
	{"hoarders", "thousands of connections that say nothing", 40, hoarders, true, ""},
	{"sippers", "requests one after the other on connections that are read a few bytes at a time", 100, sippers, true, ""},
}

// chatOf is the body of a short chat with one more field.
func chatOf(field string) string {
	return `{"messages":[{"role":"user","content":"x"}],"max_tokens":20,` + field + `}`
}

// inTurn posts one of several bodies after the other.
func inTurn(at *attacker, bodies [][2]string) func(context.Context, int) {
	c := from(intruder)
	var n atomic.Int64
	return func(ctx context.Context, _ int) {
		b := bodies[int(n.Add(1))%len(bodies)]
		at.post(ctx, c, b[0], b[1])
	}
}

func manyParts(at *attacker) func(context.Context, int) {
	arguments := strings.Repeat("[", 90) + strings.Repeat("]", 90)
	return inTurn(at, [][2]string{
		{chat, `{"messages":[` + list(16_384, `{"role":"user","content":"x%d"}`) + `]}`},
		{chat, `{"messages":[{"role":"user","content":[` + list(65_536, `{"type":"text","text":"x%d"}`) + `]}]}`},
		{chat, `{"messages":[{"role":"assistant","tool_calls":[` + list(20_000, `{"id":"%d","type":"function","function":{"name":"f","arguments":"{\"a\":`+arguments+`}"}}`) + `]}]}`},
		{chat, chatOf(`"tools":[` + list(10_000, `{"type":"function","function":{"name":"f%d","parameters":{"type":"object","properties":{"p":{"type":"string"}}}}}`) + `]`)},
		{chat, chatOf(`"chat_template_kwargs":{` + list(200_000, `"k%d":[1,2,3]`) + `}`)},
	})
}

func manyIDs(at *attacker) func(context.Context, int) {
	ids := strings.Repeat("1,", 6_000_000) + "1"
	return inTurn(at, [][2]string{
		{completions, `{"truncate_prompt_tokens":16,"max_tokens":1,"prompt":[` + ids + `]}`},
		{"/detokenize", `{"tokens":[` + ids + `]}`},
		{chat, chatOf(`"n":8,"allowed_token_ids":[` + strings.Repeat("1,", 1_000_000) + `1]`)},
	})
}

func longNumbers(at *attacker) func(context.Context, int) {
	digits := strings.Repeat("9", 10_000_000)
	return inTurn(at, [][2]string{
		{chat, chatOf(`"seed":` + digits)},
		{chat, chatOf(`"temperature":0.` + digits)},
		{chat, chatOf(`"temperature":1e-` + strings.Repeat("0", 10_000_000))},
		{chat, chatOf(`"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":{"type":"number","maximum":` + digits + `}}}`)},
		{chat, chatOf(list(300_000, `"unknown%d":1`))},
		{chat, chatOf(strings.Repeat(`"temperature":1,`, 300_000) + `"n":1`)},
	})
}

func hardConstraints(at *attacker) func(context.Context, int) {
	schema := func(text string) string {
		return chatOf(`"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":` + text + `}}`)
	}
	output := func(kind, text string) string { return chatOf(`"structured_outputs":{"` + kind + `":` + text + `}`) }
	c := from(intruder)
	var n atomic.Int64
	makers := []func(id int64) string{ // each constraint is new, so that none is found in a cache
		func(id int64) string {
			return schema(`{"enum":[` + list(50_000, fmt.Sprintf(`"value %%d of %d"`, id)) + `]}`)
		},
		func(id int64) string {
			return schema(fmt.Sprintf(`{"$defs":{"n%d":{"properties":{"a":{"$ref":"#/$defs/n%[1]d"},"b":{"$ref":"#/$defs/n%[1]d"}}}},"$ref":"#/$defs/n%[1]d"}`, id))
		},
		func(id int64) string {
			return schema(fmt.Sprintf(`{"type":"string","pattern":"^(([a-z]{1,99}){1,99}){1,%d}$"}`, 50+id%50))
		},
		func(id int64) string { return schema(fmt.Sprintf(`{"type":"array","minItems":%d}`, 90_000+id)) },
		func(id int64) string {
			return schema(`{"anyOf":[` + list(900, fmt.Sprintf(`{"required":["r%%d"],"properties":{"x%d":{}}}`, id)) + `]}`)
		},
		func(id int64) string {
			return schema(strings.Repeat(`{"properties":{"a":`, 60) + fmt.Sprintf(`{"const":%d}`, id) + strings.Repeat(`}}`, 60))
		},
		func(id int64) string { return output("regex", fmt.Sprintf(`"(a{1,1000}b{1,1000}){1,%d}"`, 100+id)) },
		func(id int64) string { return output("regex", fmt.Sprintf(`"(a|b)*a(a|b){%d}"`, 18+id%80)) },
		func(id int64) string { return output("choice", `[`+list(60_000, fmt.Sprintf(`"c%%d-%d"`, id))+`]`) },
		func(id int64) string {
			return output("grammar", fmt.Sprintf(`"root ::= root root | \"a\" | \"b%d\""`, id))
		},
		func(id int64) string {
			return output("json", fmt.Sprintf(`{"type":"object"},"whitespace_pattern":"(a{1,%d})*"`, 1000+id))
		},
	}
	return func(ctx context.Context, _ int) {
		id := n.Add(1)
		at.post(ctx, c, chat, makers[int(id)%len(makers)](id))
	}
}

func newNames(at *attacker) func(context.Context, int) {
	c := from(intruder)
	var n atomic.Int64
	return func(ctx context.Context, client int) {
		id := n.Add(1)
		method, path, body := http.MethodPost, chat, chatOf(fmt.Sprintf(`"cache_salt":"salt %d"`, id))
		switch {
		case client == 0:
			method, path, body = http.MethodGet, "/metrics", ""
		case id%4 == 1:
			method = fmt.Sprintf("METHOD%d", id)
		case id%4 == 2:
			path = fmt.Sprintf("/path/%d", id)
		case id%4 == 3:
			body = chatOf(fmt.Sprintf(`"model":"model %d \u001b[31m\n%s"`, id, strings.Repeat("m", 100_000)))
		}
		req, err := http.NewRequestWithContext(ctx, method, "http://"+at.server+path, strings.NewReader(body))
		if err != nil {
			return
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Compat-Project", fmt.Sprintf("team%d/project%d", id%100, id))
		req.Header.Set("X-Request-Id", fmt.Sprintf("id %d msg=forged level=ERROR", id))
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

func longTrajectories(at *attacker) func(context.Context, int) {
	c := from(intruder)
	turns := list(100_000, `{"role":"user","content":"turn %d"}`)
	var n atomic.Int64
	return func(ctx context.Context, client int) {
		model := fmt.Sprintf("/v1/preview/models/model%d", n.Add(1)%100)
		if client == 0 { // asks for what there is, and reads the beginning
			conn, ok := at.open(ctx, intruder)
			if !ok {
				return
			}
			defer func() { _ = conn.Close() }() // nothing is lost
			_, _ = fmt.Fprintf(conn, "GET %s/export?format=jsonl HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", model)
			_ = conn.SetReadDeadline(time.Now().Add(time.Second))
			at.count(readStatus(conn))
			_ = sleep(ctx, 200*time.Millisecond)
			return
		}
		at.post(ctx, c, model+"/log", `{"split":"train","trajectory_groups":[{"trajectories":[{"reward":1,"metrics":{"m":1},"messages_and_choices":[`+turns+`]}]}]}`)
	}
}

func bombs(at *attacker) func(context.Context, int) {
	c := from(intruder)
	packed := compressed(`{"split":"train","trajectory_groups":[{"trajectories":[{"metadata":{"a":"` + strings.Repeat("a", 200<<20) + `"}}]}]}`)
	return func(ctx context.Context, client int) {
		path := []string{"/v1/preview/models/model/log", chat, query, "/feedback/batch/create"}[client%4]
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+at.server+path, strings.NewReader(packed))
		if err != nil {
			return
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Content-Encoding", "gzip")
		resp, err := c.Do(req)
		if err != nil {
			if !at.refusedEarly(err) {
				at.ended(ctx, 0, err)
			}
			return
		}
		_, err = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close() // read to its end, or broken
		at.ended(ctx, resp.StatusCode, err)
	}
}

// compressed returns a text as gzip has it.
func compressed(text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := io.WriteString(z, text)
	if err := errors.Join(err, z.Close()); err != nil {
		panic(err) // a buffer takes everything
	}
	return b.String()
}

func largeRecords(at *attacker) func(context.Context, int) {
	c := from(intruder)
	record := func(payload string) string {
		return `{"project_id":"acme/flood","weave_ref":"weave:///acme/flood/call/1","feedback_type":"note","payload":{"note":"` + payload + `"}}`
	}
	bodies := []string{
		`{"batch":[` + strings.TrimSuffix(strings.Repeat(record(strings.Repeat("n", 900_000))+",", 30), ",") + `]}`,
		`{"batch":[` + strings.TrimSuffix(strings.Repeat(record(strings.Repeat("n", 1_100_000))+",", 25), ",") + `]}`,
		`{"batch":[` + strings.TrimSuffix(strings.Repeat(record("n")+",", 10_001), ",") + `]}`,
	}
	return func(ctx context.Context, client int) {
		at.post(ctx, c, "/feedback/batch/create", bodies[client%len(bodies)])
	}
}

// hoard is the number of connections that a client opens.
const hoard = 50

func hoarders(at *attacker) func(context.Context, int) {
	return func(ctx context.Context, client int) {
		var conns []net.Conn
		defer func() {
			for _, c := range conns {
				_ = c.Close() // nothing is lost
			}
		}()
		for range hoard {
			c, ok := at.open(ctx, fmt.Sprintf("127.0.2.%d", client+1))
			if !ok {
				return
			}
			conns = append(conns, c)
		}
		<-ctx.Done()
		at.count("left")
	}
}

func sippers(at *attacker) func(context.Context, int) {
	requests := strings.Repeat("GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 100)
	return func(ctx context.Context, _ int) {
		c, ok := at.open(ctx, intruder)
		if !ok {
			return
		}
		defer func() { _ = c.Close() }() // nothing is lost
		if _, err := io.WriteString(c, requests); err != nil {
			at.ended(ctx, 0, err)
			return
		}
		for sleep(ctx, 20*time.Millisecond) {
			if _, err := io.CopyN(io.Discard, c, 64); err != nil {
				at.ended(ctx, 0, err)
				return
			}
		}
		at.count("left")
	}
}
