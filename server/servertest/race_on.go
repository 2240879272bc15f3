//go:build race

package servertest

import "time"

// Deadline is how long tests wait for what a server should do soon. The race detector makes everything several times as slow.
const Deadline = 2 * time.Minute
