package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestChat: the same conversation with a model in this process and with a server.
func TestChat(t *testing.T) {
	t.Parallel()
	url, _ := startServe(t)
	input := "What is 12 + 30?\n\n\"\"\"\nGood\nmorning!\"\"\"\n/reset\n/system Answer in one word.\nWhat is the capital of Canada?\n/help\n/quit\nnever read\n"
	for _, args := range [][]string{{"chat", "--kv-cache-memory", "64MiB"}, {"chat", "--url", url + "/v1/", "--model", "weir-tiny"}} {
		var out, errOut bytes.Buffer
		if code := run(append(args, "--temperature", "0"), noEnv, strings.NewReader(input), &out, &errOut); code != 0 {
			t.Fatalf("%q: exit %d: %s", args, code, errOut.String())
		}
		for _, want := range []string{"12 + 30 = 42\n", "Ottawa\n", "/reset"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%q lacks %q:\n%s", args, want, out.String())
			}
		}
	}
	var out, errOut bytes.Buffer
	if code := run([]string{"chat", "--url", url, "--model", "other"}, noEnv, strings.NewReader("Hi\n"), &out, &errOut); code == 0 || !strings.Contains(errOut.String(), "does not exist") {
		t.Errorf("an unknown model: exit %d: %s", code, errOut.String())
	}
}

// TestChatRefusesModel: what a server would say of a model or a flag that it cannot serve with, a
// chat says, too, and ends.
func TestChatRefusesModel(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--max-model-len", "1M"}, {"--max-num-seqs", "0"}, {"--kv-cache-memory", "1KiB"}} {
		var out, errOut bytes.Buffer
		code := run(append([]string{"chat"}, args...), noEnv, strings.NewReader("Hi\n"), &out, &errOut)
		if code == 0 || strings.Count(errOut.String(), "\n") != 1 || !strings.Contains(errOut.String(), args[0]) {
			t.Errorf("%q: exit %d: %s", args, code, errOut.String())
		}
	}
}

// TestReadMessage: a message is a line, or several lines between triple quotation
// marks; at the end of the input, the closing marks may be missing.
func TestReadMessage(t *testing.T) {
	for input, want := range map[string]string{
		"one line\ntwo\n":              "one line",
		"\"\"\"one\"\"\"\n":            "one",
		"\"\"\"\none\n\ntwo\n\"\"\"\n": "one\n\ntwo",
		"\"\"\"one\ntwo":               "one\ntwo",
		"\"\"\"\"\"\"\n":               "",
		"\"\"\"":                       `"""`,
	} {
		if got, err := readMessage(plainReader(strings.NewReader(input))); err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", input, got, err, want)
		}
	}
}

// TestChatShowsReasoning: reasoning is printed apart from the answer, once even if the
// server sends it under two names, and is not sent back.
func TestChatShowsReasoning(t *testing.T) {
	t.Parallel()
	var sent []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		sent = append(sent, string(body))
		for _, delta := range []string{`"role":"assistant","content":""`, `"reasoning":"h","reasoning_content":"h"`, `"reasoning_content":"m"`, `"content":"Yes"`, `"content":"."`} {
			fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{%s}}]}\n\n", delta)
		}
		fmt.Fprint(w, "data: [DONE]\n\n")
	}))
	defer srv.Close()
	var out, errOut bytes.Buffer
	if code := run([]string{"chat", "--url", srv.URL}, noEnv, strings.NewReader("Really?\nSure?\n"), &out, &errOut); code != 0 || out.String() != strings.Repeat("<think>hm</think>Yes.\n", 2) {
		t.Errorf("exit %d: %q %s", code, out.String(), errOut.String())
	}
	if len(sent) != 2 || !strings.Contains(sent[1], `{"role":"assistant","content":"Yes."}`) {
		t.Errorf("sent %q", sent)
	}
	var dim bytes.Buffer
	p := printer{out: &dim, dim: true}
	p.printReasoning("hm")
	p.printContent("Yes")
	p.endReasoning()
	if dim.String() != "\x1b[2mhm\x1b[0mYes" {
		t.Errorf("on a terminal: %q", dim.String())
	}
}
