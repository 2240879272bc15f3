// Package testkit is what the tests of several packages share:
//
//   - [Golden] compares output with a file;
//   - [Scripts] runs test cases that are written as text, commands with their
//     expected output;
//   - [Safetensors] and [GGUF] write checkpoint files;
//   - [Crash] kills a process while it writes, and tells what it had acknowledged. The
//     process is the test binary itself, whose TestMain is [Main].
//
// With the flag -rewrite, golden files and the output in scripts are written
// instead of compared:
//
//	go test ./scheduler -rewrite
//
// The difference that git then shows is a change of behaviour. Read it before you
// commit it.
package testkit
