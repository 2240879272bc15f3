package grammar

import (
	"errors"
	"testing"
)

// TestContainsMoreThanItems: as many elements as contains demands may be more than there may be.
func TestContainsMoreThanItems(t *testing.T) {
	for _, s := range []string{
		`{"type":"array","contains":true,"minContains":3,"maxItems":1}`,
		`{"type":"array","items":{"type":"null"},"contains":{"type":"null"},"minContains":3,"maxItems":2}`,
		`{"type":"array","contains":{"type":"null"},"minContains":3,"maxItems":2}`,
	} {
		if _, err := compileFor(schema(s), testVocabulary); !errors.Is(err, ErrUnsatisfiable) {
			t.Errorf("%s: %v", s, err)
		}
	}
}

// TestContainsBesideFewValues: if the elements that are not counted have few values, these
// could be used up while more elements are needed.
func TestContainsBesideFewValues(t *testing.T) {
	s := schema(`{"contains":{"type":"integer"},"items":{"type":["null","integer"]},"maxContains":3,"minItems":3,"type":"array","uniqueItems":true}`)
	if _, err := compileFor(s, testVocabulary); !errors.Is(err, ErrUnsupported) {
		t.Error(err)
	}
}
