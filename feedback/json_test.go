package feedback

import (
	"testing"

	"weir/internal/jsontext"
)

// TestPayloadSize checks that the size of a payload is that of its compact form in UTF-8
// (docs/interface/feedback.md, F-15).
func TestPayloadSize(t *testing.T) {
	for s, want := range map[string]int{
		`{}`: 2, `{"a":"\u00e9"}`: 10, `{"a":"é"}`: 10, `{"a":"\u0041"}`: 9, `{"a":"\ud83d\ude00"}`: 12, `{"a":"😀"}`: 12, `{"a":"\u20AC"}`: 11,
		`{"a":"\n\u0001\"\\"}`: 20,
	} {
		if got := size(jsontext.Value(s)); got != want {
			t.Errorf("%s: %d, want %d", s, got, want)
		}
	}
}
