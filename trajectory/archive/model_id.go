package archive

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// ValidModelID tells whether trajectories may be kept under an id of a model: 1 to 256
// bytes of text without control characters, and not what a file system might take for
// more than a name.
func ValidModelID(id string) bool {
	return id != "" && len(id) <= 256 && id != "." && id != ".." && utf8.ValidString(id) && !strings.ContainsFunc(id, unicode.IsControl)
}
