package weaveapi_test

import (
	"encoding/json"
	"testing"

	"weir/server/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// weaveServer is a server with feedback, calls, objects and queues.
type weaveServer struct {
	*servertest.Server
}

func newServer(t testing.TB, change func(*servertest.Setup)) *weaveServer {
	t.Helper()
	return &weaveServer{servertest.NewWeave(t).Serve(t, change)}
}

// post sends JSON as the writer, or with the headers given.
func (s *weaveServer) post(path, body string, headers ...string) (status int, answer map[string]any, text string) {
	s.T.Helper()
	status, text, _ = s.Get("POST", path, body, append([]string{servertest.Basic("api", "write")}, headers...)...)
	_ = json.Unmarshal([]byte(text), &answer) // not all answers are objects
	return status, answer, text
}
