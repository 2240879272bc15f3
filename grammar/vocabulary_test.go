package grammar

import "testing"

func TestVocabularyRefusesEndTokenOutside(t *testing.T) {
	if _, err := NewVocabulary([][]byte{{'a'}}, []int32{1}); err == nil {
		t.Error("an end token outside the vocabulary was taken")
	}
	if _, err := NewVocabulary(nil, nil); err == nil {
		t.Error("an empty vocabulary was taken")
	}
}
