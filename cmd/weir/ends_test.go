package main

import (
	"slices"
	"strings"
	"testing"

	"weir/tokenizer"
)

// TestTurnEnds: docs/interface/chat-completions.md, section 9.1, R-9.
func TestTurnEnds(t *testing.T) {
	load := func(names ...string) *tokenizer.Tokenizer {
		var added []string
		for i, n := range names {
			added = append(added, `{"id":`+string(rune('1'+i))+`,"content":"`+n+`","special":true,"single_word":false,"lstrip":false,"rstrip":false,"normalized":false}`)
		}
		tok, err := tokenizer.Load([]byte(`{"version":"1.0","added_tokens":[` + strings.Join(added, ",") + `],"normalizer":null,"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true},"post_processor":null,"decoder":{"type":"ByteLevel"},"model":{"type":"BPE","vocab":{"a":0},"merges":[]}}`))
		if err != nil {
			t.Fatal(err)
		}
		return tok
	}
	if got := turnEnds(load("<|return|>", "<|call|>", "<|channel|>")); !slices.Equal(got, []int32{1, 2}) {
		t.Errorf("%v", got)
	}
	if got := turnEnds(load("<|return|>", "<|call|>")); got != nil {
		t.Errorf("%v of a model without channels", got)
	}
}
