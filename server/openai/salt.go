package openai

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"

	"weir/auth"
)

// salter derives the namespaces of the prefix cache. Every process makes a new key, so that
// no client can compute the salt of another one, unless it is given one, because what it keeps of the prefix cache is to be found
// after a restart.
type salter struct{ key [32]byte }

// newSalter returns a salter with a key; nil: with a new one.
func newSalter(key *[32]byte) (s salter) {
	if key != nil {
		s.key = *key
		return s
	}
	_, _ = rand.Read(s.key[:]) // never fails (crypto/rand)
	return s
}

// PlainSalt is the namespace of requests without a project and without a cache_salt, of clients that are not told apart, under a key of
// the server's.
func PlainSalt(key *[32]byte) [16]byte {
	s := newSalter(key)
	return s.salt(&auth.Identity{}, "", "")
}

// salt returns the namespace of requests with a cache_salt that a key has sent for a
// project. cached_tokens and the time to the first token tell what is in a namespace, so
// that a namespace is shared only by those who may know of each other's prompts: by the keys
// of one tenant, and in a project by all keys that the credentials file names it for. A key
// that is for all projects is not named for any: its holder can send any name. Without keys
// all clients share.
func (s *salter) salt(who *auth.Identity, project, cacheSalt string) [16]byte {
	share := who.Share
	if project != "" && who.Names(project) {
		share = ""
	}
	mac := hmac.New(sha256.New, s.key[:])
	for _, part := range []string{share, project} {
		var n [8]byte
		binary.LittleEndian.PutUint64(n[:], uint64(len(part))) // without the length, "a"+"bc" would be "ab"+"c"
		mac.Write(n[:])
		mac.Write([]byte(part))
	}
	mac.Write([]byte(cacheSalt))
	return [16]byte(mac.Sum(nil))
}
