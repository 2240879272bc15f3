package grammar

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"sync"
	"sync/atomic"
)

// machine runs a network. A text may have several parses so far, and each of them
// has a stack of rules that have not returned. The set of these stacks is the
// position of the text. Stacks are linked frames, and both frames and positions are
// interned: equal ones are the same pointer. So the steps between positions form an
// automaton over classes of bytes, which is built as texts walk through it. The
// stacks are Tomita's graph-structured stack (1986); building an automaton lazily is
// how RE2 runs regular expressions.
//
// A position never changes, but its transitions, split and shape are filled in once,
// under mu, and read without it.
type machine struct {
	net  *network
	voc  *Vocabulary
	root *position

	visits   atomic.Int64            // frames that close has looked at
	bounds   bounds                  // see ambiguity.go
	building sync.Mutex              // held, before mu, by whoever builds a shape
	static   int64                   // bytes of net
	hold     atomic.Pointer[holding] // the memory that is reserved for the grammar; nil: it is not counted

	live liveTables // under building

	meter   *meter // of the compilation, while it builds the first shape; nil afterwards
	metered int64  // the visits that meter knows of
	pace    Pace   // of the fill that builds a shape, under building; nil: none

	mu        sync.Mutex
	frames    map[frameKey]*frame
	positions map[string]*position
	made      []*position // all of them
	fading    []*position // those that were forgotten and are not cut yet
	ids       uint64      // frames made so far; never reset, so that ids stay unique after forget
	rounds    uint64      // how often everything was forgotten
	bytes     int64       // what was built takes about this much memory
	templates projections
	common    borrowed
	outlined  borrowed
	limit     int64
	closing
}

// closing is the state of machine.close and what it calls.
type closing struct {
	marks    uint64   // passes of close so far
	pending  []*frame // scratch of close
	tops     []*frame // scratch of close
	counting []*frame // scratch of joinCounts
	key      []byte   // scratch of position
	floor    *frame   // of stepAbove, while close works for it; otherwise nil
}

// frame is a running rule: the state st that it is in, its two counters (see step),
// and the frame of the rule that called it.
type frame struct {
	frameKey
	depth int32 // frames from the bottom to this one
	id    uint64
	round uint64 // the value of machine.rounds when the frame was made
	mark  uint64 // the last pass of close that saw the frame; under machine.mu
	heir  *frame // the frame that took its place in a later round, see adopt; under machine.mu
}

type frameKey struct {
	st, need, left int32
	parent         *frame
	rec            *record // the values that must differ (record.go); nil: none yet
}

// never is a need that no number of ticks fulfils. Frames of relative positions have it if
// theirs is more than the longest token can fulfil.
const never = math.MaxInt32

// The two bottoms of a stack: the end of the text, and, in a relative position (see
// shape), the place where the stack was cut off.
var (
	bottom         = &frame{frameKey: frameKey{st: -1}}
	symbolicBottom = &frame{frameKey: frameKey{st: -2}}
)

// position is where a text is in the grammar: the set of stacks that its parses may
// have.
type position struct {
	tops  []*frame                   // the top of each stack; all of them read bytes; ordered by id
	next  []atomic.Pointer[position] // by class of byte; nil: not known yet
	split atomic.Pointer[split]
	shape atomic.Pointer[shape]    // of a relative position
	named atomic.Pointer[[]uint32] // see namedAfter
	thin  atomic.Pointer[position] // see thinned; nil: not known yet
	known *known                   // of the walk under way; under machine.building

	accept   bool         // the text may end here
	pops     bool         // relative position: the last byte popped the symbolic bottom
	blurred  bool         // relative position: its shape forgets values that must differ (record.go)
	doubtful bool         // relative position: it depends on those values whether it can be reached
	filled   atomic.Bool  // all that a mask needs from here on has been built
	gaveUp   atomic.Bool  // the mask takes too much work
	cost     atomic.Int32 // the most visits that a step from here has taken
	seen     uint32       // the last search of searchLive that came here; under machine.building
	seenAt   charState    // where it was in a character
}

// dead is the position after which nothing can follow.
var dead = &position{}

const frameBytes = 136 // memory of a frame and its map entry, roughly

func newMachine(net *network, voc *Vocabulary, limit int64) *machine {
	m := &machine{net: net, voc: voc, limit: limit, bounds: defaultBounds, static: net.bytes()}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget()
	f := m.frame(frameKey{st: net.starts[net.root], left: -1, parent: bottom})
	m.root, _ = m.close(append(m.pending[:0], f))
	return m
}

// forget drops everything that was built, to keep memory within bounds. Positions
// that matchers still hold stay valid, and what they lead to is built again. Their
// transitions are cut, because otherwise one of them would keep all of it alive. There
// may be a hundred thousand positions, so that is done in the steps that follow (fade).
func (m *machine) forget() {
	m.fading, m.made = append(m.fading, m.made...), nil
	m.rounds++
	m.frames, m.positions, m.bytes = make(map[frameKey]*frame), make(map[string]*position), 0
	m.common, m.outlined = borrowed{}, borrowed{}
	m.templates = projections{}
}

// fadePerStep is how many positions are cut in each step that builds one.
const fadePerStep = 256

// fade cuts the transitions of some of the positions that were forgotten. The caller
// holds mu.
func (m *machine) fade() {
	n := max(0, len(m.fading)-fadePerStep)
	for _, p := range m.fading[n:] {
		for i := range p.next {
			p.next[i].Store(nil)
		}
		p.split.Store(nil)
		p.shape.Store(nil)
		p.named.Store(nil)
		p.filled.Store(false)
	}
	clear(m.fading[n:])
	if m.fading = m.fading[:n]; n == 0 {
		m.fading = nil
	}
}

// held is about how much memory all that was built takes. The caller holds mu.
func (m *machine) held() int64 {
	return m.bytes + m.templates.bytes + m.common.outlasted(&m.voc.commonShapes) + m.outlined.outlasted(&m.voc.outlinedShapes)
}

// frame interns a frame. The caller holds mu.
func (m *machine) frame(k frameKey) *frame {
	if f := m.frames[k]; f != nil {
		return f
	}
	m.ids++
	f := &frame{frameKey: k, depth: k.parent.depth + 1, id: m.ids, round: m.rounds}
	m.frames[k] = f
	m.bytes += frameBytes
	return f
}

// position interns the position with the given tops, which it sorts and copies. The
// caller holds mu.
func (m *machine) position(tops []*frame, accept, pops bool) *position {
	slices.SortFunc(tops, func(a, b *frame) int { return cmp.Compare(a.id, b.id) })
	tops = slices.Compact(tops)
	flags := byte(0)
	if accept {
		flags |= 1
	}
	if pops {
		flags |= 2
	}
	m.key = append(m.key[:0], flags)
	for _, f := range tops {
		m.key = binary.LittleEndian.AppendUint64(m.key, f.id)
	}
	if p := m.positions[string(m.key)]; p != nil {
		return p
	}
	p := &position{tops: slices.Clone(tops), accept: accept, pops: pops, next: make([]atomic.Pointer[position], len(m.net.reps))}
	m.blur(p)
	m.positions[string(m.key)] = p
	m.made = append(m.made, p)
	m.bytes += int64(136 + 8*len(p.next) + 17*len(tops))
	return p
}

// close is the position that the given frames lead to without reading a byte: it
// runs their calls, counts and returns until only frames that read bytes are left.
// It is dead if that takes more visits than a step may. It keeps the slice as
// scratch. The caller holds mu.
func (m *machine) close(frames []*frame) (p *position, visits int32) {
	m.marks++
	m.pending, m.tops = frames, m.tops[:0]
	accept, pops := false, false
	defer func() { m.visits.Add(int64(visits)) }()
	for len(m.pending) > 0 {
		if visits++; visits > m.bounds.step {
			return dead, visits
		}
		f := m.pending[len(m.pending)-1]
		m.pending = m.pending[:len(m.pending)-1]
		if f.mark == m.marks {
			continue
		}
		f.mark = m.marks
		if m.undecided(f) {
			k := f.frameKey
			k.rec = doubtful
			m.pending = append(m.pending, m.frame(k))
			continue
		}
		st := m.net.at(f.st)
		if len(st.edges) > 0 {
			m.tops = append(m.tops, f)
		}
		for i := range st.steps {
			m.take(f, &st.steps[i])
		}
		if st.accept {
			switch {
			case f.parent == m.floor: // never nil
			case f.parent == symbolicBottom || f.rec == doubtful:
				pops = true
			case f.parent == bottom:
				accept = true
			default:
				m.pending = append(m.pending, f.parent)
			}
		}
	}
	if len(m.tops) == 0 && !accept && !pops {
		return dead, visits
	}
	m.joinCounts(0)
	m.joinCounts(1)
	return m.position(m.tops, accept, pops), visits
}

// take adds the frame that s leads to from f to those that close has to look at,
// unless the counters of f forbid the step. The caller holds mu.
func (m *machine) take(f *frame, s *step) {
	k := f.frameKey
	k.st = s.to
	switch s.kind {
	case stepCall:
		caller := f.parent
		if !s.tail && !(s.folds && caller.st == s.to && caller != m.floor && k.rec == nil && caller.rec == nil) {
			caller = m.frame(k)
		}
		k = frameKey{st: m.net.starts[s.rule], need: s.need, left: s.left, parent: caller}
	case stepTick:
		if k.left == 0 {
			return
		}
		if k.need != never {
			k.need = max(0, k.need-1)
		}
		k.left = max(-1, k.left-1)
		if !s.agrees(k.need, k.left) {
			return
		}
	case stepCheck:
		if !s.agrees(k.need, k.left) {
			return
		}
	case stepGuard:
		if k.need > 0 {
			return
		}
		k.left = -1
	case stepRecord, stepRecorded:
		if !m.recordStep(&k, s) {
			return
		}
	}
	m.pending = append(m.pending, m.frame(k))
}

// step is the position that byte b leads to from p, or dead.
func (m *machine) step(p *position, b byte) *position {
	k := m.net.class[b]
	if n := p.next[k].Load(); n != nil {
		return n
	}
	n, _ := m.slowStep(p, k)
	return n
}

// slowStep is step for a class of bytes whose transition is not known yet. It returns
// the visits that it has taken as well.
func (m *machine) slowStep(p *position, k uint8) (n *position, visits int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := p.next[k].Load(); n != nil {
		return n, 0
	}
	if held := m.held(); held > m.limit || !m.hold.Load().cover(m.static+held, m.voc) {
		m.forget()
	}
	if len(m.fading) > 0 {
		m.fade()
	}
	n = dead
	if frames := m.readers(p, k); len(frames) > 0 {
		n, visits = m.close(frames)
		p.cost.Store(max(p.cost.Load(), visits))
	}
	p.next[k].Store(n)
	return n, visits
}

// readers are the frames that a byte of class k leads to from the tops of p, in m.pending.
// The caller holds mu.
func (m *machine) readers(p *position, k uint8) []*frame {
	b := m.net.reps[k]
	frames := m.pending[:0]
	for _, f := range p.tops {
		f = m.adopt(f)
		for _, e := range m.net.at(f.st).edges {
			if e.lo <= b && b <= e.hi {
				key := f.frameKey
				key.st = e.to
				if key.rec != nil && key.rec.open && !m.recordByte(&key, b) {
					continue
				}
				frames = append(frames, m.frame(key))
			}
		}
	}
	return frames
}

// run is the position that the bytes of t lead to from p, or dead.
func (m *machine) run(p *position, t []byte) *position {
	for _, b := range t {
		if p == dead {
			break
		}
		p = m.step(p, b)
	}
	return p
}

// onlyByte is the one byte that can follow p; false if the text may end here or if
// more than one byte can follow.
func (m *machine) onlyByte(p *position) (b byte, ok bool) {
	if p.accept {
		return 0, false
	}
	for _, f := range p.tops {
		for _, e := range m.net.at(f.st).edges {
			if e.lo != e.hi || ok && e.lo != b {
				return 0, false
			}
			b, ok = e.lo, true
		}
	}
	return b, ok
}
