package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// stage is one pre-tokenizer. It rewrites its text, then cuts it into pieces. Either
// function may be nil.
type stage struct {
	rewrite func(s string, first bool) string // first: s begins the whole text
	split   *splitter
}

// behaviour says where the matches of a splitter go.
type behaviour uint8

const (
	isolated           behaviour = iota // match and gap are pieces
	removed                             // gaps are pieces
	contiguous                          // adjacent matches are one piece
	mergedWithPrevious                  // a match ends the gap before it
	mergedWithNext                      // a match begins the gap after it
)

var behaviours = map[string]behaviour{
	"Isolated": isolated, "Removed": removed, "Contiguous": contiguous,
	"MergedWithPrevious": mergedWithPrevious, "MergedWithNext": mergedWithNext,
}

// splitter cuts a text at the matches of a pattern.
type splitter struct {
	matcher   matcher
	behaviour behaviour
	invert    bool // gaps count as matches and matches as gaps
}

// next returns the end of the piece that begins at s[i], i < len(s), and whether
// it is to be kept.
func (p *splitter) next(s string, i int, allow *allowance) (end int, keep bool) {
	end, hit := p.segment(s, i, allow)
	switch p.behaviour {
	case removed:
		return end, !hit
	case contiguous:
		for end < len(s) {
			e, h := p.segment(s, end, allow)
			if h != hit {
				break
			}
			end = e
		}
	case mergedWithPrevious:
		if !hit && end < len(s) {
			if e, h := p.segment(s, end, allow); h {
				end = e
			}
		}
	case mergedWithNext:
		if hit && end < len(s) {
			if e, h := p.segment(s, end, allow); !h {
				end = e
			}
		}
	}
	return end, true
}

// segment returns the end of the match or of the gap that begins at s[i]. hit says that
// it counts as a match, with invert taken into account.
func (p *splitter) segment(s string, i int, allow *allowance) (end int, hit bool) {
	if end = p.matcher.match(s, i, allow); end > i {
		return end, !p.invert
	}
	_, w := utf8.DecodeRuneInString(s[i:])
	return p.matcher.find(s, i+w, allow), p.invert
}

// metaspace treats spaces as SentencePiece does: each becomes a visible mark, and the
// text gets one in front.
type metaspace struct {
	mark   string
	scheme string // always, first or never
}

func (m metaspace) rewrite(s string, first bool) string {
	s = strings.ReplaceAll(s, " ", m.mark)
	if !strings.HasPrefix(s, m.mark) && (m.scheme == "always" || m.scheme == "first" && first) {
		s = m.mark + s
	}
	return s
}

// prefixSpace is add_prefix_space of the ByteLevel pre-tokenizer.
func prefixSpace(s string, _ bool) string {
	if strings.HasPrefix(s, " ") {
		return s
	}
	return " " + s
}
