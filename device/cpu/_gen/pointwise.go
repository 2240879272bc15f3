package main

import (
	"fmt"
	"log"
	"slices"
)

// Functions of single numbers are described once, as the operations on values below, and written
// as plain Go and for every set of instructions. All of these compute the same bits, because every
// operation has one result by IEEE 754: there is a fused multiply-add where it is called one, and
// nowhere else.

// kind is an operation. Its operands are named in its comment, in their order.
type kind int

const (
	input   kind = iota // the number itself
	partner             // of a gated product
	param               // a number that is the same for a whole call
	literal
	add   // a + b
	sub   // a - b
	mul   // a * b
	div   // a / b
	fma   // a*b + c, rounded once
	fms   // a*b - c, rounded once
	least // the lesser of a, which is no NaN, and b; NaN if b is
	most  // the greater of a, which is no NaN, and b; NaN if b is
	abs   // |a|
	neg   // -a
	round // a to an integer, to nearest even
	power // a * 2^b for an integer b, where both a and the result are normal numbers
	where // c if a < b, else d
)

// value is a number in the course of a function.
type value struct {
	kind
	args   []*value
	number float32 // of a literal
	index  int     // of a param
}

func lit(v float32) *value              { return &value{kind: literal, number: v} }
func (k kind) of(args ...*value) *value { return &value{kind: k, args: args} }
func arguments(n int) (x, u *value, p [4]*value) {
	for i := range n {
		p[i] = &value{kind: param, index: i}
	}
	return &value{kind: input}, &value{kind: partner}, p
}

// A pointwise is a function of one number, or of a number and its partner.
type pointwise struct {
	name   string
	doc    string
	params int
	paired bool // the partner is an operand; otherwise the result is multiplied with it, if there is one
	result *value
}

// The exponent of two, and what is left when it is cut to float32.
const (
	log2eHigh = float32(1.44269504088896341)
	log2eLow  = float32(1.44269504088896341 - float64(log2eHigh))
)

// exp2Poly are the coefficients of 2^f - 1 for |f| <= 1/2, from that of f on: attention has the same.
var exp2Poly = []float32{0.6931472421, 0.2402265221, 0.05550310388, 0.009617692791, 0.001340664341, 0.0001559467782}

// polynomial is c[0] + c[1]*x + ...
func polynomial(x *value, c []float32) *value {
	p := lit(c[len(c)-1])
	for _, k := range slices.Backward(c[:len(c)-1]) {
		p = fma.of(p, x, lit(k))
	}
	return p
}

// exact is a*b in two parts, the second of which is what the first lacks.
func exact(a, b *value) (high, low *value) {
	high = mul.of(a, b)
	return high, fms.of(a, b, high)
}

// split is high+low in an integer and a part of magnitude 1/2 or a little more.
func split(high, low *value) (whole, part *value) {
	whole = round.of(high)
	return whole, add.of(sub.of(high, whole), low)
}

// exp2 is 2^(high+low), where |high| <= 126.
func exp2(high, low *value) *value {
	n, f := split(high, low)
	return power.of(polynomial(f, append([]float32{1}, exp2Poly...)), n)
}

// log2Times is x * log2(e) * sign in two parts.
func log2Times(x *value, sign float32) (high, low *value) {
	high, low = exact(x, lit(sign*log2eHigh))
	return high, fma.of(x, lit(sign*log2eLow), low)
}

// clamp is x within [-limit, limit].
func clamp(x *value, limit *value) *value { return least.of(limit, most.of(negated(limit), x)) }

func negated(v *value) *value {
	if v.kind == literal {
		return lit(-v.number)
	}
	return neg.of(v)
}

// positive is x, or 0 if that is negative.
func positive(x *value) *value { return where.of(x, lit(0), lit(0), x) }

// pointwises are all of these functions, in the order of the constants of package cpu.
func pointwises() []*pointwise {
	return []*pointwise{expFunc(), sigmoidFunc(), siluFunc(), swigluFunc(), softplusFunc(), geluFunc(), geluTanhFunc(), reluSquaredFunc(), xieluFunc()}
}

func expFunc() *pointwise {
	x, _, _ := arguments(0)
	return &pointwise{name: "exp", doc: "exp(x) for x in [-87, 87], which others are moved to", result: exp2(log2Times(clamp(x, lit(87)), 1))}
}

func sigmoidFunc() *pointwise {
	x, _, _ := arguments(0)
	e := exp2(log2Times(clamp(x, lit(87)), -1))
	return &pointwise{name: "sigmoid", doc: "1 / (1 + exp(-x))", result: div.of(lit(1), add.of(lit(1), e))}
}

// silu is x / (1 + 2^(x*p[0] + x*p[1])), where x*p[0] is bounded by p[2] >= |x|.
func silu(x *value, p [4]*value) *value {
	bounded := clamp(x, p[2])
	high, low := exact(bounded, p[0])
	return div.of(x, add.of(lit(1), exp2(high, fma.of(bounded, p[1], low))))
}

func siluFunc() *pointwise {
	x, _, p := arguments(3)
	return &pointwise{name: "silu", doc: "x * sigmoid(alpha*x), with -alpha*log2(e) in two parts and the greatest |x| of an exponential", params: 3, result: silu(x, p)}
}

func swigluFunc() *pointwise {
	x, u, p := arguments(4)
	limit := p[3]
	gate := least.of(limit, x)
	return &pointwise{name: "swiglu", doc: "silu of the lesser of x and a limit, times the partner within that limit plus 1", params: 4, paired: true,
		result: mul.of(silu(gate, p), add.of(lit(1), clamp(u, limit)))}
}

// softplusFunc has log(1+e) = 2 artanh(e/(2+e)), whose argument is at most 1/3.
func softplusFunc() *pointwise {
	x, _, _ := arguments(0)
	e := exp2(log2Times(least.of(lit(87), abs.of(x)), -1))
	s := div.of(e, add.of(lit(2), e))
	square := mul.of(s, s)
	q := polynomial(square, []float32{0.666664183139801, 0.400214284658432, 0.28003257513046265, 0.2800534963607788})
	log := fma.of(mul.of(s, square), q, add.of(s, s))
	return &pointwise{name: "softplus", doc: "log(1 + exp(x))", result: add.of(positive(x), log)}
}

// geluFunc has Phi(-a) = exp(-a²/2) * m(a), where m is a polynomial in u = 2.5/(a+2.5) that was fitted
// to erfcx, with a relative error of 2e-8.
func geluFunc() *pointwise {
	x, _, _ := arguments(0)
	a := least.of(lit(12.9), abs.of(x))
	square, rest := exact(a, a)
	high, low := exact(square, lit(-log2eHigh/2))
	low = fma.of(square, lit(-log2eLow/2), fma.of(rest, lit(-log2eHigh/2), low))
	// What the sum and the division round off would be more in m: uLow is what u lacks.
	sum := add.of(lit(2.5), a)
	u := div.of(lit(2.5), sum)
	lost := add.of(mul.of(u, sub.of(a, sub.of(sum, lit(2.5)))), fms.of(u, sum, lit(2.5)))
	uLow := mul.of(mul.of(lost, u), lit(-0.4))
	m := polynomial(add.of(sub.of(u, lit(0.5)), uLow), []float32{0.28266265988349915, 0.3469536602497101, 0.2111794650554657, -0.0295576099306345, -0.10487574338912964,
		0.020535793155431747, 0.06460447609424591, -0.03526734560728073, -0.03168005496263504, 0.03234590217471123})
	m = fma.of(u, m, mul.of(uLow, m))
	tail := mul.of(m, exp2(high, low))
	return &pointwise{name: "gelu", doc: "x * Phi(x)", result: sub.of(positive(x), mul.of(a, tail))}
}

// geluTanhFunc has (1+tanh(y))/2 = 1/(1+exp(-2y)), with the exponent in two parts: where it is large,
// a rounding of it would be one of the result many times over.
func geluTanhFunc() *pointwise {
	const slope, cubic = 2.302208198199302, 0.10294323958248179 // 2*sqrt(2/pi)*log2(e), and 0.044715 times that
	high32 := func(v float64) float32 { return float32(v) }
	low32 := func(v float64) float32 { return float32(v - float64(float32(v))) }
	x, _, _ := arguments(0)
	b := clamp(x, lit(10))
	square, rest := exact(b, b)
	c, cLow := exact(square, lit(high32(cubic)))
	cLow = fma.of(square, lit(low32(cubic)), fma.of(rest, lit(high32(cubic)), cLow))
	// The sum of slope and c in two parts (Knuth's).
	sum := add.of(c, lit(high32(slope)))
	part := sub.of(sum, lit(high32(slope)))
	sumLow := add.of(sub.of(lit(high32(slope)), sub.of(sum, part)), sub.of(c, part))
	sumLow = add.of(sumLow, add.of(cLow, lit(low32(slope))))
	minus := neg.of(b)
	high, low := exact(minus, sum)
	e := exp2(high, fma.of(minus, sumLow, low))
	return &pointwise{name: "geluTanh", doc: "x / 2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715*x³)))", result: div.of(x, add.of(lit(1), e))}
}

func reluSquaredFunc() *pointwise {
	x, _, _ := arguments(0)
	r := positive(x)
	return &pointwise{name: "reluSquared", doc: "max(x, 0)²", result: mul.of(r, r)}
}

// xieluFunc has alpha_p, alpha_n, beta and eps, and takes 1 from 2^n before it adds the rest of the
// exponential, so that small x lose nothing.
func xieluFunc() *pointwise {
	x, _, p := arguments(4)
	bounded := most.of(lit(-87), least.of(p[3], x))
	n, f := split(log2Times(bounded, 1))
	scale := power.of(lit(1), n)
	expm1 := fma.of(scale, mul.of(f, polynomial(f, exp2Poly)), sub.of(scale, lit(1)))
	linear := mul.of(p[2], x)
	below := fma.of(p[1], sub.of(expm1, x), linear)
	above := fma.of(mul.of(p[0], x), x, linear)
	return &pointwise{name: "xielu", doc: "alpha_p*x² + beta*x above 0, and alpha_n*(exp(min(x, eps)) - 1 - x) + beta*x below", params: 4, result: where.of(lit(0), x, above, below)}
}

// order lists the operations that f needs, each after its operands, and counts the uses of each value.
func (f *pointwise) order() (list []*value, uses map[*value]int) {
	uses = map[*value]int{}
	var visit func(v *value)
	visit = func(v *value) {
		uses[v]++
		if uses[v] > 1 {
			return
		}
		for _, a := range v.args {
			visit(a)
		}
		if v.kind != literal {
			list = append(list, v)
		}
	}
	visit(f.result)
	return list, uses
}

// literals are the numbers that the functions use, each once.
func literals(list []*pointwise) (numbers []float32) {
	for _, f := range list {
		_, uses := f.order()
		var of []float32
		for v := range uses {
			if v.kind == literal && !slices.Contains(numbers, v.number) && !slices.Contains(of, v.number) {
				of = append(of, v.number)
			}
		}
		slices.Sort(of)
		numbers = append(numbers, of...)
	}
	return numbers
}

// plain writes the functions in Go.
func plain() string {
	text := header + "package cpu\n\nimport \"math\"\n\n"
	for _, f := range pointwises() {
		text += f.plain()
	}
	text += "// pointwiseNumbers compute the functions for one number each.\nvar pointwiseNumbers = [pointwiseKinds]func(x, u float32, p *[4]float32) float32{"
	for i, f := range pointwises() {
		if i > 0 {
			text += ", "
		}
		text += f.name + "Number"
	}
	return formatted(text + "}\n")
}

func (f *pointwise) plain() string {
	list, _ := f.order()
	text := fmt.Sprintf("// %sNumber is %s.\nfunc %sNumber(x, u float32, p *[4]float32) float32 {\n", f.name, f.doc, f.name)
	names := map[*value]string{}
	name := func(v *value) string {
		if v.kind == literal {
			return fmt.Sprintf("float32(%v)", v.number)
		}
		return names[v]
	}
	for _, v := range list {
		a := make([]string, len(v.args))
		for i, arg := range v.args {
			a[i] = name(arg)
		}
		names[v] = fmt.Sprint("v", len(names))
		format, args := v.statement(a)
		if v.kind == where {
			text += fmt.Sprintf("%s := %s\nif %s < %s {\n%s = %s\n}\n", names[v], a[3], a[0], a[1], names[v], a[2])
			continue
		}
		if v.kind <= param {
			names[v] = fmt.Sprintf(format, args...)
			continue
		}
		text += fmt.Sprintf("%s := %s\n", names[v], fmt.Sprintf(format, args...))
	}
	out := names[f.result]
	if !f.paired {
		return text + fmt.Sprintf("return %s * u\n}\n\n", out)
	}
	return text + fmt.Sprintf("return %s\n}\n\n", out)
}

// statement is a format for v as Go has it, and what to fill it with.
func (v *value) statement(a []string) (format string, args []any) {
	for _, s := range a {
		args = append(args, s)
	}
	switch v.kind {
	case input:
		return "x", nil
	case partner:
		return "u", nil
	case param:
		return "p[%d]", []any{v.index}
	case add:
		return "%s + %s", args
	case sub:
		return "%s - %s", args
	case mul:
		return "float32(%s * %s)", args // rounded before it is added to anything
	case div:
		return "%s / %s", args
	case fma:
		return "fma32(%s, %s, %s)", args
	case fms:
		return "fma32(%s, %s, -%s)", args
	case least:
		return "min(%s, %s)", args
	case most:
		return "max(%s, %s)", args
	case abs:
		return "float32(math.Abs(float64(%s)))", args
	case neg:
		return "-%s", args
	case round:
		return "float32(math.RoundToEven(float64(%s)))", args
	case power:
		return "power(%s, %s)", args
	case where:
		return "", nil
	}
	log.Fatalf("operation %d in Go", v.kind)
	return "", nil
}
