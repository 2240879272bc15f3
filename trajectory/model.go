package trajectory

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// ValidModel reports whether id can be the id of a model: 1 to 256 bytes of text without
// control characters, and not what a file system might take for more than a name.
func ValidModel(id string) bool {
	return id != "" && len(id) <= 256 && id != "." && id != ".." && utf8.ValidString(id) && !strings.ContainsFunc(id, unicode.IsControl)
}
