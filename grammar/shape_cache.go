package grammar

import (
	"encoding/binary"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"weir/internal/memory"
)

// shapeCache keeps shapes for all grammars of a vocabulary. There are two: one for
// shapes whose states are those of the common rules (the insides of strings, numbers,
// any JSON), and one for shapes whose states are a grammar's own. They are apart so
// that an endless stream of new grammars does not drive out the common shapes.
type shapeCache struct {
	mu    sync.Mutex
	m     map[string]*shape
	bytes int64
	limit int64
	round atomic.Uint64 // how often everything was dropped; changed under mu

	memory *memory.Reservation // of bytes; nil: they are not counted
}

// charge reserves what s keeps in an account from now on, unless another one has it already.
func (s *shapeCache) charge(account *memory.Account) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.memory != nil {
		return
	}
	s.memory = account.Cache(func(int64) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.drop()
	})
	s.memory.Force(s.bytes)
}

// find returns the shape of key, or nil, and the round of the cache.
func (s *shapeCache) find(key string) (*shape, uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m[key], s.round.Load()
}

// shapeEntryBytes is about what an entry of the map takes beside its key and its shape.
const shapeEntryBytes = 64

// keep stores sh and returns the round of the cache, or reports false if there is no memory
// for it. When the limit is reached everything
// is dropped: what is in use will soon be there again, and keeping an order of use would
// cost every look-up.
func (s *shapeCache) keep(key string, sh *shape) (round uint64, kept bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m == nil || s.bytes > s.limit {
		s.drop()
	}
	n := sh.bytes() + int64(len(key)) + shapeEntryBytes
	if s.memory != nil && !s.memory.TryGrow(n) {
		return 0, false
	}
	s.m[key] = sh
	s.bytes += n
	return s.round.Load(), true
}

// drop drops everything. The caller holds mu.
func (s *shapeCache) drop() {
	if s.memory != nil {
		s.memory.Shrink(s.bytes)
	}
	s.m, s.bytes = make(map[string]*shape), 0
	s.round.Add(1)
}

// borrowed are the shapes that a machine has from a cache. As long as the cache has them,
// too, they count there. After the cache has dropped them, they count as the machine's.
type borrowed struct {
	round uint64
	bytes int64
}

// borrow counts a shape that cache has, or has had in the given round.
func (m *machine) borrow(cache *shapeCache, round uint64, sh *shape) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := &m.common
	if cache == &m.voc.outlinedShapes {
		b = &m.outlined
	}
	if b.round != round {
		m.bytes += b.bytes
		*b = borrowed{round: round}
	}
	b.bytes += sh.bytes()
}

// outlasted returns the bytes of the shapes of b that their cache does not have any more.
func (b *borrowed) outlasted(cache *shapeCache) int64 {
	if b.round == cache.round.Load() {
		return 0
	}
	return b.bytes
}

// shapeOf returns the shape of a relative position.
func (m *machine) shapeOf(rel *position, pace Pace) *shape {
	if sh := rel.shape.Load(); sh != nil {
		return sh
	}
	for !m.building.TryLock() {
		if pace == nil {
			m.building.Lock()
			break
		}
		if !pace(true) {
			fail(ErrAbandoned, "", "nobody waits for the mask any more")
		}
	}
	defer m.building.Unlock()
	m.pace = pace
	defer func() { m.pace = nil }()
	return m.makeShape(rel, 0)
}

// firstShape builds the shape of the root as a part of compiling: its visits are spent
// from meter, which refuses the grammar if they are too many.
func (m *machine) firstShape(meter *meter) {
	if len(m.root.tops) == 0 {
		return
	}
	m.meter, m.metered = meter, m.visits.Load()
	defer func() { m.meter = nil }()
	if m.shapeOf(m.splitOf(m.root).rel, nil).cost <= int64(m.bounds.step) {
		return
	}
	mask := make([]uint32, m.voc.words())
	if m.fillDirectly(m.root, mask, nil) && !slices.ContainsFunc(mask, func(w uint32) bool { return w != 0 }) {
		fail(ErrTooComplex, "", "the grammar is too ambiguous")
	}
}

// makeShape is shapeOf for a caller who holds building. Only one goroutine builds
// shapes of a machine at a time: another one would mostly need the same shape.
// nested is the number of shapes that are being built and wait for this one.
func (m *machine) makeShape(rel *position, nested int) *shape {
	if sh := rel.shape.Load(); sh != nil {
		return sh
	}
	cache, key := &m.voc.commonShapes, m.commonKey(rel)
	if key == "" {
		cache, key = &m.voc.outlinedShapes, m.outline(rel)
	}
	var sh *shape
	var round uint64
	if key != "" {
		sh, round = cache.find(key)
	}
	kept := sh != nil
	if !kept {
		sh = m.build(rel, nested)
		// One whose walk passed the bound of a step lacks tokens, and says so by its cost only to
		// machines with the same bound.
		if key != "" && sh.cost <= int64(m.bounds.step) {
			round, kept = cache.keep(key, sh)
		}
	}
	rel.shape.Store(sh)
	if kept {
		m.borrow(cache, round, sh)
	} else {
		m.mu.Lock()
		m.bytes += sh.bytes()
		m.mu.Unlock()
	}
	return sh
}

// commonKey is a name of a relative position that is the same in all grammars. It is
// "" if the position has states that are not those of common rules.
func (m *machine) commonKey(rel *position) string {
	var parts []string
	for _, f := range rel.tops {
		var p []byte
		for ; f.depth > 0; f = f.parent {
			if f.st >= m.net.common {
				return ""
			}
			p = binary.LittleEndian.AppendUint32(p, uint32(f.st))
			p = binary.LittleEndian.AppendUint32(p, uint32(f.need))
			p = binary.LittleEndian.AppendUint32(p, uint32(f.left))
		}
		parts = append(parts, string(binary.LittleEndian.AppendUint32(p, uint32(f.st)))) // which bottom
	}
	slices.Sort(parts)
	return strings.Join(parts, "")
}

// The shape of a relative position is looked up among those of other grammars if the
// position can reach at most maxOutline of the grammar's own states, and the outline
// of these has at most maxKey bytes. Patterns, ranges of numbers and the ends of
// constants reach a few states. The end of a property reaches the rest of the object.
const (
	maxOutline = 64
	maxKey     = 4096
)

// outline is a text of everything that decides the shape of a relative position: its
// stacks and the states that they can reach, which are numbered in the order in which
// they come up. So the masks of a pattern are built once for all grammars that have
// it, and once for a grammar that has it twice. It is "" if it would be too long.
func (m *machine) outline(rel *position) string {
	var list []int32 // the grammar's own states, in the order of their numbers here
	k := binary.AppendUvarint(make([]byte, 0, 512), uint64(len(rel.tops)))
	state := func(st int32) {
		if st >= m.net.common && len(list) <= maxOutline {
			i := slices.Index(list, st)
			if i < 0 {
				i = len(list)
				list = append(list, st)
			}
			st = m.net.common + int32(i)
		}
		k = binary.AppendVarint(k, int64(st))
	}
	for _, f := range rel.tops {
		k = binary.AppendUvarint(k, uint64(f.depth))
		for ; f.depth > 0; f = f.parent {
			state(f.st)
			k = binary.AppendVarint(binary.AppendVarint(k, int64(f.need)), int64(f.left))
			k = append(k, f.rec.code())
		}
		k = binary.AppendVarint(k, int64(f.st)) // which bottom
		if len(k) > maxKey {
			return ""
		}
	}
	for i := 0; i < len(list); i++ {
		if len(list) > maxOutline || len(k) > maxKey {
			return ""
		}
		st := m.net.at(list[i])
		flags := st.waysCode()
		if st.accept {
			flags |= 1
		}
		k = binary.AppendUvarint(append(k, flags), uint64(len(st.edges)))
		for _, e := range st.edges {
			k = append(k, e.lo, e.hi)
			state(e.to)
		}
		k = binary.AppendUvarint(k, uint64(len(st.steps)))
		for _, s := range st.steps {
			k = append(k, byte(s.kind))
			k = binary.AppendVarint(binary.AppendVarint(k, int64(s.need)), int64(s.left))
			if s.kind == stepCall {
				state(m.net.starts[s.rule])
			}
			state(s.to)
		}
	}
	return string(k)
}
