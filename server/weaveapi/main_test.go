package weaveapi_test

import (
	"testing"

	"weir/server/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }
