package grammar

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sync"
	"sync/atomic"
)

// machine runs a network. Where a text stands is a config: the set of stacks
// that its parses may have. Stacks are linked frames, and both frames and
// configs are interned, so the steps between configs form an automaton over byte
// classes that is built as it is walked (a lazily determinized graph-structured
// stack; Tomita 1986 for the stacks, RE2 for the laziness).
//
// Configs are immutable but for their transitions and shape, which are filled in
// once, under mu, and read without it.
type machine struct {
	net  *network
	voc  *Vocabulary
	root *config

	visits   atomic.Int64      // frames that close has looked at
	patience int64             // of those, how many one shape may take
	crowded  atomic.Bool       // a text was given up because it had more than maxStacks parses
	building sync.Mutex        // held, before mu, by whoever builds a shape
	flats    map[*config]*flat // under building

	mu      sync.Mutex
	frames  map[frameKey]*frame
	configs map[string]*config
	ids     uint64 // frames made so far; never reset, so ids stay unique over forget
	marks   uint64
	bytes   int64
	limit   int64
	key     []byte
	work    []*frame
	tops    []*frame
}

type frameKey struct {
	st, need, left int32
	parent         *frame
}

type frame struct {
	frameKey
	depth int32
	id    uint64
	mark  uint64 // under machine.mu
}

// The two bottoms of a stack: the end of the text, and, in a relative config,
// the frame from which the shape was cut.
var (
	bottom    = &frame{frameKey: frameKey{st: -1}}
	symBottom = &frame{frameKey: frameKey{st: -2}}
)

type config struct {
	tops   []*frame // those that read bytes, ordered by id
	accept bool     // the text may end here
	esc    bool     // relative config: symBottom was popped here
	next   []atomic.Pointer[config]
	seat   atomic.Pointer[seat]  // where its shape sits
	shape  atomic.Pointer[shape] // of a relative config
}

// dead is the config without a future.
var dead = &config{}

const (
	// maxStacks bounds how many parses may run side by side.
	maxStacks = 4096
	// maxVisits bounds what one mask may cost where a text is highly ambiguous, to
	// a second or two; masks of JSON need some ten thousand.
	maxVisits  = 20_000_000
	frameBytes = 120
)

func newMachine(net *network, voc *Vocabulary, limit int64) *machine {
	m := &machine{net: net, voc: voc, limit: limit, patience: maxVisits}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget()
	f := m.frame(frameKey{st: net.starts[net.root], left: -1, parent: bottom})
	m.root = m.close(append(m.work[:0], f))
	return m
}

// forget drops everything that was built, to keep memory within bounds. Configs
// that matchers still hold stay valid: what they lead to is built anew. Their
// transitions are cut, or one of them would keep the whole past alive.
func (m *machine) forget() {
	for _, c := range m.configs {
		for i := range c.next {
			c.next[i].Store(nil)
		}
		c.seat.Store(nil)
		c.shape.Store(nil)
	}
	m.frames, m.configs, m.bytes = make(map[frameKey]*frame), make(map[string]*config), 0
}

// frame interns a frame. Caller holds mu.
func (m *machine) frame(k frameKey) *frame {
	if f := m.frames[k]; f != nil {
		return f
	}
	m.ids++
	f := &frame{frameKey: k, depth: k.parent.depth + 1, id: m.ids}
	m.frames[k] = f
	m.bytes += frameBytes
	return f
}

// config interns a config over tops, which it sorts and copies. Caller holds mu.
func (m *machine) config(tops []*frame, accept, esc bool) *config {
	slices.SortFunc(tops, func(a, b *frame) int { return cmp.Compare(a.id, b.id) })
	flags := byte(0)
	if accept {
		flags |= 1
	}
	if esc {
		flags |= 2
	}
	m.key = append(m.key[:0], flags)
	for _, f := range tops {
		m.key = binary.LittleEndian.AppendUint64(m.key, f.id)
	}
	if c := m.configs[string(m.key)]; c != nil {
		return c
	}
	c := &config{tops: slices.Clone(tops), accept: accept, esc: esc, next: make([]atomic.Pointer[config], len(m.net.reps))}
	m.configs[string(m.key)] = c
	m.bytes += int64(128 + 8*len(c.next) + 17*len(tops))
	return c
}

// close follows steps and returns from the frames of work until only frames that
// read bytes are left. Caller holds mu.
func (m *machine) close(work []*frame) *config {
	m.marks++
	tops := m.tops[:0]
	accept, esc := false, false
	visits := int64(0)
	defer func() { m.visits.Add(visits) }()
	for len(work) > 0 {
		visits++
		f := work[len(work)-1]
		work = work[:len(work)-1]
		if f.mark == m.marks {
			continue
		}
		f.mark = m.marks
		st := m.net.at(f.st)
		if len(st.edges) > 0 {
			if tops = append(tops, f); len(tops) > maxStacks {
				m.work, m.tops = work, tops
				m.crowded.Store(true)
				return dead
			}
		}
		for i := range st.steps {
			s := &st.steps[i]
			k := f.frameKey
			k.st = s.to
			switch s.kind {
			case stepCall:
				up := f.parent
				if !s.tail {
					up = m.frame(k)
				}
				work = append(work, m.frame(frameKey{st: m.net.starts[s.rule], need: s.need, left: s.left, parent: up}))
			case stepTick:
				if k.left == 0 {
					continue
				}
				k.need = max(0, k.need-1)
				k.left = max(-1, k.left-1)
				work = append(work, m.frame(k))
			case stepGuard:
				if k.need == 0 {
					k.left = -1
					work = append(work, m.frame(k))
				}
			}
		}
		if st.accept {
			switch f.parent {
			case bottom:
				accept = true
			case symBottom:
				esc = true
			default:
				work = append(work, f.parent)
			}
		}
	}
	m.work, m.tops = work, tops
	if len(tops) == 0 && !accept && !esc {
		return dead
	}
	return m.config(tops, accept, esc)
}

// step is where byte b leads from c.
func (m *machine) step(c *config, b byte) *config {
	k := m.net.class[b]
	if n := c.next[k].Load(); n != nil {
		return n
	}
	return m.slowStep(c, k)
}

func (m *machine) slowStep(c *config, k uint8) *config {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := c.next[k].Load(); n != nil {
		return n
	}
	if m.bytes > m.limit {
		m.forget()
	}
	b := m.net.reps[k]
	work := m.work[:0]
	for _, f := range c.tops {
		for _, e := range m.net.at(f.st).edges {
			if e.lo <= b && b <= e.hi {
				key := f.frameKey
				key.st = e.to
				work = append(work, m.frame(key))
			}
		}
	}
	n := dead
	if len(work) > 0 {
		n = m.close(work)
	}
	c.next[k].Store(n)
	return n
}

// run is where the bytes of t lead from c; dead if they are not legal.
func (m *machine) run(c *config, t []byte) *config {
	for _, b := range t {
		if c == dead {
			break
		}
		c = m.step(c, b)
	}
	return c
}

// only is the byte that alone can follow c, if there is one and the text may not
// end here.
func (m *machine) only(c *config) (b byte, ok bool) {
	if c.accept {
		return 0, false
	}
	for _, f := range c.tops {
		for _, e := range m.net.at(f.st).edges {
			if e.lo != e.hi || ok && e.lo != b {
				return 0, false
			}
			b, ok = e.lo, true
		}
	}
	return b, ok
}
