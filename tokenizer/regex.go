package tokenizer

import (
	"sync/atomic"
	"unicode"
	"unicode/utf8"
)

// regex is a leftmost-first backtracking matcher for the pre-tokenizer patterns
// that no hand-written matcher covers: the part of Oniguruma's syntax that
// tokenizer.json files use (see compileRegex). RE2, so the standard library's
// regexp too, cannot express their `(?!\S)`.
//
// A run of one class is a single instruction that gives back one code point at a
// time, so the published patterns take a few steps per code point. A pattern like
// (a+)+b can take exponentially many, so every text has a budget of steps.
type regex struct {
	code    []inst
	classes []charSet
	ascii   [utf8.RuneSelf]uint64
	pages   [(unicode.MaxRune + 1) >> 8]atomic.Pointer[[256]uint64] // as classPages
}

// The matcher counts its steps: instructions, and code points that a run takes in.
// A text may take stepsPerText of them, and stepsPerByte for each byte that a
// pre-tokenizer looks at. Published patterns take up to 22 steps a byte, whatever
// the text. When the budget is used up, nothing matches any more and Encode returns
// ErrTooComplex.
const (
	stepsPerText = 1 << 16
	stepsPerByte = 128
)

// maxFrames bounds the memory of one match attempt. An attempt that needs more uses
// up the budget.
const maxFrames = 1 << 16

type opcode uint8

const (
	opAccept opcode = iota
	opRun           // min..max code points of class; a frame gives them back unless atomic
	opSplit         // go on at x, later at y
	opJump          // go on at x
	opLook          // the code up to x, which ends in opAccept, must match (or not: neg)
	opAnchor        // class is an anchor, which must hold
)

type inst struct {
	op       opcode
	neg      bool // opLook: must not match
	atomic   bool // opRun: possessive
	class    uint8
	x, y     int32
	min, max int32
}

// frame is an alternative that is left to try: the code at pc from pos and, if pos > low,
// then from every code point before it down to low.
type frame struct {
	pc       int32
	pos, low int
}

func (re *regex) mask(r rune) uint64 {
	page := re.pages[r>>8].Load()
	if page == nil {
		page = new([256]uint64)
		for i := range page {
			page[i] = re.compute(r&^0xff | rune(i))
		}
		re.pages[r>>8].Store(page)
	}
	return page[r&0xff]
}

func (re *regex) compute(r rune) uint64 {
	var m uint64
	for i := range re.classes {
		if re.classes[i].has(r) {
			m |= 1 << i
		}
	}
	return m
}

func (re *regex) at(s string, i int) (uint64, int) {
	if b := s[i]; b < utf8.RuneSelf {
		return re.ascii[b], 1
	}
	r, w := utf8.DecodeRuneInString(s[i:])
	return re.mask(r), w
}

func (re *regex) match(s string, i int, allow *allowance) int {
	if end := re.run(0, s, i, allow); end >= 0 {
		return end
	}
	return i
}

func (re *regex) find(s string, i int, allow *allowance) int {
	for i < len(s) && re.match(s, i, allow) == i {
		if allow.spent() {
			return len(s)
		}
		_, w := re.at(s, i)
		i += w
	}
	return i
}

// run returns the end of the match of the code at pc from s[i], or -1. It is in one
// piece because it is the main loop of the matcher: with the instructions in functions
// of their own, texts that need it were encoded 5 to 9 % slower.
//
//gocognit:ignore
func (re *regex) run(pc int32, s string, i int, allow *allowance) int {
	var room [16]frame
	stack := room[:0]
	for {
		allow.left--
		if allow.left <= 0 && !allow.refill() || len(stack) > maxFrames {
			allow.exhaust()
			return -1
		}
		ok := true
		switch in := &re.code[pc]; in.op {
		case opAccept:
			return i
		case opJump:
			pc = in.x
		case opSplit:
			stack = append(stack, frame{in.y, i, i})
			pc = in.x
		case opAnchor:
			ok = anchor(in.class).holds(s, i)
			pc++
		case opLook:
			if ok = (re.run(pc+1, s, i, allow) >= 0) != in.neg; ok {
				pc = in.x
			}
		case opRun:
			n, low := int32(0), i
			for n < in.max && i < len(s) {
				m, w := re.at(s, i)
				if m>>in.class&1 == 0 {
					break
				}
				i += w
				if n++; n == in.min {
					low = i
				}
			}
			allow.left -= int(n)
			pc++
			if ok = n >= in.min; ok && i > low && !in.atomic {
				stack = append(stack, frame{pc, i, low})
				stack[len(stack)-1].back(s)
			}
		}
		if ok {
			continue
		}
		if len(stack) == 0 {
			return -1
		}
		top := &stack[len(stack)-1]
		pc, i = top.pc, top.pos
		if top.pos > top.low {
			top.back(s)
		} else {
			stack = stack[:len(stack)-1]
		}
	}
}

// back moves the frame to the code point before.
func (f *frame) back(s string) {
	_, w := utf8.DecodeLastRuneInString(s[:f.pos])
	f.pos -= w
}
