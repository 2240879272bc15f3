package cpu

import "weir/model"

// EmbedAdd implements model.Device.
func (d *Device) EmbedAdd(dst model.Act, w model.Weight, by model.Index, offset int) {
	panic("cpu: EmbedAdd")
}

// Activate implements model.Device.
func (d *Device) Activate(dst, src model.Act, a model.Activation) { panic("cpu: Activate") }

// Gate implements model.Device.
func (d *Device) Gate(dst, src, gate model.Act, a model.Activation) { panic("cpu: Gate") }

// Add implements model.Device.
func (d *Device) Add(dst, src model.Act, scale float32) { panic("cpu: Add") }

// Scale implements model.Device.
func (d *Device) Scale(dst, src model.Act, scale float32) { panic("cpu: Scale") }

// Experts implements model.Device.
func (d *Device) Experts(dst, src, logits model.Act, e *model.Experts) { panic("cpu: Experts") }

// Conv implements model.Device.
func (d *Device) Conv(dst, src model.Act, c *model.Conv) { panic("cpu: Conv") }

// Delta implements model.Device.
func (d *Device) Delta(dst, q, k, v, a, b model.Act, x *model.Delta) { panic("cpu: Delta") }

// Scan implements model.Device.
func (d *Device) Scan(dst, x, b, c, dt model.Act, s *model.Scan) { panic("cpu: Scan") }
