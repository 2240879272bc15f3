package transport

import (
	"strings"

	"weir/api"
)

// parseProject returns the project of a request, "<team>/<project>", from the header
// Compat-Project or else from OpenAI-Project; "": none. SDKs of OpenAI send the names of
// OpenAI's own projects in the latter, so that a value without a slash is ignored.
func parseProject(compat, openai string) (string, *api.Error) {
	if compat != "" {
		if !ValidProject(compat) {
			return "", api.ErrProject(compat)
		}
		return compat, nil
	}
	if strings.Contains(openai, "/") {
		if !ValidProject(openai) {
			return "", api.ErrProject(openai)
		}
		return openai, nil
	}
	return "", nil
}

// maxProject bounds the name of a project in bytes, because it appears in logs and in labels
// of metrics.
const maxProject = 256

// ValidProject reports whether a project has the form "<team>/<project>", in printable
// ASCII, and is not too long.
func ValidProject(project string) bool {
	team, name, ok := strings.Cut(project, "/")
	if !ok || team == "" || name == "" || strings.Contains(name, "/") || len(project) > maxProject {
		return false
	}
	for _, b := range []byte(project) {
		if b <= ' ' || b >= 0x7f {
			return false
		}
	}
	return true
}
