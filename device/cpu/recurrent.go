package cpu

// recurrent are the kernels of recurrences and convolutions. Their products are rounded before they
// are added and each sum has one order, so all tiers compute the same bits.
type recurrent struct {
	// squares is Σ x[i]², len(x) a multiple of 16: sixteen sums of every sixteenth number, of which
	// i and i+8 are added, then i and i+4, i+2 and i+1.
	squares func(x []float32) float32
	// conv is a position of a convolution. rows are that of len(y) columns and those before it, w is
	// the bias of the columns and then the weights of each row.
	//
	//	for c := range y {
	//		y[c] = w[c]
	//		for k := range width {
	//			y[c] += w[(k+1)*len(y)+c] * rows[k*len(y)+c]
	//		}
	//	}
	conv func(y, rows, w []float32, width int)
	// delta[n] is a position of the delta rule for 16n value columns; forget is decay * k. to and from
	// are the state, [len(k), columns], and may be the same.
	//
	//	for c := range columns {
	//		u := (v[c] - Σ forget[i] * from[i][c]) * beta
	//		for i := range k {
	//			to[i][c] = from[i][c]*decay[i] + u*k[i]
	//		}
	//		y[c] = Σ to[i][c] * q[i]
	//	}
	delta [stateParts + 1]deltaFunc
	// scan[n] is a position of Mamba's recurrence for 16n columns of a head.
	//
	//	for c := range columns {
	//		y[c] = skip * x[c]
	//		for i := range b {
	//			to[i][c] = from[i][c]*decay + x[c]*b[i]
	//			y[c] += to[i][c] * c[i]
	//		}
	//	}
	scan [stateParts + 1]scanFunc
}

type (
	deltaFunc func(y, v, to, from, decay, forget, k, q []float32, beta float32)
	scanFunc  func(y, x, to, from, b, c []float32, decay, skip float32)
)

const (
	// stateParts are the most groups of 16 columns that a kernel takes, and stateColumns the columns.
	// A state is kept in blocks of so many columns, [blocks][keys][stateColumns], with fewer in the
	// last one: a block of 128 keys is half of the first-level cache.
	stateParts   = 2
	stateColumns = stateParts * 16
)

// deltaOf is the kernel for a number of columns.
func (k *recurrent) deltaOf(columns int) deltaFunc {
	if columns%16 != 0 {
		return deltaGeneric
	}
	return k.delta[columns/16]
}

func (k *recurrent) scanOf(columns int) scanFunc {
	if columns%16 != 0 {
		return scanGeneric
	}
	return k.scan[columns/16]
}

// convOf is the kernel for a number of columns.
func (k *recurrent) convOf(columns int) func(y, rows, w []float32, width int) {
	if columns%16 != 0 {
		return convGeneric
	}
	return k.conv
}

// sum is the sum of squares of any number of numbers.
func (k *recurrent) sum(x []float32) float32 {
	n := len(x) &^ 15
	s := k.squares(x[:n])
	for _, v := range x[n:] {
		s += float32(v * v)
	}
	return s
}

func recurrentGeneric() recurrent {
	return recurrent{squares: squaresGeneric, conv: convGeneric,
		delta: [stateParts + 1]deltaFunc{nil, deltaGeneric, deltaGeneric}, scan: [stateParts + 1]scanFunc{nil, scanGeneric, scanGeneric}}
}

func squaresGeneric(x []float32) float32 {
	var s [16]float32
	for ; len(x) >= 16; x = x[16:] {
		for i, v := range x[:16] {
			s[i] += float32(v * v)
		}
	}
	for half := 8; half > 0; half /= 2 {
		for i := range half {
			s[i] += s[i+half]
		}
	}
	return s[0]
}

func convGeneric(y, rows, w []float32, width int) {
	n := len(y)
	copy(y, w)
	for k := range width {
		row, by := rows[k*n:][:n], w[(k+1)*n:][:n]
		for c := range y {
			y[c] += float32(by[c] * row[c])
		}
	}
}

func deltaGeneric(y, v, to, from, decay, forget, k, q []float32, beta float32) {
	n := len(y)
	var u [stateColumns]float32
	for i, f := range forget {
		for c, s := range from[i*n:][:n] {
			u[c] += float32(s * f)
		}
	}
	for c, value := range v[:n] {
		u[c] = (value - u[c]) * beta
	}
	clear(y)
	for i, key := range k {
		in, out, d, query := from[i*n:][:n], to[i*n:][:n], decay[i], q[i]
		for c := range out {
			s := float32(in[c]*d) + float32(u[c]*key)
			out[c] = s
			y[c] += float32(s * query)
		}
	}
}

func scanGeneric(y, x, to, from, b, c []float32, decay, skip float32) {
	n := len(y)
	x = x[:n]
	for j, v := range x {
		y[j] = v * skip
	}
	for i, input := range b {
		in, out, output := from[i*n:][:n], to[i*n:][:n], c[i]
		for j := range out {
			s := float32(in[j]*decay) + float32(x[j]*input)
			out[j] = s
			y[j] += float32(s * output)
		}
	}
}
