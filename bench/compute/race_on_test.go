//go:build race || invariants

package compute

// checked says that this build checks steps, for which it allocates memory.
const checked = true
