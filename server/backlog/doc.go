// Package backlog computes stored work that no client waits for: responses in the background and
// batches. What the work is, and that it survives a restart, is for its owner to know; a [Queue] decides
// what is computed when.
//
//	            Add, Prepend                    run
//	store, HTTP ───────────▶ Queue: waits ─────────────▶ a goroutine for each that runs
//	                           │  Start: there is a model, and what an earlier process left is known
//	                           └─ Remove, Now: what is cancelled need not wait for room
//
// # Whose turn it is
//
// There is room for so many works at a time. Free room goes to the owner of whose works the fewest run, and
// of one owner's works the first comes first. So an owner with many works delays another by at most as
// long as one of them takes, and not by all that wait in front.
//
// # What was considered
//
// Shares by the tokens that each owner has had, as the engine has them for requests, would need the costs
// of works that have not begun. The engine itself divides what is computed among requests, and those of the
// backlog give way to all others there.
package backlog
