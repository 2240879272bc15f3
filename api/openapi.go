package api

import (
	"bytes"
	_ "embed"
)

// The document is written by hand, beside the decoders: tests hold it against
// their tables here, and against the server's routes and real answers there.
//
//go:embed openapi.json
var openAPI []byte

// OpenAPI returns the description of the whole interface, in OpenAPI 3.1, for a
// server of that version.
func OpenAPI(version string) []byte {
	return bytes.Replace(openAPI, []byte(`"VERSION"`), AppendString(nil, version), 1)
}
