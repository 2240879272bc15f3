package compute

import (
	"time"

	"weir/backend"
	"weir/model"
)

// Stopwatch is a device that measures how long its operations take. The device below it must
// be synchronous: an operation must be done when it returns.
type Stopwatch struct {
	model.Device
	spent Spent
}

// Spent is time by kind of operation.
type Spent struct {
	Products  time.Duration // matrix products with their sums and gates, without the head's
	Attention time.Duration
	Cache     time.Duration // norms and rotations of heads, writing keys and values
	Draw      time.Duration // the head's product and the draws
	Other     time.Duration // norms of rows, angles of rotations, embeddings
}

// Watch measures the operations of d.
func Watch(d model.Device) *Stopwatch { return &Stopwatch{Device: d} }

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

// Begin implements model.Device, as all that follow.
func (s *Stopwatch) Begin(b *backend.Batch) {
	defer s.other(time.Now())
	s.Device.Begin(b)
}

func (s *Stopwatch) Embed(dst model.Act, w model.Weight) {
	defer s.other(time.Now())
	s.Device.Embed(dst, w)
}

func (s *Stopwatch) Norm(dst, src model.Act, w model.Weight, eps float32) {
	defer s.other(time.Now())
	s.Device.Norm(dst, src, w, eps)
}

func (s *Stopwatch) MatMul(dst model.Act, w model.Weight, src model.Act) {
	start := time.Now()
	s.Device.MatMul(dst, w, src)
	s.spent.Products += time.Since(start)
}

func (s *Stopwatch) MatMulAdd(dst model.Act, w model.Weight, src, scratch model.Act) {
	start := time.Now()
	s.Device.MatMulAdd(dst, w, src, scratch)
	s.spent.Products += time.Since(start)
}

func (s *Stopwatch) MatMulGate(dst model.Act, w model.Weight, src, scratch model.Act) {
	start := time.Now()
	s.Device.MatMulGate(dst, w, src, scratch, model.Activation{Kind: model.SiLU})
	s.spent.Products += time.Since(start)
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
}

func (s *Stopwatch) Gather(dst, src model.Act) {
	defer s.other(time.Now())
	s.Device.Gather(dst, src)
}

func (s *Stopwatch) Draw(head model.Weight, src model.Act, d *backend.Draws) {
	start := time.Now()
	s.Device.Draw(model.Head{W: head, Scale: 1}, src, d)
	s.spent.Draw += time.Since(start)
}

func (s *Stopwatch) End(out *backend.Out) error {
	start := time.Now()
	err := s.Device.End(out)
	s.spent.Draw += time.Since(start)
	return err
}
