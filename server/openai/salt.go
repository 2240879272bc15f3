package openai

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
)

// salter derives the prefix cache's namespaces. The key is made anew by every
// process, so no client can compute the salt of another one.
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
