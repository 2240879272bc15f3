// Package models holds the model that ships inside the binary, so that a server answers
// before anything was downloaded.
//
// It is weir-tiny: 5.6 million parameters in the Qwen3 architecture, trained on a small
// made-up corpus (tools/tinymodel). weir-tiny/README.md says what it can and cannot do. It
// is for trying weir out, for tests and for load tests. The tests of model, engine and
// server use it as a trained network, whose answers mean something and whose bits must not
// change.
package models
