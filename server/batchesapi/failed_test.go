package batchesapi_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestB6Failed: a batch with a wrong line computes nothing and says what is wrong.
func TestB6Failed(t *testing.T) {
	h := newServer(t, nil, nil)
	content := line("a", "") + "\nnonsense\n" + line("a", "") + strings.Replace(line("b", ""), chat, "/v1/completions", 1)
	b := until(t, h, begin(t, h, content)["id"], "failed")
	var got []string
	for _, e := range b["errors"].(object)["data"].([]any) {
		e := e.(object)
		got = append(got, fmt.Sprint(e["line"], " ", e["code"]))
	}
	if want := "[3 invalid_json_line 4 duplicate_custom_id 5 mismatched_endpoint]"; fmt.Sprint(got) != want || b["failed_at"] == nil || b["output_file_id"] != nil || b["error_file_id"] != nil {
		t.Errorf("%v: %v, want %s", b, got, want)
	}
	b = until(t, h, begin(t, h, "\n \n")["id"], "failed")
	if e := b["errors"].(object)["data"].([]any)[0].(object); e["code"] != "empty_file" {
		t.Errorf("%v", e)
	}
	b = until(t, h, begin(t, h, strings.Repeat("{}\n", 50_001))["id"], "failed")
	if n := len(b["errors"].(object)["data"].([]any)); n != 100 {
		t.Errorf("%d errors", n)
	}
}

// TestB6Lines: a file with one request too many fails as a whole, though every line of it is right.
func TestB6Lines(t *testing.T) {
	h := newServer(t, nil, nil)
	var content strings.Builder
	for i := range 50_001 {
		content.WriteString(line(fmt.Sprint("r", i), ""))
	}
	b := until(t, h, begin(t, h, content.String())["id"], "failed")
	errs := b["errors"].(object)["data"].([]any)
	if e := errs[0].(object); len(errs) != 1 || e["code"] != "too_many_requests" || e["line"] != 50_001.0 || fmt.Sprint(b["request_counts"]) != "map[completed:0 failed:0 total:50001]" {
		t.Errorf("%v", b)
	}
}
