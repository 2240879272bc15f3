// Package usage counts requests and tokens by project, and keeps the counts over restarts.
// It does not know HTTP, and the engine's loop does not call it.
//
//	ledger, err := usage.Open(config)
//	ledger.Add("team/project", usage.Counts{Requests: 1, Prompt: 120, Completion: 210})
//	projects, since, err := ledger.Totals()
//
// # When counts are safe
//
// [Ledger.Add] changes memory only, and waits for no file. A goroutine appends what has been
// added to a file within 100 ms, and syncs the file within a second after that:
//
//	0 ms       50 ms              1.05 s
//	Add  ...   append to file ... fsync
//
// [Ledger.Close] does both. So a process that is killed loses the counts of its last 100 ms,
// and a machine that loses power those of one more second. If the file cannot be written,
// counts stay in memory, and are written when that is possible again.
//
// # Several processes
//
// Processes may share a directory. [Ledger.Totals] is the sum of what all of them have
// written, and of what this one has still to write. Whoever appends holds a lock, and first
// reads what the others have appended. Where the system has no flock, a directory is for one
// process.
//
// # The file
//
// The file is lines of text, each with a CRC-32C of its own:
//
//	6b0c6a2f since 1772900000
//	50f0a4d3 add 3 120 64 210 team/project
//	0f3e3c1a add 1 15 0 5 -
//
// "since" is when counting began, in Unix seconds. "add" has requests, prompt tokens, cached
// and completion tokens, and the project, or "-" for requests without one. Totals are sums.
// Nothing is changed in place, so damage does not spread: a line that was cut, because a
// process died while it wrote, or that was altered is skipped, counted and logged, and the
// next line is good again.
//
// When the file has grown to a multiple of the size of its sums, it is replaced by them,
// under the same lock. Other processes notice that the name now means another file, and read
// that.
//
// # Locks
//
// There are two mutexes. Ledger.added guards what was added and not yet written, and is held
// only to add numbers. Ledger.book guards the totals and the file, and is held while the
// file is written. Whoever needs both takes book first.
//
// # Files
//
// ledger.go has the Ledger and its goroutine, file.go the file, lock_flock.go the lock.
package usage
