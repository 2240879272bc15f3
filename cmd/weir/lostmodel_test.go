//go:build unix

package main

import (
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestModelCutWhileServing: a request that needs what was cut off a model's file ends with an
// error, and not the process with SIGBUS. The engine then opens the files anew: if they are
// whole, because the cut one was replaced, the next request is answered; if they are not, or
// cannot be loaded, the server says why and ends with status 1.
func TestModelCutWhileServing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(whole []byte) []byte // what the file holds in the end
		want  string
	}{
		"cut":     {func(whole []byte) []byte { return whole[:100] }, "cannot be opened again: model: weights: damaged checkpoint: "},
		"damaged": {func(whole []byte) []byte { return append(whole[:len(whole)-100], strings.Repeat("\xff", 100)...) }, " holds NaN, which is not a weight"},
	} {
		t.Run(name, func(t *testing.T) { serveCut(t, c.spoil, c.want) })
	}
}

func serveCut(t *testing.T, spoil func(whole []byte) []byte, want string) {
	dir := copyModel(t)
	path := filepath.Join(dir, "model.safetensors")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	p := startProcess(t, nil, "--device", "cpu", dir)
	answered := func(when string) {
		if code, body := post(t, p.url, question); code != 200 || !strings.Contains(body, "Paris") {
			t.Errorf("%s: %d %s", when, code, body)
		}
	}
	// replace gives the name to another file, and cuts the one that is mapped.
	replace := func(content []byte) {
		if err := errors.Join(os.Rename(path, path+".old"), os.WriteFile(path, content, 0o600), os.Truncate(path+".old", 0)); err != nil {
			t.Fatal(err)
		}
		const lost = `{"error":{"message":"A file of the model was cut, or cannot be read any more, while it is being served.","type":"InternalServerError","param":null,"code":500}}`
		if code, body := post(t, p.url, question); code != 500 || body != lost {
			t.Errorf("after the cut: %d %s", code, body)
		}
	}

	answered("at first")
	replace(whole)
	answered("after the model was opened anew")
	if code, body, _ := do(t, http.DefaultClient, "GET", p.url+"/health", ""); code != 200 {
		t.Errorf("health: %d %s", code, body)
	}

	replace(spoil(whole))
	var exit *exec.ExitError
	if err := <-p.ended; !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("the server ended with %v", err)
	}
	log := p.log.String()
	for _, want := range []string{path + " has 0 bytes", want} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %q:\n%s", want, log)
		}
	}
	if strings.Contains(log, "SIG") || strings.Contains(log, "goroutine ") {
		t.Errorf("the process crashed:\n%s", log)
	}
}
