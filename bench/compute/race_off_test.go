//go:build !race && !invariants

package compute

const checked = false
