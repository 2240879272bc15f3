package cpu

import (
	"encoding/binary"
	"math"
)

// Products with tiles of blocks in plain Go (blocks.go has the definition).

// blockKernels are an implementation's kernels for tiles of blocks.
type blockKernels struct {
	// round writes a row of activations: quantize with sums.
	round func(dst []byte, x []float32)
	// expand writes n units of a tile as expanded blocks, in a form that belongs to the
	// implementation. Blocks have blockKind.size bytes.
	expand [lastBlocks - firstBlocks + 1]func(dst, units []byte, n int)
	// dot[kind][m] computes m rows against a tile of n groups of expanded blocks; the table
	// has a kernel for every m in [1, len). While it does, memory is prefetched from w[ahead]
	// on, eight addresses for each block, step bytes apart; it may be anywhere.
	dot [blockKinds][]expandedFunc
	// few[format][m] computes m rows against tiles as they are, n units of columns; it is
	// impl.dot of these formats, for few rows. Where a table is empty all products go by way
	// of expanded blocks.
	few [lastBlocks - firstBlocks + 1][]dotFunc
	// widen writes n expanded blocks as a tile of F32.
	widen [blockKinds]func(dst, blocks []byte, n int)
}

type expandedFunc func(w []byte, ahead, step, n int, x []byte, ldx int, y []float32, ldy int, bias []float32)

// blocksGeneric are the kernels in plain Go.
func blocksGeneric() blockKernels {
	k := blockKernels{round: func(dst []byte, x []float32) { roundSums(dst, x, quantizeGeneric) }}
	for i := range blockSpecs {
		k.expand[i] = blockSpecs[i].expandGeneric
	}
	for kind := range blockKinds {
		k.dot[kind] = make([]expandedFunc, genericRows+1)
		for m := 1; m <= genericRows; m++ {
			k.dot[kind][m] = kind.dotGeneric(m)
		}
		k.widen[kind] = kind.widenGeneric
	}
	return k
}

// expandGeneric is blockKernels.expand: scales, minimums, then lines of four columns.
func (s *blockSpec) expandGeneric(dst, units []byte, n int) {
	var e expandedBlock
	parts := 1
	if s.halves() {
		parts = 2
	}
	for b := range n * s.unit {
		s.expand(&e, units, b)
		block := dst[b*s.kind.size():][:s.kind.size()]
		for p := range parts {
			for r := range rowsPerTile {
				binary.LittleEndian.PutUint32(block[p*scaleLine+4*r:], math.Float32bits(e.scales[p][r]))
				if s.mins() {
					binary.LittleEndian.PutUint32(block[(parts+p)*scaleLine+4*r:], math.Float32bits(e.minimum[p][r]))
				}
			}
		}
		data := block[s.kind.head():]
		for c := range blockColumns {
			for r := range rowsPerTile {
				data[c/4*codeLine+4*r+c%4] = e.u[c][r]
			}
		}
	}
}

// shape is how many scales and minimums a block of a kind has, and what is to be subtracted
// from its bytes.
func (k blockKind) shape() (parts int, mins bool, offset int32) {
	switch k {
	case plainBlocks:
		return 1, false, 128
	case minBlocks:
		return 1, true, 0
	case halfBlocks:
		return 2, false, 128
	}
	return 2, true, 0
}

func (k blockKind) dotGeneric(m int) expandedFunc {
	parts, mins, offset := k.shape()
	return func(w []byte, _, _, n int, x []byte, ldx int, y []float32, ldy int, bias []float32) {
		for r := range m {
			var s [rowsPerTile]float32
			for b := range 2 * n {
				block := w[b*k.size():][:k.size()]
				group := x[r*ldx+b/2*sumRow:][:sumRow]
				k.addBlock(&s, block, group, b%2, parts, offset)
				if mins {
					addMinimums(&s, block[parts*scaleLine:], group, b%2, parts)
				}
			}
			out := y[r*ldy:][:rowsPerTile]
			copy(out, s[:])
			if bias != nil {
				addGeneric(out, bias)
			}
		}
	}
}

// addBlock adds the products of a block with block b of a group of activations.
func (k blockKind) addBlock(s *[rowsPerTile]float32, block, group []byte, b, parts int, offset int32) {
	scale := math.Float32frombits(word(group[sumScales+4*b:]))
	numbers := group[sumNumbers+b*blockColumns:]
	columns := blockColumns / parts
	for p := range parts {
		var dots [rowsPerTile]int32
		for c := p * columns; c < (p+1)*columns; c++ {
			line := block[k.head()+c/4*codeLine+c%4:]
			for j := range dots {
				dots[j] += (int32(line[4*j]) - offset) * int32(int8(numbers[c]))
			}
		}
		for j, d := range dots {
			s[j] = fma32(float32(float32(d)*scale), lineFloat(block[p*scaleLine:], j), s[j])
		}
	}
}

// addMinimums adds the minimums, times the sums of what they are the minimums of.
func addMinimums(s *[rowsPerTile]float32, minimums, group []byte, b, parts int) {
	scale := math.Float32frombits(word(group[sumScales+4*b:]))
	for p := range parts {
		sum := math.Float32frombits(word(group[sumValues+4*b:]))
		if parts == 2 {
			sum = float32(float32(int32(word(group[4*(2*b+p):]))/-128) * scale)
		}
		for j := range s {
			s[j] = fma32(sum, lineFloat(minimums[p*scaleLine:], j), s[j])
		}
	}
}

// lineFloat is number j of a line.
func lineFloat(line []byte, j int) float32 { return math.Float32frombits(word(line[4*j:])) }

// widenGeneric is blockKernels.widen.
func (k blockKind) widenGeneric(dst, blocks []byte, n int) {
	parts, mins, offset := k.shape()
	for c := range n * blockColumns {
		block, p := blocks[c/blockColumns*k.size():][:k.size()], c%blockColumns*parts/blockColumns
		line := block[k.head()+c%blockColumns/4*codeLine+c%4:]
		for j := range rowsPerTile {
			v := float32(float32(int32(line[4*j])-offset) * lineFloat(block[p*scaleLine:], j))
			if mins {
				v += lineFloat(block[(parts+p)*scaleLine:], j)
			}
			binary.LittleEndian.PutUint32(dst[c*codeLine+4*j:], math.Float32bits(v))
		}
	}
}

// fma32 is a*b+c, rounded once, as processors compute it. A float64 holds a*b exactly. If
// its sum with c is not exact, it is rounded to odd: then rounding it a second time gives
// what rounding once would (Boldo and Melquiond, "Emulation of FMA and correctly rounded
// sums", 2008).
func fma32(a, b, c float32) float32 {
	p, q := float64(a)*float64(b), float64(c)
	s := p + q
	t := s - p
	if rest := (p - (s - t)) + (q - t); rest != 0 && rest == rest {
		if bits := math.Float64bits(s); bits&1 == 0 {
			if (rest > 0) == (s > 0) {
				bits++
			} else {
				bits--
			}
			s = math.Float64frombits(bits)
		}
	}
	return float32(s)
}

// roundSums writes a row for tiles of blocks from what quantize makes of it, with scales that
// are powers of two.
func roundSums(dst []byte, x []float32, quantize func(dst []byte, x []float32)) {
	var group [groupRow]byte
	for len(x) > 0 {
		v := x[:min(groupColumns, len(x))]
		x = x[len(v):]
		quantize(group[:], v)
		sumGroup(dst[:sumRow], &group)
		dst = dst[sumRow:]
	}
}

// sumGroup writes a group of activations with its sums.
func sumGroup(dst []byte, group *[groupRow]byte) {
	copy(dst[sumNumbers:], group[16:])
	copy(dst[sumScales:][:8], group[8:])
	for b := range 2 {
		start := int32(0)
		for half := range 2 {
			sum := int32(0)
			for _, v := range dst[sumNumbers+(2*b+half)*halfColumns:][:halfColumns] {
				sum += int32(int8(v))
			}
			binary.LittleEndian.PutUint32(dst[4*(2*b+half):], uint32(-128*sum))
			start -= 128 * sum
		}
		binary.LittleEndian.PutUint32(dst[sumStarts+4*b:], uint32(start))
		scale := math.Float32frombits(word(dst[sumScales+4*b:]))
		binary.LittleEndian.PutUint32(dst[sumValues+4*b:], math.Float32bits(float32(float32(start/-128)*scale)))
	}
}
