// Package invariants checks conditions that only a bug in weir can break. The
// checks run in builds with the tag invariants and under the race detector, and
// compile to nothing otherwise. Bad input never breaks an invariant: it is
// answered with an error. A broken invariant panics, because the state of the
// process cannot be trusted any more.
//
// make test and make race run with the checks, the server that is built does not.
// Tests of allocations need a build without them, and skip themselves if Enabled.
//
// The idea of the package is that of pebble's internal/invariants.
package invariants
