package tokenizer

import (
	"errors"
	"strings"
	"testing"
)

// TestSwellingTextIsStopped: a text that becomes much longer while it is normalized is given up
// before it is.
func TestSwellingTextIsStopped(t *testing.T) {
	for name, normalizer := range map[string]object{
		"NFKC":        {"type": "NFKC"},
		"Bert":        {"type": "BertNormalizer"},
		"Replace":     {"type": "Replace", "pattern": object{"Regex": "[\uFDFA龍]"}, "content": strings.Repeat("x", 100)},
		"Precompiled": {"type": "Precompiled", "precompiled_charsmap": pipelinesCharsmap(t)},
	} {
		t.Run(name, func(t *testing.T) {
			tok := mustLoad(t, marshal(t, object{"normalizer": normalizer, "model": object{"type": "WordLevel", "vocab": object{"u": 0}, "unk_token": "u"}}))
			text := strings.Repeat("\uFDFA龍", 1<<19)
			asked := 0
			_, err := tok.EncodeWithin(nil, func(n int) bool { asked = n; return n < len(text)+1<<18 }, nil, text, false)
			if !errors.Is(err, ErrStopped) || asked > len(text)+1<<20 {
				t.Errorf("%v, after %d bytes of %d were asked for", err, asked, len(text))
			}
		})
	}
}

func pipelinesCharsmap(tb testing.TB) string {
	var file struct {
		Charsmap string `json:"charsmap"`
	}
	readJSON(tb, "testdata/pipelines.json.gz", &file)
	return file.Charsmap
}
