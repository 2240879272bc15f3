package openai_test

import (
	"encoding/json"
	"strings"
	"testing"

	"weir/server/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// testServer is a server with the helpers of the tests of this package.
type testServer struct{ *servertest.Server }

func newServer(t testing.TB, change func(*servertest.Setup)) *testServer {
	t.Helper()
	return &testServer{servertest.New(t, change)}
}

// keysOf returns the keys of a JSON object in their order, separated by spaces.
func keysOf(t *testing.T, object string) string {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(object))
	var keys []string
	if _, err := dec.Token(); err != nil {
		t.Fatal(err)
	}
	for dec.More() {
		k, err := dec.Token()
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, k.(string))
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			t.Fatal(err)
		}
	}
	return strings.Join(keys, " ")
}
