//go:build !race

package servertest

import "time"

// Deadline is how long tests wait for what a server should do soon.
const Deadline = 10 * time.Second
