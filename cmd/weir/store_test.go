package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// leave sends feedback to a server, as a client without keys.
func leave(t *testing.T, url, project, note string) {
	t.Helper()
	send(t, url+"/feedback/replace", `{"project_id":"`+project+`","trace_ref":"weave:///`+project+`/call/1","feedback_type":"wandb.note.1","payload":{"note":"`+note+`"},"feedback_id":"x"}`)
}

// send posts a body until it is taken.
func send(t *testing.T, url, body string) {
	t.Helper()
	// The store may still be opening.
	for {
		resp, err := http.Post(url, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		switch {
		case err != nil:
			t.Fatal(err)
		case resp.StatusCode == 200:
			return
		case resp.StatusCode != 503:
			t.Fatalf("%d %s", resp.StatusCode, text)
		}
	}
}

// The records outlive the process; weir store works beside a server and without one.
func TestStore(t *testing.T) {
	tool := storeTool
	for _, name := range []string{"data", strings.Repeat("long", 40)} { // a unix address holds about a hundred bytes
		dir := filepath.Join(t.TempDir(), name)
		url, stop := startServe(t, "--data-dir", dir, "--min-free-disk", "0")
		leave(t, url, "acme/support", "first")
		leave(t, url, "acme/other", "second")
		leave(t, url, "acme/support", "third")
		send(t, url+"/v1/preview/models/agent/log", `{"split":"train","trajectory_groups":[{"trajectories":[{"reward":1.0}]}]}`)
		file := filepath.Join(t.TempDir(), "backup")
		check := func(when string) {
			t.Helper()
			if code, out, errOut := tool("verify", "--data-dir", dir); code != 0 || !strings.Contains(out, ", 0 faults") {
				t.Errorf("%s: verify: %d %s %s", when, code, out, errOut)
			}
			code, out, errOut := tool("export", "--data-dir", dir, "--project", "acme/support")
			if code != 0 || strings.Count(out, "\n") != 2 || !strings.Contains(out, "first") || strings.Contains(out, "second") {
				t.Errorf("%s: export: %d %s %s", when, code, out, errOut)
			}
			code, out, errOut = tool("export", "--data-dir", dir, "--model", "agent", "--split", "train")
			if code != 0 || strings.Count(out, "\n") != 1 || !strings.Contains(out, `"trajectory":{"reward":1.0}`) {
				t.Errorf("%s: export of trajectories: %d %s %s", when, code, out, errOut)
			}
			if code, out, _ := tool("export", "--data-dir", dir, "--model", "agent", "--format", "parquet"); code != 0 || !strings.HasPrefix(out, "PAR1") || !strings.HasSuffix(out, "PAR1") {
				t.Errorf("%s: Parquet: %d, %d bytes", when, code, len(out))
			}
			for _, bad := range [][]string{{"--model", "none"}, {"--model", "agent", "--tenant", "none"}, {"--model", "agent", "--min-policy-version", "x"}, {"--model", "agent", "--format", "x"}} {
				if code, out, errOut := tool(append([]string{"export", "--data-dir", dir}, bad...)...); code == 0 || out != "" || errOut == "" {
					t.Errorf("%s: %v: %d %s %s", when, bad, code, out, errOut)
				}
			}
		}
		check("beside a server")
		if code, _, errOut := tool("backup", "--data-dir", dir, file); code != 0 {
			t.Errorf("backup: %d %s", code, errOut)
		}
		if code, _, _ := tool("backup", "--data-dir", dir, file); code == 0 {
			t.Error("a backup is overwritten")
		}
		if code, _, errOut := tool("restore", "--data-dir", dir, file); code != 1 || !strings.Contains(errOut, "stop the server first") {
			t.Errorf("restore beside a server: %d %s", code, errOut)
		}
		stop()
		check("without a server")
		if code, _, errOut := tool("restore", "--data-dir", dir, file); code != 1 || !strings.Contains(errOut, "not empty") {
			t.Errorf("restore over records: %d %s", code, errOut)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if code, _, errOut := tool("restore", "--data-dir", dir, file); code != 0 {
			t.Errorf("restore: %d %s", code, errOut)
		}
		check("restored")
		url, stop = startServe(t, "--data-dir", dir, "--min-free-disk", "0")
		leave(t, url, "acme/new", "fourth")
		send(t, url+"/v1/preview/models/agent/log", `{"split":"train","trajectory_groups":[{"trajectories":[{"reward":2.0}]}]}`)
		resp, err := http.Get(url + "/v1/preview/models/agent/export?format=jsonl-groups")
		if err != nil {
			t.Fatal(err)
		}
		lines, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || strings.Count(string(lines), "\n") != 2 || !strings.Contains(string(lines), `"reward":1.0`) {
			t.Errorf("trajectories: %s %v", lines, err)
		}
		stop()
		if _, out, _ := tool("export", "--data-dir", dir); strings.Count(out, "\n") != 4 {
			t.Errorf("all records: %s", out)
		}
	}
	for _, args := range [][]string{{}, {"what"}, {"backup"}, {"verify", "x"}, {"verify"}} { // no data directory without a home
		if code, _, _ := tool(args...); code != 2 {
			t.Errorf("store %q: %d", args, code)
		}
	}
	if code, _, errOut := tool("verify", "--data-dir", t.TempDir()); code != 1 || !strings.Contains(errOut, "no database") {
		t.Errorf("nothing there: %d %s", code, errOut)
	}
	if code, _, _ := tool("--help"); code != 0 {
		t.Errorf("help: %d", code)
	}
}

// With trajectories alone, weir store talks to the server as well; what is too old
// is deleted when the server starts.
func TestStoreTrajectories(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	url, stop := startServe(t, "--data-dir", dir, "--min-free-disk", "0")
	send(t, url+"/v1/preview/models/agent/log", `{"split":"train","trajectory_groups":[{"trajectories":[{"reward":1.0}]}]}`)
	for {
		code, out, errOut := storeTool("verify", "--data-dir", dir)
		if strings.Contains(errOut, "it does not answer") { // its socket is about to be there
			continue
		}
		if code != 0 || !strings.Contains(out, "trajectories: ") {
			t.Errorf("verify: %d %s %s", code, out, errOut)
		}
		break
	}
	stop()
	url, _ = startServe(t, "--data-dir", dir, "--min-free-disk", "0", "--trajectory-retention", "agent:val=1", "--trajectory-quota", "120B")
	for status := 503; status != 413; {
		resp, err := http.Post(url+"/v1/preview/models/agent/log", "application/json", strings.NewReader(`{"split":"train","trajectory_groups":[{"trajectories":[{"reward":1.0}]}]}`))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if status = resp.StatusCode; status != 413 && status != 503 {
			t.Fatalf("beyond the quota: %d", status)
		}
	}
}

// Credentials and retention on the command line.
func TestServeData(t *testing.T) {
	for _, bad := range []string{"acme/x", "acme=5", "acme/x=0", "acme/x=y"} {
		if _, err := retainRules([]string{bad}); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
	rules, err := retainRules([]string{"acme/x=5", "acme/*=6", "*=7"})
	if err != nil {
		t.Fatal(err)
	}
	for project, want := range map[string]int{"acme/x": 5, "acme/y": 6, "lab/x": 7} {
		for _, r := range rules {
			if r.covers(project) {
				if r.days != want {
					t.Errorf("%s: %d days", project, r.days)
				}
				break
			}
		}
	}
	for _, bad := range []string{"agent", "=5", ":x=5", "agent:=5", "agent=0", "agent=y"} {
		if _, err := retainModels([]string{bad}); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
	models, err := retainModels([]string{"acme:x/agent:val=5", "acme*:train=6", "acme*=7"})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[[2]string]int{{"acme:x/agent", "val"}: 5, {"acme:x/agent", "train"}: 6, {"acme", "recorded"}: 7, {"other", "val"}: 0} {
		got := 0
		for _, r := range models {
			if r.covers(name[0], name[1]) {
				got = r.days
				break
			}
		}
		if got != want {
			t.Errorf("%v: %d days, want %d", name, got, want)
		}
	}
	file := filepath.Join(t.TempDir(), "keys.yaml")
	if err := os.WriteFile(file, []byte("keys: []"), 0o600); err != nil {
		t.Fatal(err)
	}
	url, _ := startServe(t, "--credentials", file, "--data-dir", "")
	if code, _ := post(t, url, question); code != 401 {
		t.Errorf("a file without keys lets people in: %d", code)
	}
}
