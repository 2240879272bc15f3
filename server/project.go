package server

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"strings"

	"weir/api"
)

// parseProject reads the project of a request, "<team>/<project>", from
// Compat-Project, or else from OpenAI-Project, where OpenAI's SDKs put the name
// of a project of theirs: without a slash it is not ours and is ignored.
func parseProject(compat, openai string) (string, *api.Error) {
	if compat != "" {
		if !wellFormed(compat) {
			return "", api.ErrProject(compat)
		}
		return compat, nil
	}
	if strings.Contains(openai, "/") {
		if !wellFormed(openai) {
			return "", api.ErrProject(openai)
		}
		return openai, nil
	}
	return "", nil
}

// maxProject bounds a project's name in bytes: it goes into logs and labels.
const maxProject = 256

func wellFormed(project string) bool {
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

// salter derives the prefix cache's namespaces. The key is made anew by every
// process, so nobody can compute a salt that meets somebody else's.
type salter struct{ key [32]byte }

func newSalter() salter {
	var s salter
	_, _ = rand.Read(s.key[:]) // never fails (crypto/rand)
	return s
}

// salt is the namespace of a project's requests with that cache_salt. Requests
// with neither share one.
func (s *salter) salt(project, cacheSalt string) [16]byte {
	mac := hmac.New(sha256.New, s.key[:])
	var n [8]byte
	binary.LittleEndian.PutUint64(n[:], uint64(len(project))) // or "a"+"bc" would be "ab"+"c"
	mac.Write(n[:])
	mac.Write([]byte(project))
	mac.Write([]byte(cacheSalt))
	return [16]byte(mac.Sum(nil))
}
