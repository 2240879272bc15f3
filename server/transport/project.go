package transport

import (
	"strings"

	"weir/api"
)

// parseProject reads the project of a request, "<team>/<project>", from
// Compat-Project, or else from OpenAI-Project, where OpenAI's SDKs put the name
// of a project of theirs: without a slash it is not ours and is ignored.
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

// maxProject bounds a project's name in bytes: it goes into logs and labels.
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
