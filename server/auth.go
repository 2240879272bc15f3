package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"strings"
)

// keys are the API keys that are accepted, as hashes: comparing those takes the
// same time wherever, and whether, two keys differ.
type keys [][sha256.Size]byte

func newKeys(plain []string) keys {
	k := make(keys, len(plain))
	for i, s := range plain {
		k[i] = sha256.Sum256([]byte(s))
	}
	return k
}

// accept reports whether the headers carry one of the keys (spec
// chat-completions 1.4): "Authorization: Bearer <key>", split at the first
// space, the scheme in any case; or "x-api-key: <key>", which some front-ends
// send instead.
func (k keys) accept(authorization, xAPIKey string) bool {
	if scheme, token, _ := strings.Cut(authorization, " "); strings.EqualFold(scheme, "bearer") && k.has(token) {
		return true
	}
	return xAPIKey != "" && k.has(xAPIKey)
}

func (k keys) has(token string) bool {
	sum := sha256.Sum256([]byte(token))
	match := 0
	for i := range k {
		match |= subtle.ConstantTimeCompare(sum[:], k[i][:])
	}
	return match == 1
}
