package grammar

import (
	"math"
	"slices"
	"weak"
)

// Some constraints compare values: the elements of an array with uniqueItems must
// differ, and so must the names of an object's properties. An automaton cannot
// remember what it has read, so a frame can: between a stepRecord and a stepRecorded,
// the bytes that it reads are a value, and stepRecorded is not taken if the frame has
// read the same value before. The languages of such values have one spelling for
// each, so equal values are equal texts.
//
// There are no dead ends. A state in which a value is read says how many ways there
// are to complete it (state.ways). As long as these are more than the earlier values
// that begin in the same way, one of them is still free; a step to a state without a
// free one is not taken.
//
// What a frame remembers would make every mask new. But a value that has left all
// earlier ones behind can end in any way, whatever the earlier ones were. So the shapes
// of such positions forget them (frame.rec becomes one of the constants below), and
// tokens in which that matters, because they hold another whole value or one of finitely
// many, are decided for each mask. Where earlier values do go on in the same way, their texts are taken out
// of the mask (machine.subtract).

// record is what a frame remembers. It is interned, as frames are, and only next changes. Frames
// are forgotten with everything that was built, but those of a matcher live on, and what they
// remember must stay equal to what other matchers read: two records of one text would be two
// stacks, which take more visits than one (see ambiguity.go). So a record is forgotten only when
// no frame and no later record holds it, which the weak pointers of next leave to the garbage
// collector.
type record struct {
	before *record   // the record one step earlier; nil before the first one
	op     int16     // the step: the byte that was read, opRecord or opRecorded
	values *recorded // the values so far, the latest first
	open   bool      // a value is being read
	rest   []string  // with open: how the earlier values go on that begin with what has been read

	next []weak.Pointer[record] // the records one step later; under machine.mu
}

const (
	opRecord   = 256
	opRecorded = 257
)

// recorded is a list of values.
type recorded struct {
	text string
	next *recorded
}

// The records of shapes, which hold wherever the shape is.
var (
	betweenValues = &record{}           // no value is being read, and the earlier ones are not known
	freshValue    = &record{open: true} // a value that differs from all earlier ones in what has been read, or for which machine.subtract decides
	unknownValue  = &record{open: true} // a value that began after betweenValues: nothing is known of how it compares with earlier ones
	doubtful      = &record{open: true} // it depends on earlier values whether the frame is there
)

// endless is the number of ways where there is no bound.
const endless = math.MaxUint32

// blurred reports whether r is one of the records of shapes.
func (r *record) blurred() bool {
	return r == betweenValues || r == freshValue || r == unknownValue || r == doubtful
}

// recordOp is the record after op. The caller holds mu.
func (m *machine) recordOp(r *record, op int16) *record {
	switch {
	case r == freshValue && op == opRecorded:
		return betweenValues
	case r == betweenValues:
		return unknownValue
	case r.blurred():
		return r
	}
	gone := false
	for _, p := range r.next {
		n := p.Value()
		if n != nil && n.op == op {
			return n
		}
		gone = gone || n == nil
	}
	if gone {
		r.next = slices.DeleteFunc(r.next, func(p weak.Pointer[record]) bool { return p.Value() == nil })
	}
	n := &record{before: r, op: op, values: r.values, open: op != opRecorded}
	switch op {
	case opRecord:
		for v := r.values; v != nil; v = v.next {
			n.rest = append(n.rest, v.text)
		}
	case opRecorded:
		n.values = &recorded{r.text(), r.values}
		m.bytes += int64(48 + len(n.values.text))
	default:
		for _, t := range r.rest {
			if t != "" && t[0] == byte(op) {
				n.rest = append(n.rest, t[1:])
			}
		}
	}
	r.next = append(r.next, weak.Make(n))
	m.bytes += int64(200 + 16*cap(n.rest))
	return n
}

// text is the value that is being read.
func (r *record) text() string {
	var b []byte
	for ; r.op != opRecord; r = r.before {
		b = append(b, byte(r.op))
	}
	slices.Reverse(b)
	return string(b)
}

// repeats reports whether the value that is being read is, so far, one of the earlier
// ones.
func (r *record) repeats() bool { return slices.Contains(r.rest, "") }

// free reports whether a value with the record r can be completed from the state st to
// one that differs from all earlier ones.
func (m *machine) free(r *record, st int32) bool {
	return uint64(len(r.rest)) < uint64(m.net.at(st).ways)
}

// undecided reports whether it depends on values that f does not know whether f can go
// on. Then f, which is in a relative position, becomes doubtful.
func (m *machine) undecided(f *frame) bool {
	if f.rec != unknownValue {
		return false
	}
	st := m.net.at(f.st)
	return st.ways != endless || slices.ContainsFunc(st.steps, func(s step) bool { return s.kind == stepRecorded })
}

// recordStep changes the record of k, which takes the step s. It reports false if the
// step cannot be taken. The caller holds mu.
func (m *machine) recordStep(k *frameKey, s *step) bool {
	if k.rec == doubtful {
		return true
	}
	if s.kind == stepRecord {
		r := k.rec
		if r == nil {
			r = m.net.values
		}
		k.rec = m.recordOp(r, opRecord)
		return m.free(k.rec, s.to)
	}
	if k.rec == unknownValue || k.rec.repeats() {
		return false
	}
	k.rec = m.recordOp(k.rec, opRecorded)
	return true
}

// recordByte changes the record of k, which is reading a value, has read b and goes on
// to the state k.st. It reports false if it cannot. The caller holds mu.
func (m *machine) recordByte(k *frameKey, b byte) bool {
	if k.rec == doubtful {
		return true
	}
	k.rec = m.recordOp(k.rec, int16(b))
	return m.free(k.rec, k.st)
}

// blur finds out whether p has records of shapes, and whether it depends on earlier values
// whether there is a stack at all.
func (m *machine) blur(p *position) {
	if m.net.values == nil {
		return
	}
	p.doubtful = len(p.tops) > 0
	for _, top := range p.tops {
		doubts := false
		for f := top; f.depth > 0; f = f.parent {
			p.blurred = p.blurred || f.rec != nil && f.rec.blurred()
			doubts = doubts || f.rec == doubtful
		}
		p.doubtful = p.doubtful && doubts
	}
}

// recordsAbove reports whether a frame of the stack top above base has a record.
func recordsAbove(top, base *frame) bool {
	for f := top; f != base; f = f.parent {
		if f.rec != nil {
			return true
		}
	}
	return false
}

// recordParts divides tops, which are above base, so that the mask of each part can be made
// with a shape that forgets values: stacks without records, whose shapes are not concerned,
// and stacks whose values may still become equal to earlier ones, each by itself. The mask of
// tops is the union of those of the parts. It is nil if there is nothing to divide.
func (m *machine) recordParts(tops []*frame, base *frame) [][]*frame {
	var plain, recorded, contested []*frame
	for _, top := range tops {
		switch {
		case !recordsAbove(top, base):
			plain = append(plain, top)
		case top.rec != nil && len(top.rec.rest) > 0:
			contested = append(contested, top)
			fallthrough
		default:
			recorded = append(recorded, top)
		}
	}
	switch {
	case len(recorded) == 0:
		return nil
	case len(plain) > 0:
		return [][]*frame{plain, recorded}
	case len(contested) == 0 || len(contested) == 1 && m.apart(contested[0], tops):
		return nil
	}
	parts := make([][]*frame, 0, len(contested)+1)
	for _, f := range contested {
		parts = append(parts, []*frame{f})
	}
	if len(recorded) > len(contested) {
		free := slices.DeleteFunc(recorded, func(f *frame) bool { return slices.Contains(contested, f) })
		parts = append(parts, free)
	}
	return parts
}

// contested is the one of tops whose value may still become equal to an earlier one, or nil.
func contested(tops []*frame) *frame {
	for _, f := range tops {
		if f.rec != nil && len(f.rec.rest) > 0 {
			return f
		}
	}
	return nil
}

// apart reports whether no byte that f reads is read by another one of tops, so that a
// token that begins with such a byte is legal because of f alone.
func (m *machine) apart(f *frame, tops []*frame) bool {
	var bytes [256]bool
	for _, e := range m.net.at(f.st).edges {
		for b := int(e.lo); b <= int(e.hi); b++ {
			bytes[b] = true
		}
	}
	return !slices.ContainsFunc(tops, func(top *frame) bool {
		return top != f && slices.ContainsFunc(m.net.at(top.st).edges, func(e edge) bool { return slices.Contains(bytes[e.lo:int(e.hi)+1], true) })
	})
}

// fillParts is fillShaped for a position that is the union of others.
func (m *machine) fillParts(parts []*position, mask []uint32, pace Pace) (cost int64) {
	part := make([]uint32, len(mask))
	cost = m.fillShaped(parts[0], mask, pace)
	for _, p := range parts[1:] {
		if cost > int64(m.bounds.step) {
			break
		}
		cost += m.fillShaped(p, part, pace)
		for i, w := range part {
			mask[i] |= w
		}
	}
	return cost
}

// compareRecords orders records that are not those of shapes by what has been read.
func compareRecords(r, s *record) int {
	if r == s {
		return 0
	}
	return slices.Compare(r.ops(), s.ops())
}

// ops are the steps that have led to r, the last one first.
func (r *record) ops() []int16 {
	var ops []int16
	for ; r != nil && r.before != nil; r = r.before {
		ops = append(ops, r.op)
	}
	return ops
}

// blurRecord makes equal what no shape may depend on.
func blurRecord(k frameKey) frameKey {
	switch {
	case k.rec == nil || k.rec == unknownValue:
	case k.rec.open:
		k.rec = freshValue
	default:
		k.rec = betweenValues
	}
	return k
}

// subtract takes those tokens out of mask that repeat a value which f may still repeat,
// or after which only repetitions would be left.
func (m *machine) subtract(f *frame, mask []uint32) {
	s := &subtraction{m: m, mask: mask}
	s.below(0, len(m.voc.nodes), f.st, f.rec.rest)
}

// subtraction is one run of machine.subtract.
type subtraction struct {
	m    *machine
	mask []uint32
}

// below looks at the nodes from from to to of the vocabulary's trie, which have one
// parent, and what is below them. The value is in the state st there, and rest says how
// the earlier values go on.
func (s *subtraction) below(from, to int, st int32, rest []string) {
	var by map[byte][]string
	for _, t := range rest {
		if t != "" {
			if by == nil {
				by = make(map[byte][]string)
			}
			by[t[0]] = append(by[t[0]], t[1:])
		}
	}
	if by == nil {
		return
	}
	nodes := s.m.voc.nodes
	for i := from; i < to; i += int(nodes[i].skip) {
		left := by[nodes[i].b]
		next := s.m.net.next(st, nodes[i].b)
		if len(left) == 0 || next < 0 {
			continue
		}
		end := i + int(nodes[i].skip)
		if uint64(len(left)) >= uint64(s.m.net.at(next).ways) {
			s.remove(i)
			continue
		}
		if slices.Contains(left, "") {
			for k := i + 1; k < end; k += int(nodes[k].skip) {
				if s.m.net.next(next, nodes[k].b) < 0 { // the value would end here
					s.remove(k)
				}
			}
		}
		s.below(i+1, end, next, left)
	}
}

// remove takes the tokens of node i and below it out of the mask.
func (s *subtraction) remove(i int) {
	for _, tok := range s.m.voc.tokensBelow(i) {
		s.m.voc.unset(s.mask, tok)
	}
}

// next is the state that byte b leads to from st, or -1. Values are read by automata
// that are deterministic.
func (n *network) next(st int32, b byte) int32 {
	for _, e := range n.at(st).edges {
		if e.lo <= b && b <= e.hi {
			return e.to
		}
	}
	return -1
}

// decideBlurred records what becomes of the token that ends at n, the end of the path p
// of a walk from a position with blurred records. A token that pops, or that leads to
// doubtful stacks only, is decided for each mask as a whole, because what becomes of it
// depends on the values before it.
func (w *trieWalk) decideBlurred(n *node, p *path) {
	at := p.at[n.depth]
	if len(at.tops) > 0 && !at.doubtful || at.accept {
		w.legal(n.token)
	} else if at.doubtful || p.popsUpTo[n.depth] > 0 {
		w.popping = append(w.popping, poppingToken{n.token, 0})
	}
}

// code is a byte that tells apart what a shape may depend on.
func (r *record) code() byte {
	switch r {
	case nil:
		return 0
	case betweenValues:
		return 1
	case freshValue:
		return 2
	}
	return 3
}

// waysCode is the same for outlines: of the number of ways, a shape depends on whether
// there is a bound.
func (s *state) waysCode() byte {
	switch s.ways {
	case 0:
		return 0
	case endless:
		return 2
	}
	return 4
}
