//go:build race

package grammar

// slow: the race detector makes walks over vocabularies ten times as long.
const slow = true
