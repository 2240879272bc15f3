//go:build amd64 && !linux && !purego

package cpu

// permitTiles reports that nobody knows whether the system keeps the registers of AMX.
func permitTiles() bool { return false }
