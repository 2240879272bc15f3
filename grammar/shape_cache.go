package grammar

import (
	"encoding/binary"
	"slices"
	"strings"
	"sync"
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
}

func (s *shapeCache) find(key string) *shape {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m[key]
}

// keep stores sh. When the limit is reached everything is dropped: what is in use
// will soon be there again, and keeping an order of use would cost every look-up.
func (s *shapeCache) keep(key string, sh *shape) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m == nil || s.bytes > s.limit {
		s.m, s.bytes = make(map[string]*shape), 0
	}
	s.m[key] = sh
	s.bytes += sh.bytes() + int64(len(key))
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
	m.shapeOf(m.splitOf(m.root).rel, nil)
}

// makeShape is shapeOf for a caller who holds building. Only one goroutine builds
// shapes of a machine at a time: another one would mostly need the same shape.
// nested is the number of shapes that are being built and wait for this one.
func (m *machine) makeShape(rel *position, nested int) *shape {
	if sh := rel.shape.Load(); sh != nil {
		return sh
	}
	cache, key := &m.voc.commonShapes, m.commonKey(rel)
	own := key == ""
	if own {
		cache, key = &m.voc.outlinedShapes, m.outline(rel)
	}
	var sh *shape
	if key != "" {
		sh = cache.find(key)
	}
	if sh == nil {
		sh = m.build(rel, nested)
		if key != "" && !m.tooAmbiguous.Load() { // a shape that was given up is wrong for others
			cache.keep(key, sh)
		}
	}
	rel.shape.Store(sh)
	if own {
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
		flags := byte(0)
		if st.accept {
			flags = 1
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
