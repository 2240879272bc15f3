// Package cudrv adds what gorgonia.org/cu does not have of the CUDA driver: pinned memory,
// graphs, launches with attributes and with parameters of any size, tensor maps, and the
// driver's own error texts. It works on cu's handles, in the same context and streams.
// Everything that cu has is called through cu.
//
// As with cu's package-level functions, the context belongs to the OS thread that made it
// current.
package cudrv
