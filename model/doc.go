// Package model knows decoders: what a config.json means, which tensors a
// checkpoint must hold, and the order of operations of a step. How the
// operations are computed is a Device's business; a Runner drives a device and
// is the backend.Backend that the engine sees.
//
//	m, err := model.Open(dir)                    // headers and configs are checked, no weight is read
//	r, err := model.NewRunner(ctx, dev, m, opt)  // weights are loaded into dev
//	defer m.Close()                              // after r.Close: the device may still read the mapped files
//
// Letters in shapes: T tokens of a step, R rows to draw, D hidden size, F
// intermediate size, H query heads, G key/value heads, K head size, V
// vocabulary size, L layers.
package model
