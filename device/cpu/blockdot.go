package cpu

import (
	"encoding/binary"
	"math"
)

// Products with tiles of blocks in plain Go (blocks.go has the definition).

// blockKernels are an implementation's kernels for tiles of blocks. For each format there is
// dot, or expand and dotExpanded, or nothing.
type blockKernels struct {
	// round writes a row of activations: quantize with sums, and scales that are powers of
	// two on every tier.
	round func(dst []byte, x []float32)
	// lanes says that round writes, and the others read, sums of lanes (blocks.go).
	lanes bool
	// dot[format][m] computes m rows against tiles of n units; it is impl.dot of these
	// formats.
	dot [lastBlocks - firstBlocks + 1][]dotFunc
	// expand writes n units of a tile as expanded blocks, in a form that belongs to the
	// implementation. Blocks have blockKind.size bytes. That is worth it where a kernel
	// takes few rows, so that many have to take a tile apart.
	expand [lastBlocks - firstBlocks + 1]unitFunc
	// dotExpanded[format][m] computes m rows against a tile of n expanded blocks; the table
	// has a kernel for every m in [1, len). While it does, memory is prefetched from w[ahead]
	// on, eight addresses for each block, step bytes apart; it may be anywhere.
	dotExpanded [lastBlocks - firstBlocks + 1][]expandedFunc
	// widen writes n units of a tile as a tile of F32; Q8 and Q4 have it, too.
	widen [lastBlocks + 1]unitFunc
}

type (
	unitFunc     func(dst, units []byte, n int)
	expandedFunc func(w []byte, ahead, step, n int, x []byte, ldx int, y []float32, ldy int, bias []float32)
)

// blocksGeneric are the kernels in plain Go.
func blocksGeneric() blockKernels {
	k := blockKernels{round: roundSums}
	for i := range blockSpecs {
		s := &blockSpecs[i]
		k.expand[i] = s.expandGeneric
		k.dotExpanded[i] = make([]expandedFunc, genericRows+1)
		for m := 1; m <= genericRows; m++ {
			k.dotExpanded[i][m] = s.kind.dotGeneric(m)
		}
		k.widen[firstBlocks+Format(i)] = s.widenGeneric
	}
	k.widen[Q8], k.widen[Q4] = q8Blocks.widenGeneric, q4Blocks.widenGeneric
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
			for b := range n {
				block, row := w[b*k.size():][:k.size()], x[r*ldx+b*sumBlock:][:sumBlock]
				k.addBlock(&s, block, row, parts, offset)
				if mins {
					addMinimums(&s, block[parts*scaleLine:], row, parts)
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

// addBlock adds the products of a block with one of activations.
func (k blockKind) addBlock(s *[rowsPerTile]float32, block, row []byte, parts int, offset int32) {
	scale, numbers := math.Float32frombits(word(row[sumScale:])), row[sumNumbers:]
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
func addMinimums(s *[rowsPerTile]float32, minimums, row []byte, parts int) {
	scale := math.Float32frombits(word(row[sumScale:]))
	for p := range parts {
		sum := math.Float32frombits(word(row[sumValue:]))
		if parts == 2 {
			sum = float32(float32(int32(word(row[4*p:]))/-128) * scale)
		}
		for j := range s {
			s[j] = fma32(sum, lineFloat(minimums[p*scaleLine:], j), s[j])
		}
	}
}

// lineFloat is number j of a line.
func lineFloat(line []byte, j int) float32 { return math.Float32frombits(word(line[4*j:])) }

// widenGeneric is blockKernels.widen.
func (s *blockSpec) widenGeneric(dst, units []byte, n int) {
	var e expandedBlock
	var row [blockColumns]float32
	for b := range n * s.unit {
		s.expand(&e, units, b)
		for r := range rowsPerTile {
			e.widen(s, row[:], r)
			for c, v := range row {
				binary.LittleEndian.PutUint32(dst[(b*blockColumns+c)*codeLine+4*r:], math.Float32bits(v))
			}
		}
	}
}

// fma32 is a*b+c, rounded once, as processors compute it. A float64 holds a*b exactly. Its sum with c,
// rounded, lies on the same side of each middle between two float32 as the sum itself, or on the middle:
// only there, and among the smallest numbers, is it another matter how it was rounded.
func fma32(a, b, c float32) float32 {
	s := float64(float64(a)*float64(b)) + float64(c)
	if rest := math.Float64bits(s) & (1<<29 - 1); rest != 1<<28 && math.Abs(s) >= 0x1p-126 {
		return float32(s)
	}
	return fmaOdd(float64(a)*float64(b), float64(c))
}

// fmaOdd is p+q as a float32. If the sum is not exact, it is rounded to odd: then rounding it a second
// time gives what rounding once would (Boldo and Melquiond, "Emulation of FMA and correctly rounded
// sums", 2008).
func fmaOdd(p, q float64) float32 {
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

// roundSums writes a row for tiles of blocks from what quantizeGeneric makes of it.
func roundSums(dst []byte, x []float32) {
	var group [groupRow]byte
	for len(x) > 0 {
		v := x[:min(groupColumns, len(x))]
		x = x[len(v):]
		quantizeGeneric(group[:], v)
		for b := range 2 {
			sumOne(dst[:sumBlock], group[16+b*blockColumns:][:blockColumns], group[8+4*b:][:4])
			dst = dst[sumBlock:]
		}
	}
}

// sumLanes turns the sums of a row that roundSums wrote into sums of lanes.
func sumLanes(row []byte) {
	for ; len(row) > 0; row = row[sumBlock:] {
		var sums [2][2]int16 // [half][lane]
		for i, v := range row[sumNumbers:sumBlock] {
			sums[i/halfColumns][i/2%2] += int16(int8(v))
		}
		for lane := range 2 {
			lower, upper := sums[0][lane], sums[1][lane]
			binary.LittleEndian.PutUint16(row[2*lane:], uint16(-32*lower))
			binary.LittleEndian.PutUint16(row[4+2*lane:], uint16(-32*upper))
			binary.LittleEndian.PutUint16(row[sumStart+2*lane:], uint16(-16*(lower+upper)))
		}
	}
}

// sumOne writes a block of activations with its sums.
func sumOne(dst, numbers, scale []byte) {
	copy(dst[sumNumbers:], numbers)
	copy(dst[sumScale:], scale)
	start := int32(0)
	for half := range 2 {
		sum := int32(0)
		for _, v := range numbers[half*halfColumns:][:halfColumns] {
			sum += int32(int8(v))
		}
		binary.LittleEndian.PutUint32(dst[4*half:], uint32(-128*sum))
		start -= 128 * sum
	}
	binary.LittleEndian.PutUint32(dst[sumStart:], uint32(start))
	value := float32(float32(start/-128) * math.Float32frombits(word(scale)))
	binary.LittleEndian.PutUint32(dst[sumValue:], math.Float32bits(value))
}
