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

func refused(op string) { panic("cuda: " + op + " of a network that Plan refuses") }
