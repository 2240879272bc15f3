//go:build !race

package grammar

const slow = false
