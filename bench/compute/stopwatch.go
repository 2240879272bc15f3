package compute

import (
	"time"

	"weir/backend"
	"weir/model"
)

// Stopwatch is a device that measures how long its operations take, and counts what they have to
// do. The device below it must be synchronous: an operation must be done when it returns.
type Stopwatch struct {
	model.Device
	spent  Spent
	ledger ledger
}

// Spent is time by kind of operation.
type Spent struct {
	Products  time.Duration // matrix products with their sums and gates, without the head's
	Attention time.Duration
	Cache     time.Duration // norms and rotations of heads, writing keys and values, convolutions and recurrent states
	Draw      time.Duration // the head's product and the draws
	Other     time.Duration // norms of rows, angles of rotations, embeddings
}

// Watch measures the operations of d, of which g tells more.
func Watch(d model.Device, g Gauge) *Stopwatch {
	return &Stopwatch{Device: d, ledger: ledger{gauge: g}}
}

// take returns what was spent since it was last called.
func (s *Stopwatch) take() Spent {
	spent := s.spent
	s.spent = Spent{}
	return spent
}

// Total is the sum of all.
func (s Spent) Total() time.Duration {
	return s.Products + s.Attention + s.Cache + s.Draw + s.Other
}

func (s *Stopwatch) other(start time.Time) { s.spent.Other += time.Since(start) }

// Plan implements model.Device, as all that follow.
func (s *Stopwatch) Plan(x model.Shape) error {
	s.ledger.plan(x)
	return s.Device.Plan(x)
}

func (s *Stopwatch) Load(m model.Matrix) (model.Weight, error) {
	before := s.ledger.gauge.WeightBytes()
	w, err := s.Device.Load(m)
	if err == nil {
		s.ledger.load(m, s.ledger.gauge.WeightBytes()-before)
	}
	return w, err
}

func (s *Stopwatch) Begin(b *backend.Batch) {
	s.ledger.batch = b
	defer s.other(time.Now())
	s.Device.Begin(b)
}

func (s *Stopwatch) Embed(dst model.Act, w model.Weight, scale float32) {
	defer s.other(time.Now())
	s.Device.Embed(dst, w, scale)
}

func (s *Stopwatch) EmbedAdd(dst model.Act, w model.Weight, by model.Index, offset int) {
	defer s.other(time.Now())
	s.Device.EmbedAdd(dst, w, by, offset)
}

func (s *Stopwatch) Select(q, weights model.Act, kv int, c model.Selection) {
	defer s.other(time.Now())
	s.Device.Select(q, weights, kv, c)
}

func (s *Stopwatch) Norm(dst, src model.Act, n model.Norm) {
	defer s.other(time.Now())
	s.Device.Norm(dst, src, n)
}

func (s *Stopwatch) Activate(dst, src model.Act, a model.Activation) {
	defer s.other(time.Now())
	s.Device.Activate(dst, src, a)
}

func (s *Stopwatch) Gate(dst, src, gate model.Act, a model.Activation) {
	defer s.other(time.Now())
	s.Device.Gate(dst, src, gate, a)
}

func (s *Stopwatch) Add(dst, src model.Act, scale float32) {
	defer s.other(time.Now())
	s.Device.Add(dst, src, scale)
}

func (s *Stopwatch) Scale(dst, src model.Act, scale float32) {
	defer s.other(time.Now())
	s.Device.Scale(dst, src, scale)
}

func (s *Stopwatch) Experts(dst, src, logits model.Act, e *model.Experts) {
	start := time.Now()
	s.Device.Experts(dst, src, logits, e)
	s.spent.Products += time.Since(start)
	s.ledger.experts(e)
}

func (s *Stopwatch) Conv(dst, src model.Act, c *model.Conv) {
	start := time.Now()
	s.Device.Conv(dst, src, c)
	s.spent.Cache += time.Since(start)
	s.ledger.conv(src, c)
}

func (s *Stopwatch) Delta(dst, q, k, v, a, b model.Act, x *model.Delta) {
	start := time.Now()
	s.Device.Delta(dst, q, k, v, a, b, x)
	s.spent.Cache += time.Since(start)
	s.ledger.delta(x)
}

func (s *Stopwatch) Scan(dst, x, b, c, dt model.Act, n *model.Scan) {
	start := time.Now()
	s.Device.Scan(dst, x, b, c, dt, n)
	s.spent.Cache += time.Since(start)
	s.ledger.scan(n)
}

func (s *Stopwatch) MatMul(dst model.Act, w model.Weight, src model.Act) {
	start := time.Now()
	s.Device.MatMul(dst, w, src)
	s.spent.Products += time.Since(start)
	s.ledger.product(w, s.ledger.rows(dst))
}

func (s *Stopwatch) MatMulAdd(dst model.Act, w model.Weight, src, scratch model.Act) {
	start := time.Now()
	s.Device.MatMulAdd(dst, w, src, scratch)
	s.spent.Products += time.Since(start)
	s.ledger.product(w, s.ledger.rows(dst))
}

func (s *Stopwatch) MatMulGate(dst model.Act, w model.Weight, src, scratch model.Act, a model.Activation) {
	start := time.Now()
	s.Device.MatMulGate(dst, w, src, scratch, a)
	s.spent.Products += time.Since(start)
	s.ledger.product(w, s.ledger.rows(dst))
}

func (s *Stopwatch) StoreKV(layer int, q, k, v model.Act, h model.Heads) {
	start := time.Now()
	s.Device.StoreKV(layer, q, k, v, h)
	s.spent.Cache += time.Since(start)
}

func (s *Stopwatch) Attend(dst, q model.Act, layer int, a model.Attention) {
	start := time.Now()
	s.Device.Attend(dst, q, layer, a)
	s.spent.Attention += time.Since(start)
	s.ledger.attend(q, layer, &a)
}

func (s *Stopwatch) Gather(dst, src model.Act) {
	defer s.other(time.Now())
	s.Device.Gather(dst, src)
}

func (s *Stopwatch) Draw(head model.Head, src model.Act, d *backend.Draws) {
	start := time.Now()
	s.Device.Draw(head, src, d)
	s.spent.Draw += time.Since(start)
	s.ledger.draw(head, d)
}

func (s *Stopwatch) End(out *backend.Out) error {
	start := time.Now()
	err := s.Device.End(out)
	s.spent.Draw += time.Since(start)
	return err
}
