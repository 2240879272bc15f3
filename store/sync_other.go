//go:build !linux

package store

import "os"

// syncsMaps says that a sync of a file writes what was changed through a map of it.
// Elsewhere that is not promised, so badger syncs its maps.
const syncsMaps = false

func datasync(*os.File) error { return nil }
