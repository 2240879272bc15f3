//go:build race || invariants

package compute

// checked says that the build allocates in steps to check them.
const checked = true
