//go:build race

package model_test

// underRace makes the longest tests shorter. The race detector sees the same accesses
// in every step.
const underRace = true
