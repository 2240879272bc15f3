// Package cudashim makes a program that uses the CUDA driver start without one.
//
// gorgonia.org/cu links against libcuda and, in its init function, ends the
// process when the driver cannot be initialised. So this package defines the
// driver's entry points itself, as trampolines through a table that Open fills
// from the library (entry_linux_amd64.S, generated). Before Open, and for entry
// points that the opened library lacks, a call is answered with an error code;
// cuInit, which cu's init calls, succeeds and does nothing. lib/libcuda.a is an
// empty archive for cu's -lcuda, and include/cuda.h declares the interface, so
// neither a toolkit nor a driver is needed to build.
package cudashim
