package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// giveFeedback sends a note to a server, as a client without a key.
func giveFeedback(t *testing.T, url, project, note string) {
	t.Helper()
	send(t, url+"/feedback/replace", `{"project_id":"`+project+`","trace_ref":"weave:///`+project+`/call/1","feedback_type":"wandb.note.1","payload":{"note":"`+note+`"},"feedback_id":"x"}`)
}

func logTrajectory(t *testing.T, url string, reward float64) {
	t.Helper()
	send(t, url+"/v1/preview/models/agent/log", fmt.Sprintf(`{"split":"train","trajectory_groups":[{"trajectories":[{"reward":%.1f}]}]}`, reward))
}

// leaveRecords gives a server two notes about acme/support, one about another project, a call of
// each, and a trajectory of a model and of one that was created with the name writer.
func leaveRecords(t *testing.T, url string) {
	t.Helper()
	giveFeedback(t, url, "acme/support", "first")
	giveFeedback(t, url, "acme/other", "second")
	giveFeedback(t, url, "acme/support", "third")
	for _, project := range []string{"acme/support", "acme/other"} {
		send(t, url+"/call/start", `{"start":{"project_id":"`+project+`","id":"c-`+project+`","op_name":"op","started_at":"2026-03-01T10:00:00Z","attributes":{},"inputs":{}}}`)
	}
	logTrajectory(t, url, 1)
	id := regexp.MustCompile(`"id":"([^"]+)"`).FindStringSubmatch(send(t, url+"/v1/preview/models", `{"name":"writer","project":"demo","entity":"acme","base_model":"b"}`))
	send(t, url+"/v1/preview/models/"+id[1]+"/log", `{"split":"train","trajectory_groups":[{"trajectories":[{"reward":3.0}]}]}`)
}

// checkRecords asks weir store for the records that leaveRecords left.
func checkRecords(t *testing.T, dir, when string) {
	t.Helper()
	if code, out, errOut := runStore("verify", "--data-dir", dir); code != 0 || !strings.Contains(out, ", 0 faults") {
		t.Errorf("%s: verify: %d %s %s", when, code, out, errOut)
	}
	code, out, errOut := runStore("export", "--data-dir", dir, "--project", "acme/support")
	if code != 0 || strings.Count(out, "\n") != 2 || !strings.Contains(out, "first") || strings.Contains(out, "second") {
		t.Errorf("%s: export: %d %s %s", when, code, out, errOut)
	}
	for args, want := range map[string]string{"--project acme/support": "acme/support", "--project acme/none": "", "": "acme/other acme/support"} {
		code, out, errOut := runStore(append([]string{"export", "--data-dir", dir, "--calls"}, strings.Fields(args)...)...)
		var ids []string
		for _, m := range regexp.MustCompile(`(?m)^\{"id":"c-([^"]+)"`).FindAllStringSubmatch(out, -1) {
			ids = append(ids, m[1])
		}
		if code != 0 || strings.Join(ids, " ") != want || strings.Count(out, "\n") != len(ids) {
			t.Errorf("%s: export of calls %s: %d %s %s", when, args, code, out, errOut)
		}
	}
	for _, name := range []string{"writer", "acme/demo/writer"} {
		if code, out, errOut := runStore("export", "--data-dir", dir, "--model", name); code != 0 || !strings.Contains(out, `"reward":3.0`) {
			t.Errorf("%s: export of a created model by %s: %d %s %s", when, name, code, out, errOut)
		}
	}
	code, out, errOut = runStore("export", "--data-dir", dir, "--model", "agent", "--split", "train")
	if code != 0 || strings.Count(out, "\n") != 1 || !strings.Contains(out, `"trajectory":{"reward":1.0}`) {
		t.Errorf("%s: export of trajectories: %d %s %s", when, code, out, errOut)
	}
	if code, out, _ := runStore("export", "--data-dir", dir, "--model", "agent", "--format", "parquet"); code != 0 || !strings.HasPrefix(out, "PAR1") || !strings.HasSuffix(out, "PAR1") {
		t.Errorf("%s: Parquet: %d, %d bytes", when, code, len(out))
	}
	for _, bad := range [][]string{{"--model", "none"}, {"--model", "agent", "--calls"}, {"--model", "writer", "--tenant", "none"}, {"--model", "agent", "--tenant", "none"}, {"--model", "agent", "--min-policy-version", "x"}, {"--model", "agent", "--format", "x"}} {
		if code, out, errOut := runStore(append([]string{"export", "--data-dir", dir}, bad...)...); code == 0 || out != "" || errOut == "" {
			t.Errorf("%s: %v: %d %s %s", when, bad, code, out, errOut)
		}
	}
}

// TestStore: records survive the process, and weir store works while a server uses
// them, without a server, and on what it has restored from a backup.
func TestStore(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	url, stop := startServe(t, "--data-dir", dir, "--min-free-disk", "0")
	leaveRecords(t, url)
	checkRecords(t, dir, "beside a server")
	file := filepath.Join(t.TempDir(), "backup")
	for _, step := range []struct {
		what, command string
		code          int
		says          string
	}{
		{"a backup", "backup", 0, ""},
		{"a backup over another one", "backup", 1, "exists"},
		{"restoring beside a server", "restore", 1, "stop the server first"},
	} {
		if code, _, errOut := runStore(step.command, "--data-dir", dir, file); code != step.code || !strings.Contains(errOut, step.says) {
			t.Errorf("%s: %d %s", step.what, code, errOut)
		}
	}
	stop()
	checkRecords(t, dir, "without a server")
	if code, _, errOut := runStore("restore", "--data-dir", dir, file); code != 1 || !strings.Contains(errOut, "not empty") {
		t.Errorf("restoring over records: %d %s", code, errOut)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if code, _, errOut := runStore("restore", "--data-dir", dir, file); code != 0 {
		t.Errorf("restoring: %d %s", code, errOut)
	}
	checkRecords(t, dir, "restored")
	checkRestoredServer(t, dir)
}

// checkRestoredServer starts a server on restored records and adds to them.
func checkRestoredServer(t *testing.T, dir string) {
	t.Helper()
	url, stop := startServe(t, "--data-dir", dir, "--min-free-disk", "0")
	giveFeedback(t, url, "acme/new", "fourth")
	logTrajectory(t, url, 2)
	if _, lines, _ := do(t, http.DefaultClient, "GET", url+"/v1/preview/models/agent/export?format=jsonl-groups", ""); strings.Count(lines, "\n") != 2 || !strings.Contains(lines, `"reward":1.0`) {
		t.Errorf("trajectories: %s", lines)
	}
	stop()
	if _, out, _ := runStore("export", "--data-dir", dir); strings.Count(out, "\n") != 4 {
		t.Errorf("all records: %s", out)
	}
}

// TestStoreLongPath: weir store finds the server although the path of its socket is
// longer than a Unix address, which holds about a hundred bytes.
func TestStoreLongPath(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 40))
	url, _ := startServe(t, "--data-dir", dir, "--min-free-disk", "0")
	leaveRecords(t, url)
	checkRecords(t, dir, "beside a server")
	file := filepath.Join(t.TempDir(), "backup")
	if code, _, errOut := runStore("backup", "--data-dir", dir, file); code != 0 {
		t.Errorf("backup: %d %s", code, errOut)
	}
	if info, err := os.Stat(file); err != nil || info.Size() == 0 {
		t.Errorf("no backup: %v", err)
	}
}

// TestStoreRefuses: mistakes in how weir store is called.
func TestStoreRefuses(t *testing.T) {
	for _, args := range [][]string{{}, {"what"}, {"backup"}, {"verify", "x"}, {"verify"}} { // without a home there is no data directory
		if code, _, _ := runStore(args...); code != 2 {
			t.Errorf("store %q: %d", args, code)
		}
	}
	if code, _, errOut := runStore("verify", "--data-dir", t.TempDir()); code != 1 || !strings.Contains(errOut, "no database") {
		t.Errorf("an empty folder: %d %s", code, errOut)
	}
	if code, _, _ := runStore("--help"); code != 0 {
		t.Errorf("help: %d", code)
	}
}

// TestStoreTrajectories: weir store talks to a server that has opened the database of
// trajectories only. Retention and quota are read from the flags.
func TestStoreTrajectories(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	url, stop := startServe(t, "--data-dir", dir, "--min-free-disk", "0")
	logTrajectory(t, url, 1)
	for {
		code, out, errOut := runStore("verify", "--data-dir", dir)
		if strings.Contains(errOut, "it does not answer") { // the server is about to open its socket
			continue
		}
		if code != 0 || !strings.Contains(out, "trajectories: ") {
			t.Errorf("verify: %d %s %s", code, out, errOut)
		}
		break
	}
	stop()
	url, _ = startServe(t, "--data-dir", dir, "--min-free-disk", "0", "--trajectory-retention", "agent:val=1", "--trajectory-quota", "120B")
	body := `{"split":"train","trajectory_groups":[{"trajectories":[{"reward":1.0}]}]}`
	if code, text := whenOpen(t, "POST", url+"/v1/preview/models/agent/log", body); code != 413 {
		t.Fatalf("beyond the quota: %d %s", code, text)
	}
}
