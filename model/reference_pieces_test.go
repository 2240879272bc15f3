package model_test

import "weir/model"

func (d *reference) EmbedAdd(dst model.Act, w model.Weight, by model.Index, offset int) {
	panic("reference: EmbedAdd")
}

func (d *reference) Activate(dst, src model.Act, a model.Activation) { panic("reference: Activate") }

func (d *reference) Gate(dst, src, gate model.Act, a model.Activation) { panic("reference: Gate") }

func (d *reference) Add(dst, src model.Act, scale float32) { panic("reference: Add") }

func (d *reference) Scale(dst, src model.Act, scale float32) { panic("reference: Scale") }

func (d *reference) Experts(dst, src, logits model.Act, e *model.Experts) {
	panic("reference: Experts")
}

func (d *reference) Conv(dst, src model.Act, c *model.Conv) { panic("reference: Conv") }

func (d *reference) Delta(dst, q, k, v, a, b model.Act, x *model.Delta) { panic("reference: Delta") }

func (d *reference) Scan(dst, x, b, c, dt model.Act, s *model.Scan) { panic("reference: Scan") }
