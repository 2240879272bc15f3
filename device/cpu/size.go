package cpu

import (
	"weir/model"
	"weir/weights"
)

// StoredAs is the format in which Load keeps a matrix that consists of t.
func (c Config) StoredAs(t weights.Tensor) (Format, error) {
	im, err := choose(c.Impl)
	if err != nil {
		return Auto, err
	}
	d := Device{cfg: c, impl: im} // a device without threads: nothing is loaded into it
	return d.storedAs(&t), nil
}

// MatrixBytes is how many bytes of memory Load takes for m, with this configuration. An
// embedding takes none, because it stays in the mapped file. m has been checked.
func (c Config) MatrixBytes(m model.Matrix) (int64, error) {
	im, err := choose(c.Impl)
	if err != nil {
		return 0, err
	}
	d := Device{cfg: c, impl: im}
	n := 0
	for _, t := range m.Rows {
		n += t.Shape[0]
	}
	switch m.Use {
	case model.Embedding:
		return 0, nil
	case model.Vector:
		return vectorBytes(n), nil
	}
	bytes := int64(0)
	for _, w := range d.partsOf(m) {
		bytes += lines(int64(w.tiles()) * int64(w.tile))
		if len(m.Bias) > 0 {
			bytes += vectorBytes(w.tiles() * rowsPerTile)
		}
	}
	return bytes, nil
}

// vectorBytes is what n numbers of float32 take in an arena.
func vectorBytes(n int) int64 { return lines(4 * int64(n)) }

// lines rounds up to whole cache lines, as an arena does.
func lines(bytes int64) int64 { return (bytes + cacheLine - 1) &^ (cacheLine - 1) }
