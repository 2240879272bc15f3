package servertest

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/auth"
	"weir/calls"
	"weir/feedback"
	"weir/internal/jsontext"
	"weir/objects"
	"weir/queues"
	"weir/server"
	"weir/store"
)

// Feedback is a feedback database for a server, and the keys of its clients: "write" and
// "read" are keys for the projects of acme, "lab" for those of lab, "chief" may do
// everything, and the user alice has the password "pass:word".
type Feedback struct {
	DB     *store.DB
	Traces *store.DB // of calls and objects; nil: there are none
	Keys   *auth.Keyring
}

// NewWeave is NewFeedback with calls and objects.
func NewWeave(t testing.TB) *Feedback {
	t.Helper()
	f := NewFeedback(t)
	f.Traces = NewDB(t)
	return f
}

const feedbackKeys = `keys:
  - {id: writer, user: u-17, hash: "$write", projects: ["acme/*"], rights: [read, write]}
  - {id: reader, user: u-18, hash: "$read", projects: ["acme/*"], rights: [read]}
  - {id: other, user: u-19, hash: "$lab", projects: ["lab/*"], rights: [read, write]}
  - {id: chief, user: u-1, hash: "$chief", rights: [read, write, admin]}
  - {id: alice, username: alice, hash: "$pass:word", projects: ["acme/*"]}
`

// NewFeedback opens an empty feedback database, which is closed when the test ends.
func NewFeedback(t testing.TB) *Feedback {
	t.Helper()
	text := feedbackKeys
	for _, key := range []string{"write", "read", "lab", "chief", "pass:word"} {
		text = strings.ReplaceAll(text, "$"+key, KeyHash(key))
	}
	file := filepath.Join(t.TempDir(), "keys.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	keys, err := auth.New(nil, file)
	if err != nil {
		t.Fatal(err)
	}
	return &Feedback{DB: NewDB(t), Keys: keys}
}

// Serve starts a server without a model on the database. There may be one after another.
func (f *Feedback) Serve(t testing.TB, change func(*Setup)) *Server {
	t.Helper()
	return New(t, func(s *Setup) {
		s.NoModel = true
		s.Config.Keys, s.Config.Feedback = f.Keys, feedback.New(f.DB, feedback.DefaultConfig())
		if f.Traces != nil {
			s.Config.Weave = server.Weave{Calls: calls.New(f.Traces), Objects: objects.New(f.Traces), Queues: queues.New(f.Traces)}
		}
		if change != nil {
			change(s)
		}
	})
}

// Basic is the header of a name and a password, of which a key is one.
func Basic(user, password string) string {
	return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

// CallRef refers to a call of the project acme/support.
const CallRef = "weave:///acme/support/call/0199f2c4"

// Item is the body of /feedback/replace: one record of the project acme/support, about
// CallRef, that replaces nothing. Fields are names and values in turn; nil removes a field.
func Item(fields ...any) string {
	m := map[string]any{"project_id": "acme/support", "trace_ref": CallRef, "feedback_type": "custom", "payload": map[string]any{"n": 1}, "feedback_id": "none"}
	for i := 0; i < len(fields); i += 2 {
		if fields[i+1] == nil {
			delete(m, fields[i].(string))
			continue
		}
		m[fields[i].(string)] = fields[i+1]
	}
	b, err := jsontext.Encode(m)
	if err != nil {
		panic(err)
	}
	return string(b)
}
