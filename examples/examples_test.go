// Package examples runs the examples in Go and for the shell against a server with the
// bundled model. The examples in Python and JavaScript are run by `make clients`.
package examples

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// wanted is what each example has to print: proof that it has done what it says.
var wanted = map[string][]string{
	"chat":         {"weir-tiny", "Paris"},
	"feedback":     {"chatcmpl-", "👍", ":thumbs_up:"},
	"trajectories": {`"trajectories":2`, "train/reward", `"Paris."`},
}

func TestExamples(t *testing.T) {
	bin := t.TempDir()
	build := exec.Command("go", "build", "-o", bin+string(filepath.Separator), "weir/cmd/weir", "./go/chat", "./go/feedback", "./go/trajectories")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	url := serve(t, filepath.Join(bin, "weir"))
	for name, want := range wanted {
		t.Run("go/"+name, func(t *testing.T) {
			run(t, url, want, filepath.Join(bin, name))
		})
		t.Run("curl/"+name, func(t *testing.T) {
			if _, err := exec.LookPath("curl"); err != nil || runtime.GOOS == "windows" {
				t.Skip("no curl, or no shell to run it in")
			}
			run(t, url, want, "sh", "curl/"+name+".sh")
		})
	}
}

// run runs an example, which has to succeed and to print what is wanted.
func run(t *testing.T, url string, want []string, command string, args ...string) {
	t.Helper()
	cmd := exec.Command(command, args...)
	cmd.Env = append(os.Environ(), "WEIR_URL="+url)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, w := range want {
		if !strings.Contains(string(out), w) {
			t.Errorf("%q is not in what it printed:\n%s", w, out)
		}
	}
}

var listening = regexp.MustCompile(`msg=listening url=(\S+)`)

// serve starts a server on a free port and an empty data directory, and returns its
// address.
func serve(t *testing.T, weir string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, weir, "serve", "--port", "0", "--data-dir", t.TempDir(), "--kv-cache-memory", "256MiB")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // its status says that it was interrupted
	})
	var log, url string
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		log += lines.Text() + "\n"
		if m := listening.FindStringSubmatch(lines.Text()); m != nil {
			url = m[1]
		}
		if strings.Contains(lines.Text(), "msg=ready") && url != "" {
			go func() { _, _ = io.Copy(io.Discard, stderr) }() // so that a full pipe does not stop the server
			return url
		}
	}
	t.Fatalf("the server ended before it was ready:\n%s", log)
	return ""
}
