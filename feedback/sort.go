package feedback

import (
	"bytes"
	"container/heap"
	"context"
	"slices"
	"unsafe"

	"weir/internal/memory"
	"weir/internal/pace"
	"weir/internal/query"
	"weir/store"
)

// sortRow is a record to be sorted: its position, and the values that order it.
type sortRow struct {
	at   position
	keys []query.Value
}

// rowHeap is a heap whose root is the sortRow that comes last in the order.
type rowHeap struct {
	list  []sortRow
	sort  []order
	meter *pace.Meter
	bytes int // that the list holds, about
	ctx   context.Context
	taken int // bytes that were reserved with ctx
}

// take reserves the memory of the list (package memory), some more than it has now.
func (h *rowHeap) take() error {
	if h.bytes <= h.taken {
		return nil
	}
	n := h.bytes + h.bytes/2 - h.taken + 64<<10
	if err := memory.Take(h.ctx, int64(n)); err != nil {
		return err
	}
	h.taken += n
	return nil
}

// maxSortBytes bounds the memory of the rows that a query sorts.
const maxSortBytes = 128 << 20

// size is about how many bytes of memory a row holds.
func (r *sortRow) size() int {
	n := int(unsafe.Sizeof(*r)) + len(r.keys)*int(unsafe.Sizeof(query.Value{}))
	for i := range r.keys {
		n += len(r.keys[i].Text)
	}
	return n
}

func (h *rowHeap) Len() int { return len(h.list) }

func (h *rowHeap) Less(i, j int) bool { return h.before(&h.list[j], &h.list[i]) }

func (h *rowHeap) Swap(i, j int) { h.list[i], h.list[j] = h.list[j], h.list[i] }

func (h *rowHeap) Push(x any) {
	row := x.(sortRow)
	h.list = append(h.list, row)
	h.bytes += row.size()
}

func (h *rowHeap) Pop() any {
	last := h.list[len(h.list)-1]
	h.list = h.list[:len(h.list)-1]
	h.bytes -= last.size()
	return last
}

// before reports whether a comes before b. If the meter has stopped the work it is false.
func (h *rowHeap) before(a, b *sortRow) bool {
	if h.meter.Spend(pace.Compare*len(h.sort)) != nil {
		return false
	}
	for i := range h.sort {
		if c := query.Order(&a.keys[i], &b.keys[i], h.sort[i].descending); c != 0 {
			return c < 0
		}
	}
	return bytes.Compare(a.at[8:], b.at[8:]) < 0
}

// keep adds a record, if it is among the first most of those so far. It returns false if
// there is no room, or if the meter has stopped the work.
func (h *rowHeap) keep(at *position, rec *Record, most int) bool {
	next := sortRow{at: *at, keys: make([]query.Value, len(h.sort))}
	for i := range h.sort {
		next.keys[i] = rec.Value(&h.sort[i].Field, h.meter)
	}
	if h.meter.Err() != nil {
		return false
	}
	switch {
	case len(h.list) == most:
		if !h.before(&next, &h.list[0]) {
			return true
		}
		heap.Pop(h)
	case len(h.list) == maxSorted:
		return false
	}
	for i := range next.keys {
		next.keys[i] = next.keys[i].Detached()
	}
	heap.Push(h, next)
	return h.bytes <= maxSortBytes
}

// sorted is Store.each for an order that no index has. It holds the rows up to the end of
// the page in memory, without their records.
func (q *Query) sorted(ctx context.Context, r *store.Reader, f func(rec *Record, n int) error) (total int, err error) {
	keyed := true // the order depends on columns of keys alone
	for i := range q.sort {
		keyed = keyed && keyedField(&q.sort[i].Field)
	}
	w, err := q.open(ctx, r, q.plan(), false)
	if err != nil {
		return 0, err
	}
	defer w.close()
	most := q.offset + q.limit
	h := rowHeap{sort: q.sort, meter: w.meter, ctx: ctx}
	full := false
	var short error
	if err := w.matches(0, !keyed, func(at *position, rec *Record) bool {
		total++
		if most == 0 {
			return true
		}
		full = !h.keep(at, rec, most)
		short = h.take()
		return !full && short == nil
	}); FirstError(FirstError(err, short), w.meter.Err()) != nil {
		return 0, FirstError(FirstError(err, short), w.meter.Err())
	}
	if full {
		return 0, refuse("Too many rows for this order; narrow the query or sort by created_at")
	}
	slices.SortFunc(h.list, func(a, b sortRow) int { return b2i(h.before(&b, &a)) - b2i(h.before(&a, &b)) })
	if err := w.meter.Err(); err != nil {
		return 0, err
	}
	n := 0
	for i := min(q.offset, len(h.list)); i < len(h.list); i++ {
		rec, err := w.record(&h.list[i].at)
		if err != nil {
			return 0, err
		}
		if rec == nil {
			continue
		}
		if err := f(rec, n); err != nil {
			return 0, err
		}
		n++
	}
	return total, nil
}
