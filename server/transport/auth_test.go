package transport

import (
	"testing"

	"weir/auth"
)

// docs/interface/chat-completions.md, section 1.4.
func TestKeys(t *testing.T) {
	k, err := auth.New([]string{"secret", "other key"}, "")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{keys: k}
	for _, c := range []struct {
		authorization, xAPIKey string
		want                   bool
	}{
		{"Bearer secret", "", true},
		{"bearer secret", "", true},
		{"BEARER secret", "", true},
		{"Bearer other key", "", true}, // split at the first space alone
		{"", "secret", true},
		{"Bearer wrong", "secret", true},
		{"", "", false},
		{"secret", "", false},
		{"Bearer", "", false},
		{"Bearer ", "", false},
		{"Bearer  secret", "", false}, // the token begins with a space
		{"Bearer secret ", "", false},
		{"Basic secret", "", false},
		{"Bearer SECRET", "", false},
		{"Bearer secre", "wrong", false},
		{"", "Bearer secret", false},
	} {
		if got := s.sender(false, c.authorization, c.xAPIKey) != nil; got != c.want {
			t.Errorf("accept(%q, %q) = %v", c.authorization, c.xAPIKey, got)
		}
	}
}
