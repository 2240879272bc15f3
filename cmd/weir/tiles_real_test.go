package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRepackCache: the second start reads what the first has packed and answers the same. A process
// that is killed while it writes leaves nothing that is read, a damaged file is found, and another model or
// format has a file of its own.
func TestRepackCache(t *testing.T) {
	t.Parallel()
	dir, cache := copyModel(t), t.TempDir()
	start := func(args ...string) *process {
		return startProcess(t, nil, append([]string{"--device", "cpu", "--data-dir", "", "--quantization", "q4", "--repack-cache", cache, dir}, args...)...)
	}
	answer := func(p *process) string {
		code, body := post(t, p.url, question)
		_, content, ok := strings.Cut(body, `"message"`)
		if code != 200 || !ok {
			t.Fatalf("%d %s", code, body)
		}
		content, _, _ = strings.Cut(content, "}")
		return content
	}
	files := func() []string {
		list, err := filepath.Glob(filepath.Join(cache, "*.tiles"))
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	for range 5 {
		start().kill() // before, while or after it writes
	}
	first := start()
	want := answer(first)
	if log := first.log.String(); !strings.Contains(log, "are kept for the next start") && len(files()) == 0 {
		first.log.find(t, `are kept for the next start`, first.ended)
	}
	first.kill()
	if len(files()) != 1 {
		t.Fatalf("%v in the cache", files())
	}
	before, err := os.Stat(files()[0])
	if err != nil {
		t.Fatal(err)
	}
	second := start()
	if got := answer(second); got != want || strings.Contains(second.log.String(), "packed") {
		t.Errorf("answered %s, not %s\n%s", got, want, second.log)
	}
	second.kill()
	if after, err := os.Stat(files()[0]); err != nil || !os.SameFile(before, after) {
		t.Errorf("the file was written again: %v", err)
	}
	tiles, err := os.ReadFile(files()[0])
	if err != nil {
		t.Fatal(err)
	}
	tiles[len(tiles)/2] ^= 1
	if err := os.WriteFile(files()[0], tiles, 0o600); err != nil {
		t.Fatal(err)
	}
	third := start()
	third.log.find(t, `the cache of packed weights is damaged, and they are packed anew`, third.ended)
	if got := answer(third); got != want {
		t.Errorf("answered %s, not %s", got, want)
	}
	third.kill()
	fourth := start("--quantization", "q8")
	fourth.log.find(t, `are kept for the next start`, fourth.ended)
	fourth.kill()
	if len(files()) != 2 {
		t.Errorf("%v in the cache", files())
	}
}
