package server_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"

	"weir/server/servertest"
	"weir/store"
)

// some logs batches of 3 groups of 2 and returns the ids of the trajectories in order.
func some(t *testing.T, h *testServer, batches int) (ids []string) {
	t.Helper()
	for b := range batches {
		var groups []string
		for g := range 3 {
			groups = append(groups, fmt.Sprintf(`{"trajectories":[{"reward":%d,"final_policy_version":%d},{"reward":%d,"metadata":{"g":"%d"}}]}`, b, b, g, g))
		}
		split := []string{"train", "val"}[b%2]
		r := h.log200(t, agentPath, fmt.Sprintf(`{"split":"%s","trajectory_groups":[%s]}`, split, strings.Join(groups, ",")))
		for g := range 3 {
			for i := range 2 {
				ids = append(ids, fmt.Sprintf("%s/%d/%d", r["id"], g, i))
			}
		}
	}
	return ids
}

// Pages of every size, in both directions, with and without filters, hold the
// whole list, once and in order.
func TestPages(t *testing.T) {
	h, _ := previewHouse(t, nil)
	ids := some(t, h, 5)
	odd := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !strings.HasSuffix(id, "/1/1") })
	for _, filter := range []struct {
		query string
		want  []string
	}{{"", ids}, {"&metadata.g=1", odd}, {"&split=none", nil}} {
		for _, order := range []string{"asc", "desc"} {
			want := slices.Clone(filter.want)
			if order == "desc" {
				slices.Reverse(want)
			}
			for _, limit := range []int{1, 2, 5, 6, 7, 29, 30, 31, 1000} {
				var got []string
				for after, more := "", true; more; {
					path := fmt.Sprintf("%s/trajectories?limit=%d&order=%s%s", agentPath, limit, order, filter.query)
					if after != "" {
						path += "&after=" + url.QueryEscape(after)
					}
					entries, whole := h.list(t, path)
					for _, e := range entries {
						got = append(got, e["id"].(string))
					}
					more = whole["has_more"].(bool)
					if len(entries) == 0 {
						if whole["first_id"] != nil || whole["last_id"] != nil || more {
							t.Errorf("%v", whole)
						}
						break
					}
					if len(entries) > limit || whole["object"] != "list" || whole["first_id"] != entries[0]["id"] || whole["last_id"] != entries[len(entries)-1]["id"] {
						t.Fatalf("%v", whole)
					}
					after = whole["last_id"].(string)
				}
				if !slices.Equal(got, want) {
					t.Fatalf("%s, %s, limit %d: %q, want %q", filter.query, order, limit, got, want)
				}
			}
		}
	}
	// The default: the newest 20.
	entries, whole := h.list(t, agentPath+"/trajectories")
	if len(entries) != 20 || entries[0]["id"] != ids[29] || whole["has_more"] != true {
		t.Errorf("%d entries", len(entries))
	}
	// A cursor of a batch that is gone still says where to go on.
	log, _, _ := strings.Cut(ids[14], "/")
	if status, answer, _ := h.Get("DELETE", agentPath+"/logs/"+log, ""); status != 200 {
		t.Errorf("%d %s", status, answer)
	}
	if entries, _ := h.list(t, agentPath+"/trajectories?order=asc&after="+url.QueryEscape(ids[14])); len(entries) != 12 || entries[0]["id"] != ids[18] {
		t.Errorf("%v", entries)
	}
}

// Queries that are refused (section 11).
func TestBadQueries(t *testing.T) {
	h, _ := previewHouse(t, nil)
	some(t, h, 1)
	for _, c := range []struct{ path, name, code string }{
		{"/trajectories?limit=0", "limit", "greater_than_equal"}, {"/trajectories?limit=1001", "limit", "less_than_equal"}, {"/trajectories?limit=x", "limit", "int_parsing"},
		{"/trajectories?order=up", "order", "enum"}, {"/trajectories?after=x", "after", "value_error"}, {"/trajectories?after=" + strings.Repeat("0", 36) + "/0/0", "after", "value_error"},
		{"/trajectories?include=all", "include", "enum"}, {"/trajectories?min_reward=x", "min_reward", "float_parsing"}, {"/trajectories?max_reward=nan", "max_reward", "float_parsing"},
		{"/trajectories?min_policy_version=1.5", "min_policy_version", "int_parsing"}, {"/trajectories?step=", "step", "int_parsing"}, {"/trajectories?after_time=now", "after_time", "datetime_parsing"},
		{"/trajectories?before_time=", "before_time", "datetime_parsing"}, {"/trajectories?time_field=x", "time_field", "enum"}, {"/trajectories?log_id=x", "log_id", "uuid_parsing"},
		{"/trajectories?has_tools=maybe", "has_tools", "bool_parsing"}, {"/trajectories?metric.a.min=x", "metric.a.min", "float_parsing"}, {"/trajectories?metric.a=1", "metric.a", "extra_forbidden"},
		{"/trajectories?splt=train", "splt", "extra_forbidden"}, {"/trajectories?format=jsonl", "format", "extra_forbidden"}, {"/export?limit=3", "limit", "extra_forbidden"},
		{"/export?format=csv", "format", "enum"}, {"/export?logprobs=x", "logprobs", "bool_parsing"}, {"/metrics?group_by=week", "group_by", "enum"}, {"/logs?after=x", "after", "value_error"},
	} {
		status, answer, _ := h.Get("GET", agentPath+c.path, "")
		want := fmt.Sprintf(`{"loc":["query",%q],`, c.name)
		if status != 422 || !strings.Contains(answer, want) || !strings.Contains(answer, `"type":"`+c.code+`"`) {
			t.Errorf("%s: %d %s", c.path, status, answer)
		}
	}
	if status, answer, _ := h.Get("GET", "/v1/preview/models?split=x", ""); status != 422 {
		t.Errorf("%d %s", status, answer)
	}
	if status, answer, _ := h.Get("GET", "/v1/preview/models?after=x", ""); status != 422 {
		t.Errorf("%d %s", status, answer)
	}
	// A misspelt filter deletes nothing.
	if status, answer, _ := h.Get("DELETE", agentPath+"/trajectories?confirm=m&splt=train", ""); status != 422 {
		t.Errorf("%d %s", status, answer)
	}
	if entries, _ := h.list(t, agentPath+"/trajectories"); len(entries) != 6 {
		t.Errorf("%d entries", len(entries))
	}
}

// Every filter of section 11, through the query.
func TestQueryFilters(t *testing.T) {
	h, _ := previewHouse(t, nil)
	first := h.log200(t, agentPath, `{"split":"train","step":3,"trajectory_groups":[{"trajectories":[
		{"reward":0.5,"metrics":{"turns":2,"won":true},"metadata":{"scenario":"a b","n":1.0},"tools":[{}],"initial_policy_version":7,"start_time":"2026-01-02T03:04:05Z"},
		{"reward":2,"messages_and_choices":[{"role":"user","content":"needle"},{"finish_reason":"length","message":{}}],"final_policy_version":9}]}]}`)
	second := h.log200(t, agentPath, `{"split":"a/b","trajectory_groups":[{"trajectories":[{"final_policy_version":3}]}]}`)
	received := second["received_at"].(string)
	for query, want := range map[string]int{
		"": 3, "split=train": 2, "split=train&split=a/b": 3, "split=Train": 0, "step=3": 3, "step=9": 0, "min_policy_version=8": 1, "max_policy_version=7": 2,
		"min_reward=0.5": 2, "max_reward=0": 1, "min_reward=0.6&max_reward=3": 1, "log_id=" + first["id"].(string): 2, "metadata.scenario=a%20b": 1, "metadata.n=1.0": 1, "metadata.n=1": 0,
		"metric.turns.min=2": 1, "metric.turns.max=1": 0, "metric.won.min=1&metric.turns.max=2": 1, "finish_reason=length": 1, "finish_reason=length&finish_reason=stop": 1, "has_tools=true": 1, "has_tools=0": 2,
		"q=needle": 1, "q=thread": 0, "after_time=2020-01-01": 3, "before_time=2020-01-01": 0, "after_time=" + received: 1, "before_time=" + received: 2,
		"time_field=start_time&before_time=2026-02-01": 1, "time_field=start_time&after_time=2026-02-01": 2, "time_field=received_at&before_time=2026-02-01": 0,
	} {
		entries, _ := h.list(t, agentPath+"/trajectories?"+query)
		if len(entries) != want {
			t.Errorf("%s: %d entries, want %d", query, len(entries), want)
		}
		_, lines, _ := h.Get("GET", agentPath+"/export?"+query, "")
		if n := strings.Count(lines, "\n"); n != want {
			t.Errorf("export %s: %d lines, want %d", query, n, want)
		}
		if status, answer, _ := h.Get("DELETE", agentPath+"/trajectories?dry_run=1&"+query, ""); status != 200 || object(t, answer)["trajectories"] != float64(want) {
			t.Errorf("dry run of %s: %d %s, want %d", query, status, answer, want)
		}
	}
}

// What a list says of a trajectory (include=).
func TestListEntries(t *testing.T) {
	h, _ := previewHouse(t, nil)
	h.log200(t, agentPath, exampleBody(t))
	entries, _ := h.list(t, agentPath+"/trajectories")
	e := entries[0]
	for name, want := range map[string]string{
		"messages":          `[{"role":"system","content":"You play 2048.","trainable":false},{"role":"user","content":"board: ...","trainable":false},{"role":"assistant","content":"up","refusal":null,"annotations":null,"audio":null,"function_call":null,"tool_calls":null,"trainable":true,"finish_reason":"stop"}]`,
		"metrics":           `{"duration":8.41,"max_tile":512,"invalid_move":false}`,
		"metadata":          `{"scenario_id":"seed-881","attempt":3,"note":null}`,
		"finish_reasons":    `["stop"]`,
		"has_tools":         `false`,
		"step":              `12`,
		"trajectory":        `null`,
		"object":            `"trajectory"`,
		"group_index":       `0`,
		"model_id":          `"m"`,
		"reward":            `0.75`,
		"received_at":       `"` + e["received_at"].(string) + `"`,
		"completion_tokens": `2`,
	} {
		var w any
		if err := json.Unmarshal([]byte(want), &w); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(e[name], w) {
			t.Errorf("%s: %v, want %v", name, e[name], w)
		}
	}
	entries, _ = h.list(t, agentPath+"/trajectories?include=logprobs")
	if m := entries[0]["messages"].([]any)[2].(map[string]any); m["logprobs"] == nil {
		t.Errorf("%v", m)
	}
	entries, _ = h.list(t, agentPath+"/trajectories?include=raw,messages")
	if entries[0]["messages"] == nil || entries[0]["trajectory"] == nil {
		t.Errorf("%v", entries[0])
	}
	h.log200(t, agentPath, one(`{"exchanges":{"chat_completions":[{}]}}`, `{"messages_and_choices":[{}]}`))
	entries, _ = h.list(t, agentPath+"/trajectories?limit=2&order=desc")
	if entries[1]["messages"] != nil || !reflect.DeepEqual(entries[0]["messages"], []any{map[string]any{"trainable": false}}) {
		t.Errorf("%v", entries)
	}
}

// The vector of section 10 (checklist 24), for each split, log, version and time.
func TestMetricsRoute(t *testing.T) {
	h, _ := previewHouse(t, nil)
	r := h.log200(t, agentPath, `{"split":"train","trajectory_groups":[
		{"trajectories":[{"reward":0,"final_policy_version":1,"metrics":{"turns":2}},{"reward":1,"final_policy_version":2}],"metrics":{"judge":0.5}},
		{"trajectories":[{"reward":1,"final_policy_version":2},{"reward":1},{"reward":1}],"exceptions":[{}]}]}`)
	h.log200(t, agentPath, `{"split":"val","trajectory_groups":[{"exceptions":[{},{}]}]}`)
	entries, _ := h.metrics(t, "")
	if len(entries) != 2 || entries[0]["split"] != "train" || entries[0]["key"] != nil {
		t.Fatalf("%v", entries)
	}
	want := map[string]any{"train/reward": 0.8, "train/reward_std_dev": 0.25, "train/exception_rate": 1.0 / 6, "train/turns": 2.0, "train/group/judge": 0.5}
	if !reflect.DeepEqual(entries[0]["metrics"], want) || entries[0]["zero_spread_groups"] != 0.5 || entries[0]["groups"] != 2.0 || entries[0]["trajectories"] != 5.0 || entries[0]["exceptions"] != 1.0 {
		t.Errorf("%v", entries[0])
	}
	if !reflect.DeepEqual(entries[0]["reward"], map[string]any{"min": 0.0, "p10": 0.4, "p50": 1.0, "p90": 1.0, "max": 1.0}) {
		t.Errorf("%v", entries[0]["reward"])
	}
	if !reflect.DeepEqual(entries[1]["metrics"], map[string]any{"val/exception_rate": 1.0}) || entries[1]["reward"] != nil {
		t.Errorf("%v", entries[1])
	}
	logs, _ := h.list(t, agentPath+"/logs?order=asc")
	if !reflect.DeepEqual(logs[0]["metrics"], want) || logs[0]["id"] != r["id"] || logs[0]["bytes"] != r["bytes"] {
		t.Errorf("%v", logs[0])
	}
	if entries, _ = h.metrics(t, "?group_by=log"); len(entries) != 2 || entries[0]["key"] != r["id"] {
		t.Errorf("%v", entries)
	}
	if entries, _ = h.metrics(t, "?group_by=day&split=train"); len(entries) != 1 || len(entries[0]["key"].(string)) != len(time.DateOnly) {
		t.Errorf("%v", entries)
	}
	if entries, _ = h.metrics(t, "?group_by=hour&split=train"); len(entries) != 1 || !strings.HasSuffix(entries[0]["key"].(string), ":00:00Z") {
		t.Errorf("%v", entries)
	}
	entries, _ = h.metrics(t, "?group_by=policy_version&split=train")
	if len(entries) != 3 || entries[0]["key"] != nil || entries[1]["key"] != 1.0 || entries[2]["key"] != 2.0 || entries[2]["trajectories"] != 2.0 || entries[2]["exceptions"] != 1.0 || entries[0]["exceptions"] != 0.0 {
		t.Errorf("%v", entries)
	}
	if entries, _ = h.metrics(t, "?min_reward=1"); len(entries) != 1 || entries[0]["trajectories"] != 4.0 {
		t.Errorf("%v", entries)
	}
	// Metrics of any name and value are JSON.
	h.log200(t, agentPath, fmt.Sprintf(`{"split":"a\"b","trajectory_groups":[{"trajectories":[{"metrics":{"\u0007\"":1e308}},{"metrics":{"\u0007\"":%g}}]}]}`, math.MaxFloat64))
	h.metrics(t, "")
}

func (h *testServer) metrics(t *testing.T, query string) ([]map[string]any, map[string]any) {
	t.Helper()
	return h.list(t, agentPath+"/metrics"+query)
}

// Logs and models as lists.
func TestLists(t *testing.T) {
	h, _ := previewHouse(t, nil)
	ids := some(t, h, 3)
	for _, name := range []string{"a", "z%2Fz"} {
		h.log200(t, "/v1/preview/models/"+name, `{"split":"s","trajectory_groups":[{"exceptions":[{}]}]}`)
	}
	entries, whole := h.list(t, "/v1/preview/models?order=asc&limit=2")
	if len(entries) != 2 || entries[0]["id"] != "a" || entries[1]["id"] != "m" || whole["has_more"] != true || whole["last_id"] != "m" {
		t.Errorf("%v", whole)
	}
	m := entries[1]
	if m["logs"] != 3.0 || m["trajectories"] != 18.0 || m["groups"] != 9.0 || m["min_policy_version"] != 0.0 || m["max_policy_version"] != 2.0 || !reflect.DeepEqual(m["splits"], []any{"train", "val"}) ||
		m["first_received_at"].(string) >= m["last_received_at"].(string) || entries[0]["min_policy_version"] != nil {
		t.Errorf("%v", m)
	}
	if entries, _ := h.list(t, "/v1/preview/models?order=asc&after=m"); len(entries) != 1 || entries[0]["id"] != "z/z" {
		t.Errorf("%v", entries)
	}
	if entries, _ := h.list(t, "/v1/preview/models"); len(entries) != 3 || entries[0]["id"] != "z/z" {
		t.Errorf("%v", entries)
	}
	var logs []string
	for _, id := range ids {
		if log, _, _ := strings.Cut(id, "/"); !slices.Contains(logs, log) {
			logs = append(logs, log)
		}
	}
	entries, whole = h.list(t, agentPath+"/logs?limit=2")
	if len(entries) != 2 || entries[0]["id"] != logs[2] || whole["has_more"] != true {
		t.Errorf("%v", whole)
	}
	if entries, whole = h.list(t, agentPath+"/logs?limit=2&after="+logs[1]); len(entries) != 1 || entries[0]["id"] != logs[0] || whole["has_more"] != false {
		t.Errorf("%v", whole)
	}
	if entries, _ = h.list(t, agentPath+"/logs?split=val"); len(entries) != 1 || entries[0]["id"] != logs[1] {
		t.Errorf("%v", entries)
	}
}

// Every form over HTTP, plain and compressed, small and streamed.
func TestExports(t *testing.T) {
	h, _ := previewHouse(t, nil)
	h.log200(t, agentPath, exampleBody(t))
	for range 3 { // more than is held back
		h.log200(t, agentPath, one(`{"logs":["`+strings.Repeat("x", 256<<10)+`"]}`, `{}`))
	}
	for form, contentType := range map[string]string{
		"": "application/jsonl", "jsonl": "application/jsonl", "jsonl-groups": "application/jsonl", "parquet": "application/vnd.apache.parquet", "art": "application/x-tar",
		"verl": "application/jsonl", "trl": "application/jsonl", "verifiers": "application/jsonl", "sft": "application/jsonl",
	} {
		path := agentPath + "/export"
		if form != "" {
			path += "?format=" + form
		}
		status, plain, header := h.Get("GET", path, "")
		if status != 200 || header.Get("Content-Type") != contentType || !strings.HasPrefix(header.Get("Content-Disposition"), `attachment; filename="m.`) || header.Get("Content-Encoding") != "" || header.Get("Vary") != "Accept-Encoding" {
			t.Fatalf("%s: %d %v %.200s", form, status, header, plain)
		}
		lines := strings.Count(plain, "\n")
		switch form {
		case "parquet":
			f, err := parquet.OpenFile(strings.NewReader(plain), int64(len(plain)))
			if err != nil || f.NumRows() != 7 {
				t.Errorf("%v", err)
			}
		case "art":
			tr := tar.NewReader(strings.NewReader(plain))
			hd, err := tr.Next()
			if err != nil || hd.Name != "models/m/trajectories/train/0012.parquet" {
				t.Errorf("%+v %v", hd, err)
			}
		case "jsonl-groups":
			if lines != 4 {
				t.Errorf("%s: %d lines", form, lines)
			}
		default:
			if lines != 7 {
				t.Errorf("%s: %d lines", form, lines)
			}
		}
		for _, encoding := range []string{"gzip", "zstd", "br", "gzip;q=0", "gzip, zstd;q=0.0"} {
			_, packed, header := h.Get("GET", path, "", "Accept-Encoding: "+encoding)
			var got []byte
			var err error
			switch e := header.Get("Content-Encoding"); e {
			case "gzip":
				z, bad := gzip.NewReader(strings.NewReader(packed))
				if bad != nil {
					t.Fatal(bad)
				}
				got, err = io.ReadAll(z)
			case "zstd":
				z, bad := zstd.NewReader(strings.NewReader(packed))
				if bad != nil {
					t.Fatal(bad)
				}
				got, err = io.ReadAll(z)
				z.Close()
			case "":
				got = []byte(packed)
			default:
				t.Errorf("Content-Encoding %q", e)
			}
			if want := strings.Contains(encoding, "gzip") && !strings.HasPrefix(encoding, "gzip;") || encoding == "zstd"; want != (header.Get("Content-Encoding") != "") {
				t.Errorf("%s: Content-Encoding %q", encoding, header.Get("Content-Encoding"))
			}
			if err != nil || form != "art" && form != "parquet" && !bytes.Equal(got, []byte(plain)) {
				t.Errorf("%s, %s: %d bytes, want %d; %v", form, encoding, len(got), len(plain), err)
			}
		}
	}
	if _, text, _ := h.Get("GET", agentPath+"/export?logprobs=0", ""); strings.Contains(text, `"logprobs"`) {
		t.Error("logprobs are there")
	}
	if status, _, header := h.Get("GET", "/v1/preview/models/unknown/export", "", "Accept-Encoding: gzip"); status != 404 || header.Get("Content-Encoding") != "" || header.Get("Content-Disposition") != "" {
		t.Errorf("%d %v", status, header)
	}
}

// An export that meets damage behind its beginning ends with its connection, and
// one that meets it at once with a status (section 11). Lists go on.
func TestExportOfDamage(t *testing.T) {
	h, l := previewHouse(t, func(s *servertest.Setup) { s.TCP = true })
	noise := make([]byte, 2*256<<10)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	h.log200(t, agentPath, one(`{"logs":["`+hex.EncodeToString(noise)+`"]}`))
	h.log200(t, agentPath, one(`{"reward":1}`))
	h.log200(t, "/v1/preview/models/n", one(`{"reward":1}`))
	// The texts of everything but the first batch.
	var keys [][]byte
	large := map[string]bool{}
	if err := l.db.View(func(r *store.Reader) error {
		return r.Scan(store.Range{Prefix: []byte{'D'}}, func(k, v []byte) bool {
			large[string(k[1:17])] = large[string(k[1:17])] || len(v) > 1000
			keys = append(keys, bytes.Clone(k))
			return true
		})
	}); err != nil {
		t.Fatal(err)
	}
	if err := l.db.Update(t.Context(), func(tx *store.Tx) error {
		for _, k := range keys {
			if k[17] == 0 && !large[string(k[1:17])] {
				tx.Set(k, []byte("nonsense"))
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if status, answer, _ := h.Get("GET", "/v1/preview/models/n/export", ""); status != 500 || answer != `{"detail":"What is stored is damaged"}` {
		t.Errorf("%d %s", status, answer)
	}
	for _, encoding := range []string{"identity", "gzip"} {
		resp := h.Do("GET", agentPath+"/export", "", "Accept-Encoding: "+encoding)
		data, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != 200 || err == nil || len(data) < 256<<10 {
			t.Errorf("%s: %d, %d bytes, %v: a part looks like the whole", encoding, resp.StatusCode, len(data), err)
		}
	}
	entries, _ := h.list(t, "/v1/preview/models/n/trajectories")
	if len(entries) != 1 || entries[0]["error"] == nil || entries[0]["reward"] != 1.0 {
		t.Errorf("%v", entries)
	}
	if entries, _ := h.list(t, agentPath+"/logs"); len(entries) != 2 {
		t.Errorf("%v", entries)
	}
	h.Log.Reset() // errors were asked for
}

// Deleting (checklist 30).
func TestDeleteRoutes(t *testing.T) {
	h, l := previewHouse(t, nil)
	ids := some(t, h, 3)
	log, _, _ := strings.Cut(ids[0], "/")
	status, answer, _ := h.Get("DELETE", agentPath+"/logs/"+log, "")
	if m := object(t, answer); status != 200 || m["id"] != log || m["deleted"] != true || m["trajectories"] != 6.0 {
		t.Errorf("%d %s", status, answer)
	}
	for _, path := range []string{"/logs/" + log, "/logs/x"} {
		if status, answer, _ := h.Get("DELETE", agentPath+path, ""); status != 404 {
			t.Errorf("%d %s", status, answer)
		}
	}
	for query, want := range map[string]string{"": "missing", "?confirm=M": "value_error"} {
		if status, answer, _ := h.Get("DELETE", agentPath+"/trajectories"+query, ""); status != 422 || !strings.Contains(answer, `["query","confirm"]`) || !strings.Contains(answer, want) {
			t.Errorf("%d %s", status, answer)
		}
	}
	status, answer, _ = h.Get("DELETE", agentPath+"/trajectories?confirm=m&metadata.g=1", "")
	if status != 200 || answer != `{"object":"trajectories.deleted","trajectories":2,"dry_run":false}` {
		t.Errorf("%d %s", status, answer)
	}
	entries, _ := h.list(t, agentPath+"/trajectories?order=asc")
	if len(entries) != 10 || entries[0]["id"] != ids[6] || entries[3]["id"] != ids[10] {
		t.Errorf("%d entries", len(entries))
	}
	status, answer, _ = h.Get("DELETE", agentPath, "")
	if m := object(t, answer); status != 200 || m["id"] != "m" || m["deleted"] != true || m["trajectories"] != 10.0 {
		t.Errorf("%d %s", status, answer)
	}
	for _, path := range []string{"/trajectories", "/export", "/logs", "/metrics"} {
		if status, answer, _ := h.Get("GET", agentPath+path, ""); status != 404 || answer != `{"detail":"Not found"}` {
			t.Errorf("%s: %d %s", path, status, answer)
		}
	}
	servertest.WaitFor(t, "the blocks to go", func() bool { return l.keys(t, 'D') == 0 && l.keys(t, 'U') == 0 })
}
