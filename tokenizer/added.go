package tokenizer

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// addedToken is an entry of added_tokens: a text that becomes one token wherever it
// occurs, before the pre-tokenizer sees it.
type addedToken struct {
	ID         int32  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"` // only with no word character on either side
	Lstrip     bool   `json:"lstrip"`      // takes the white space before it
	Rstrip     bool   `json:"rstrip"`      // takes the white space after it
	Normalized bool   `json:"normalized"`  // is normalized and searched for in the normalized text
	Special    bool   `json:"special"`     // is skipped in decoding
}

// addedSet finds added tokens: the leftmost, and of those that begin at the same place
// the longest. It is a trie with a table for the first byte. Below that, siblings are a
// linked list, because real sets branch into a handful.
type addedSet struct {
	nodes  []trieNode
	first  [256]int32 // node of a first byte, -1 if none
	lead   string     // the first bytes that occur, each once
	tokens []addedToken
}

type trieNode struct {
	b           byte
	child, next int32 // -1 if none
	token       int32 // index of tokens, -1 if none ends here
}

func newAddedSet() *addedSet {
	s := &addedSet{}
	for i := range s.first {
		s.first[i] = -1
	}
	return s
}

// add adds a token that is searched for as pattern, which is not empty.
func (s *addedSet) add(pattern string, tok addedToken) error {
	at := s.first[pattern[0]]
	if at < 0 {
		at = s.newNode(pattern[0])
		s.first[pattern[0]] = at
		s.lead += pattern[:1]
	}
	for i := 1; i < len(pattern); i++ {
		child := s.child(at, pattern[i])
		if child < 0 {
			child = s.newNode(pattern[i])
			s.nodes[child].next = s.nodes[at].child
			s.nodes[at].child = child
		}
		at = child
	}
	if old := s.nodes[at].token; old >= 0 {
		return fmt.Errorf("%w: added tokens %.200q and %.200q are the same text", ErrInvalid, s.tokens[old].Content, tok.Content)
	}
	s.nodes[at].token = int32(len(s.tokens))
	s.tokens = append(s.tokens, tok)
	return nil
}

func (s *addedSet) newNode(b byte) int32 {
	s.nodes = append(s.nodes, trieNode{b, -1, -1, -1})
	return int32(len(s.nodes) - 1)
}

func (s *addedSet) child(at int32, b byte) int32 {
	c := s.nodes[at].child
	for c >= 0 && s.nodes[c].b != b {
		c = s.nodes[c].next
	}
	return c
}

// find returns the first token in text[i:] and where it begins and ends in text, or nil.
func (s *addedSet) find(text string, i int) (tok *addedToken, start, end int) {
	for ; i < len(text); i++ {
		if len(s.lead) == 1 {
			k := strings.IndexByte(text[i:], s.lead[0])
			if k < 0 {
				return nil, 0, 0
			}
			i += k
		}
		at := s.first[text[i]]
		if at < 0 {
			continue
		}
		for j := i + 1; at >= 0; j++ {
			if n := s.nodes[at].token; n >= 0 {
				tok, end = &s.tokens[n], j
			}
			if j == len(text) {
				break
			}
			at = s.child(at, text[j])
		}
		if tok != nil {
			return tok, i, end
		}
	}
	return nil, 0, 0
}

// addedScan iterates over the added tokens of a text and the stretches between them.
type addedScan struct {
	set  *addedSet // nil: the text is one stretch
	text string
	// text[:done] has been returned, and the search goes on at from. They differ after a
	// token that was discarded or that took in white space: neither changes where Hugging
	// Face's library searches for the next token.
	done, from int
	// blank is how far the white space after tokens has been scanned.
	blank int
	// The token that follows the stretch just returned.
	held *addedToken
}

// next returns either the next stretch of text and where it begins (tok is nil) or the
// next token. ok is false at the end.
func (a *addedScan) next() (stretch string, start int, tok *addedToken, ok bool) {
	if tok = a.held; tok != nil {
		a.held = nil
		return "", 0, tok, true
	}
	for a.set != nil && a.from < len(a.text) {
		tok, b, e := a.set.find(a.text, a.from)
		if tok == nil {
			break
		}
		a.from = e
		if tok.SingleWord && (endsWithWord(a.text[:b]) || startsWithWord(a.text[e:])) {
			continue
		}
		if tok.Lstrip && b > a.done {
			b = a.done + len(strings.TrimRightFunc(a.text[a.done:b], unicode.IsSpace))
		}
		if tok.Rstrip {
			if e >= a.blank {
				a.blank = len(a.text) - len(strings.TrimLeftFunc(a.text[e:], unicode.IsSpace))
			}
			e = max(e, a.blank)
		}
		stretch, start = a.text[min(a.done, b):b], a.done
		a.done = e
		if stretch == "" {
			return "", 0, tok, true
		}
		a.held = tok
		return stretch, start, nil, true
	}
	if a.done < len(a.text) {
		stretch, start = a.text[a.done:], a.done
		a.done, a.from = len(a.text), len(a.text)
		return stretch, start, nil, true
	}
	return "", 0, nil, false
}

func endsWithWord(s string) bool {
	r, n := utf8.DecodeLastRuneInString(s)
	return n > 0 && isWord(r)
}

func startsWithWord(s string) bool {
	r, n := utf8.DecodeRuneInString(s)
	return n > 0 && isWord(r)
}
