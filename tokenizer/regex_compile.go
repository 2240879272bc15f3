package tokenizer

import (
	"errors"
	"fmt"
)

// Limits of a pattern. Published ones have up to 20 classes and 60 instructions.
const (
	maxPattern = 4096 // bytes
	maxNesting = 32
	maxClasses = 64 // bits of a mask
	maxCode    = 4096
	maxRepeat  = 1000
	unlimited  = 1<<31 - 1
)

// compileRegex compiles classes (also nested, with && and \p{..}), alternation, groups,
// (?i:..), look-ahead, the anchors ^, $, \A, \z, \b and \B, greedy quantifiers, and possessive
// ones on a single class. It refuses what no pre-tokenizer needs: lazy quantifiers, counted
// possessive ones, atomic groups, look-behind, back-references, and patterns that may match
// nothing.
func compileRegex(pattern string) (*regex, error) {
	if len(pattern) > maxPattern {
		return nil, fmt.Errorf("longer than %d bytes", maxPattern)
	}
	p := &parser{src: pattern}
	syn, err := p.alternatives()
	if err == nil && p.more() {
		err = errors.New("unmatched )")
	}
	if err != nil {
		return nil, fmt.Errorf("at byte %d of %.200q: %w", p.pos, pattern, err)
	}
	if syn.minLen() == 0 {
		return nil, fmt.Errorf("%.200q may match nothing", pattern)
	}
	c := &compiler{re: &regex{}, index: map[string]uint8{}}
	if err := c.emit(&syn); err != nil {
		return nil, fmt.Errorf("%.200q: %w", pattern, err)
	}
	c.add(inst{op: opAccept})
	for r := range c.re.ascii {
		c.re.ascii[r] = c.re.compute(rune(r))
	}
	return c.re, nil
}

type compiler struct {
	re    *regex
	index map[string]uint8 // class by its printed form
}

func (c *compiler) add(in inst) int32 {
	c.re.code = append(c.re.code, in)
	return int32(len(c.re.code) - 1)
}

func (c *compiler) class(set charSet) (uint8, error) {
	key := fmt.Sprint(set)
	if i, ok := c.index[key]; ok {
		return i, nil
	}
	if len(c.re.classes) == maxClasses {
		return 0, fmt.Errorf("more than %d character classes", maxClasses)
	}
	i := uint8(len(c.re.classes))
	c.re.classes, c.index[key] = append(c.re.classes, set), i
	return i, nil
}

func (c *compiler) emit(s *syntax) error {
	if len(c.re.code) > maxCode {
		return fmt.Errorf("more than %d instructions", maxCode)
	}
	switch s.kind {
	case synSet:
		return c.emitRun(s.set, 1, 1, false)
	case synSequence:
		for i := range s.sub {
			if err := c.emit(&s.sub[i]); err != nil {
				return err
			}
		}
	case synAlternatives:
		var ends []int32
		for i := range s.sub {
			last := i == len(s.sub)-1
			split := int32(-1)
			if !last {
				split = c.add(inst{op: opSplit})
				c.re.code[split].x = split + 1
			}
			if err := c.emit(&s.sub[i]); err != nil {
				return err
			}
			if !last {
				ends = append(ends, c.add(inst{op: opJump}))
				c.re.code[split].y = int32(len(c.re.code))
			}
		}
		for _, j := range ends {
			c.re.code[j].x = int32(len(c.re.code))
		}
	case synRepeat:
		return c.emitRepeat(s)
	case synAnchor:
		c.add(inst{op: opAnchor, class: uint8(s.anchor)})
	case synLook:
		look := c.add(inst{op: opLook, neg: s.neg})
		if err := c.emit(&s.sub[0]); err != nil {
			return err
		}
		c.add(inst{op: opAccept})
		c.re.code[look].x = int32(len(c.re.code))
	}
	return nil
}

func (c *compiler) emitRun(set charSet, lo, hi int32, atomic bool) error {
	class, err := c.class(set)
	c.add(inst{op: opRun, class: class, min: lo, max: hi, atomic: atomic})
	return err
}

func (c *compiler) emitRepeat(s *syntax) error {
	body := &s.sub[0]
	if body.kind == synSet {
		return c.emitRun(body.set, s.min, s.max, s.atomic)
	}
	if s.max > 1 && body.minLen() == 0 {
		return errors.New("repeats a group that may match nothing")
	}
	for range s.min {
		if err := c.emit(body); err != nil {
			return err
		}
	}
	if s.max == unlimited { // split(body, out); body; jump back
		split := c.add(inst{op: opSplit})
		c.re.code[split].x = split + 1
		if err := c.emit(body); err != nil {
			return err
		}
		c.add(inst{op: opJump, x: split})
		c.re.code[split].y = int32(len(c.re.code))
		return nil
	}
	var splits []int32
	for range s.max - s.min {
		split := c.add(inst{op: opSplit})
		c.re.code[split].x = split + 1
		splits = append(splits, split)
		if err := c.emit(body); err != nil {
			return err
		}
	}
	for _, split := range splits {
		c.re.code[split].y = int32(len(c.re.code))
	}
	return nil
}
