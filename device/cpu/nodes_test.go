package cpu

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"weir/backend"
	"weir/model"
	"weir/weights"
)

// fakeNodes is a placement on nodes that this machine need not have: threads
// are counted as theirs and bound to nothing.
func fakeNodes(threads ...int) placement {
	var ids []int
	for id, n := range threads {
		for range n {
			ids = append(ids, id)
		}
	}
	return newPlacement(ids, make([][]int, len(ids)))
}

// TestNodesRunEveryChunkOnce: grids of all shapes, with fewer and with more
// columns than nodes.
func TestNodesRunEveryChunkOnce(t *testing.T) {
	for _, place := range []placement{fakeNodes(1, 1), fakeNodes(2, 1), fakeNodes(1, 2, 3), fakeNodes(1, 1, 1, 1)} {
		w := startWorkers(t, place)
		for round := range 2000 {
			rows, columns := 1+round%4, round%11
			j := newCountJob(t, rows*columns, w.threads)
			if round%3 == 0 {
				w.runAtHome(rows*columns, j)
			} else {
				w.run(rows, columns, j)
			}
			j.check()
		}
		w.close()
	}
}

// TestNodesOwnColumns: a column's node is the same whatever the number of rows,
// shares are in proportion to threads, and no other node computes what has to
// stay.
func TestNodesOwnColumns(t *testing.T) {
	place := fakeNodes(3, 1)
	w := startWorkers(t, place)
	defer w.close()
	const columns = 40
	owner := func(column int) int {
		if column < columns*3/4 {
			return 0
		}
		return 1
	}
	for range 200 {
		j := newCountJob(t, columns, w.threads)
		j.then = func(worker, chunk int) {
			if place.node[worker] != owner(chunk) {
				t.Errorf("chunk %d was computed on node %d", chunk, place.node[worker])
			}
		}
		w.runAtHome(columns, j)
		j.check()
	}
	// All threads wait until each has a chunk: those are chunks of their own.
	for _, rows := range []int{1, 5} {
		var first [4]atomic.Int32
		var all sync.WaitGroup
		all.Add(w.threads)
		var came [4]atomic.Bool
		j := newCountJob(t, rows*columns, w.threads)
		j.then = func(worker, chunk int) {
			if came[worker].CompareAndSwap(false, true) {
				first[worker].Store(int32(chunk))
				all.Done()
				all.Wait()
			}
		}
		w.run(rows, columns, j)
		j.check()
		for worker := range first {
			if c := int(first[worker].Load()) % columns; owner(c) != place.node[worker] {
				t.Errorf("%d rows: worker %d of node %d began with column %d", rows, worker, place.node[worker], c)
			}
		}
	}
}

// TestNodesReadWhatTheyPacked: the tiles of a matrix that a node's threads touched
// first are those that they multiply with, up to the chunk on the border.
func TestNodesReadWhatTheyPacked(t *testing.T) {
	for _, place := range []placement{fakeNodes(1, 1), fakeNodes(3, 1), fakeNodes(1, 2, 3)} {
		for _, n := range []int{48, 1000, 4096, 20000} {
			d, err := open(Config{KVType: BF16}, place)
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			const k, rows = 32, 40
			s := model.Shape{KV: model.UniformKV(1, 1, 1, 16), Acts: []model.ActShape{{Width: k}, {Width: n}},
				Spec: backend.Spec{VocabSize: 16, BlockTokens: 16, NumBlocks: 2, MaxTokens: rows, MaxSeqs: rows, MaxSeqTokens: rows, Depth: 1}}
			if err := d.Plan(s); err != nil {
				t.Fatal(err)
			}
			w, err := d.Load(model.Matrix{Rows: []weights.Tensor{tensor(newRand(1), weights.BF16, 1, n, k)}})
			if err != nil {
				t.Fatal(err)
			}
			var packed []int
			for i := range d.team.queues {
				packed = append(packed, d.team.queues[i].first)
			}
			d.batch = &backend.Batch{Tokens: make([]int32, rows)}
			d.MatMul(model.Act{Buf: 1, Width: n}, w, model.Act{Width: k})
			for i := range d.team.queues {
				first := d.team.queues[i].first * d.productJob.tiles
				if diff := first - packed[i]; diff > d.productJob.tiles || -diff > d.productJob.tiles {
					t.Errorf("%v, %d columns: node %d packed tiles from %d on and multiplies from %d on, in chunks of %d", place.node, n, i, packed[i], first, d.productJob.tiles)
				}
			}
		}
	}
}

// TestNodesSteal: if the only thread of a node is held up by a chunk, other nodes compute
// the rest of its chunks.
func TestNodesSteal(t *testing.T) {
	w := startWorkers(t, fakeNodes(1, 1))
	defer w.close()
	const chunks = 30
	var others atomic.Int32
	j := newCountJob(t, chunks, w.threads)
	j.then = func(worker, _ int) {
		if worker == 0 {
			others.Add(1)
			return
		}
		for others.Load() < chunks-1 {
			runtime.Gosched()
		}
	}
	w.run(1, chunks, j)
	j.check()
}
