//go:build invariants || race

package invariants

// Enabled reports whether invariants are checked in this build.
const Enabled = true
