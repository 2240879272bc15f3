package kvstore

import (
	"container/list"

	"weir/kvcache"
)

// memory has copies in memory, in the order in which they were used.
type memory struct {
	most, bytes int64
	items       map[kvcache.Key]*list.Element // of *item
	order       *list.List                    // oldest first
}

type item struct {
	key  kvcache.Key
	data []byte
}

func newMemory(most int64) memory {
	return memory{most: most, items: map[kvcache.Key]*list.Element{}, order: list.New()}
}

// add keeps a copy of data, in place of those that were used longest ago. The memory of one of the same size is used again.
func (m *memory) add(k kvcache.Key, data []byte) {
	if int64(len(data)) > m.most || m.items[k] != nil {
		return
	}
	var room []byte
	for m.bytes+int64(len(data)) > m.most {
		e := m.order.Front()
		old := m.order.Remove(e).(*item)
		delete(m.items, old.key)
		m.bytes -= int64(len(old.data))
		if len(old.data) == len(data) {
			room = old.data
		}
	}
	if room == nil {
		room = make([]byte, len(data))
	}
	copy(room, data)
	m.items[k] = m.order.PushBack(&item{k, room})
	m.bytes += int64(len(data))
}

// get is the copy of n bytes that is kept; nil: there is none.
func (m *memory) get(k kvcache.Key, n int) []byte {
	e := m.items[k]
	if e == nil || len(e.Value.(*item).data) != n {
		return nil
	}
	m.order.MoveToBack(e)
	return e.Value.(*item).data
}

func (m *memory) touch(k kvcache.Key) {
	if e := m.items[k]; e != nil {
		m.order.MoveToBack(e)
	}
}
