//go:build race

package model_test

// underRace cuts the work of the tests that compute most: what the detector
// looks at is the same in the second step as in the first.
const underRace = true
