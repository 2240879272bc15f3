package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"weir/server/failure"
)

// TestWatchdog: systemd is told nothing while a step hangs or when the engine has failed, and the newest
// steps are dumped once when a step begins to hang.
func TestWatchdog(t *testing.T) {
	var said strings.Builder
	w := watchdog{feed: func() { said.WriteByte('f') }, dump: func() { said.WriteByte('d') }}
	for _, health := range []error{failure.ErrLoading, nil, nil, failure.ErrStalled, failure.ErrStalled, nil, failure.ErrStalled, failure.ErrEngineFailed} {
		w.look(health)
		said.WriteByte(' ')
	}
	if got := said.String(); got != "f f f d  f d  " {
		t.Errorf("%q", got)
	}
}

// TestUnits: the units of systemd name flags that there are, and systemd finds nothing wrong with them.
func TestUnits(t *testing.T) {
	const dir = "../../deploy/systemd"
	text, err := os.ReadFile(filepath.Join(dir, "weir.service"))
	if err != nil {
		t.Fatal(err)
	}
	f := newFlagSet("serve")
	new(serveOptions).bind(f, noEnv)
	f.addCommon()
	names := regexp.MustCompile(`(?m)^ExecStart=.*|^Environment=WEIR_.*`).FindAllString(string(text), -1)
	flags := 0
	for _, line := range names {
		for _, m := range regexp.MustCompile(`--([a-z-]+)|WEIR_([A-Z_]+)=`).FindAllStringSubmatch(line, -1) {
			name := m[1] + strings.ReplaceAll(strings.ToLower(m[2]), "_", "-")
			if flags++; f.Lookup(name) == nil {
				t.Errorf("%s: there is no flag %s", line, name)
			}
		}
	}
	if flags < 2 {
		t.Errorf("%d flags in %q", flags, names)
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("there is no systemd-analyze")
	}
	// It wants programs and manual pages to be there.
	to := t.TempDir()
	for _, name := range []string{"weir.service", "weir.socket"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		text = regexp.MustCompile(`(?m)^Documentation=.*$|/usr/local/bin/weir`).ReplaceAllFunc(text, func(found []byte) []byte {
			if found[0] == '/' {
				return []byte("/bin/true")
			}
			return nil
		})
		if err := os.WriteFile(filepath.Join(to, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command(analyze, "verify", filepath.Join(to, "weir.service"), filepath.Join(to, "weir.socket")).CombinedOutput()
	if err != nil || strings.Contains(string(out), to) {
		t.Errorf("%v\n%s", err, out)
	}
}
