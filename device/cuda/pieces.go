//go:build cuda && linux && amd64

package cuda

import "weir/model"

// The operations of pieces that Plan refuses, so that nothing calls them.

// EmbedAdd implements model.Device.
func (d *Device) EmbedAdd(dst model.Act, w model.Weight, by model.Index, offset int) {
	refused("EmbedAdd")
}

// Select implements model.Device.
func (d *Device) Select(q, weights model.Act, kv int, s model.Selection) { refused("Select") }

// Experts implements model.Device.
func (d *Device) Experts(dst, src, logits model.Act, e *model.Experts) { refused("Experts") }

// Conv implements model.Device.
func (d *Device) Conv(dst, src model.Act, c *model.Conv) { refused("Conv") }

// Delta implements model.Device.
func (d *Device) Delta(dst, q, k, v, a, b model.Act, x *model.Delta) { refused("Delta") }

// Scan implements model.Device.
func (d *Device) Scan(dst, x, b, c, dt model.Act, s *model.Scan) { refused("Scan") }

func refused(op string) { panic("cuda: " + op + " of a network that Plan refuses") }
