package cpu

import (
	"fmt"
	"strings"
	"sync/atomic"

	"weir/weights"
)

// A TileCache keeps packed matrices from one Device to the next, such as in a file. Their keys
// have everything that decides on the bytes of tiles but the numbers of the tensors, by which
// the cache has to be chosen.
type TileCache interface {
	// Find returns a function that reads piece i of the tiles that were kept under a key into dst,
	// and reports whether they are what was kept; nil if there are none of this size. It is called
	// by several goroutines at a time, with dst of piece bytes, or less for the last piece.
	Find(key string, piece, size int) func(i int, dst []byte) bool
	// Keep is told of all tiles, also of those that were found. They do not change until Close.
	Keep(key string, piece int, tiles []byte)
	// Close returns when tiles that were kept are not read any more.
	Close()
}

// tileLayout is part of every key. It is another one whenever the bytes of any tile become others.
const tileLayout = 1

// cached reports whether w's tiles are worth keeping: numbers that are only moved are packed as fast
// as a file is read.
func (d *Device) cached(w *matrix) bool { return d.cfg.Tiles != nil && w.format >= Q8 }

// tileKey is the key of w, which consists of these tensors.
func (d *Device) tileKey(w *matrix, rows []weights.Tensor) string {
	names := make([]string, len(rows))
	for i, t := range rows {
		names[i] = t.Name + " " + t.TypeName()
	}
	return fmt.Sprintf("%d %s %s [%d, %d] %s", tileLayout, d.impl.name, w.format, w.n, w.k, strings.Join(names, ", "))
}

// restoreJob reads a tile per chunk.
type restoreJob struct {
	w      *matrix
	read   func(i int, dst []byte) bool
	failed atomic.Bool
}

func (j *restoreJob) do(_, chunk int) {
	if !j.failed.Load() && !j.read(chunk, j.w.data[chunk*j.w.tile:][:j.w.tile]) {
		j.failed.Store(true)
	}
}

// restore reads w's tiles from the cache. If it reports false, they are zero.
func (d *Device) restore(w *matrix, key string) bool {
	j := &restoreJob{w: w, read: d.cfg.Tiles.Find(key, w.tile, len(w.data))}
	if j.read == nil {
		return false
	}
	d.team.runAtHome(w.tiles(), j) // as they would be packed
	if j.failed.Load() {
		clear(w.data)
		return false
	}
	return true
}

// finiteKey is the key of a byte that says that all numbers of a table are finite. To find that out takes
// as long as to widen all of them, where they are stored in blocks.
func finiteKey(t *weights.Tensor) string { return "finite " + t.Name + " " + t.TypeName() }

// checkedFinite is that byte.
var checkedFinite = []byte{1}

// knownFinite reports whether an earlier start has found the numbers of a table finite.
func (d *Device) knownFinite(t *weights.Tensor) bool {
	if d.cfg.Tiles == nil || asNumbers(t) {
		return false
	}
	read, b := d.cfg.Tiles.Find(finiteKey(t), 1, 1), []byte{0}
	if read == nil || !read(0, b) || b[0] != checkedFinite[0] {
		return false
	}
	d.keepFinite(t)
	return true
}

// keepFinite keeps for the next start that the numbers of a table are finite.
func (d *Device) keepFinite(t *weights.Tensor) {
	if d.cfg.Tiles != nil && !asNumbers(t) {
		d.cfg.Tiles.Keep(finiteKey(t), 1, checkedFinite)
	}
}
