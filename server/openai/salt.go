package openai

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
)

// salter derives the namespaces of the prefix cache. Every process makes a new key, so that
// no client can compute the salt of another one.
type salter struct{ key [32]byte }

func newSalter() salter {
	var s salter
	_, _ = rand.Read(s.key[:]) // never fails (crypto/rand)
	return s
}

// salt returns the namespace of the requests of a project with a cache_salt. All requests
// that have neither share a namespace.
func (s *salter) salt(project, cacheSalt string) [16]byte {
	mac := hmac.New(sha256.New, s.key[:])
	var n [8]byte
	binary.LittleEndian.PutUint64(n[:], uint64(len(project))) // without the length, "a"+"bc" would be "ab"+"c"
	mac.Write(n[:])
	mac.Write([]byte(project))
	mac.Write([]byte(cacheSalt))
	return [16]byte(mac.Sum(nil))
}
