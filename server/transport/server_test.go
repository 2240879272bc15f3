package transport_test

import (
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
