package export

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"weir/store"
	"weir/trajectory"
	"weir/trajectory/archive"
)

// newArchive returns an archive with these batches of the tenant t and the model a/m.
func newArchive(t testing.TB, bodies ...string) *archive.Archive {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	cfg := store.DefaultConfig(t.TempDir())
	cfg.Log = log
	db, err := store.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	a, err := archive.New(db, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		a.Close()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	<-a.Ready()
	for _, body := range bodies {
		u, err := a.Begin(context.Background(), "t", "a/m")
		if err != nil {
			t.Fatal(err)
		}
		e, err := trajectory.Read(strings.NewReader(body), trajectory.DefaultLimits(), u)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := u.Commit(archive.Meta{Split: e.Split, Step: e.Step, Bytes: e.Bytes}); err != nil {
			t.Fatal(err)
		}
	}
	return a
}

// export writes a selection to memory, and checks that no temporary file is left over.
func export(t testing.TB, a *archive.Archive, f *archive.Filter, o Options) string {
	t.Helper()
	var b bytes.Buffer
	if o.TempDir == "" {
		o.TempDir = t.TempDir()
	}
	if err := a.View("t", func(v *archive.View) error { return Write(&b, v, "a/m", f, o) }); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(o.TempDir, "*")); len(left) > 0 {
		t.Errorf("left over: %q", left)
	}
	return b.String()
}

const (
	choice1 = `{"finish_reason":"length","index":0,"logprobs":{"content":[{"token":"a"}]},"message":{"role":"assistant","content":"up","refusal":null,"tool_calls":[{"id":"c1"}]},"token_ids":[1]}`
	rollout = `{"messages_and_choices":[{"role":"system","content":"You play."},{"role":"user","content":[{"type":"text","text":"bo"},{"type":"text","text":"ard"}]},` + choice1 +
		`,{"role":"tool","content":"ok","tool_call_id":"c1"},{"finish_reason":"stop","message":{"role":"assistant","content":"done \ud83d"}}],"tools":[{"type":"function"}],"reward":1.50,"final_policy_version":7,` +
		`"metrics":{"turns":2,"won":true,"score":9},"metadata":{"answer":{"a":1.0},"scenario":"s"},"logs":["l"],"start_time":"2026-03-04T09:15:27.5Z"}`
	plain = `{"messages_and_choices":[{"role":"user","content":"q"},{"finish_reason":"stop","message":{"role":"assistant","content":null}}],"reward":0.5}`
	first = `{"split":"train","step":3,"trajectory_groups":[{"trajectories":[` + rollout + `,` + plain + `],"exceptions":[{"type":"e"}],"metadata":{"id":1.0},"metrics":{"judge":0.5},"logs":["g",5]},{"exceptions":[{}]}]}`
	other = `{"split":"../val","trajectory_groups":[{"trajectories":[{},{"reward":2,"exchanges":{"chat_completions":[{}]},"initial_policy_version":4}]}]}`
)

// objects decodes JSON lines.
func objects(t *testing.T, text string) (list []map[string]any) {
	t.Helper()
	if text != "" && !strings.HasSuffix(text, "\n") {
		t.Error("the last line is not complete")
	}
	for line := range strings.Lines(text) {
		d := json.NewDecoder(strings.NewReader(line))
		var m map[string]any
		if err := d.Decode(&m); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		list = append(list, m)
	}
	return list
}

// equalJSON compares a decoded value with JSON.
func equalJSON(t *testing.T, what string, got any, want string) {
	t.Helper()
	var w any
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, w) {
		g, _ := json.Marshal(got)
		t.Errorf("%s: %s, want %s", what, g, want)
	}
}

// failing is a writer that fails after a number of bytes.
type failing struct{ left int }

var errFull = errors.New("full")

func (f *failing) Write(p []byte) (int, error) {
	if len(p) > f.left {
		n := f.left
		f.left = 0
		return n, errFull
	}
	f.left -= len(p)
	return len(p), nil
}
