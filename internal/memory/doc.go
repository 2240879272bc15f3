// Package memory is the account of the bytes that requests hold or may come to hold. What
// a request is about to hold is reserved before the work for it begins, so that the
// requests of a process together never hold more than a limit:
//
//	account := memory.New(limit, 5*time.Second)
//	r, err := account.Reserve(ctx, n) // waits for its turn; or ErrNever, or ErrFull
//	defer r.Release()
//
// The account counts bytes that its users name. It neither allocates nor measures. Which
// bytes are named for what is decided where they are held: server/openai/size.go has the
// sizes of requests and answers.
//
// # Waiting
//
// A reservation that does not fit now waits in order of arrival for at most the time that
// New was told. While one waits, no later one is served before it, however small it is, so
// that a large one is not starved by small ones. One whose context ends loses its place at
// once. Growing without waiting (Reservation.TryGrow) is for work that has begun, and does
// not queue up.
//
// # Owners
//
// Most reservations belong to somebody (Account.OpenFor): a tenant. One who would hold no
// more than an eighth of the limit is light, and nobody who holds much can keep him out:
// the last eighth of the limit is for light owners, and they pass those that wait, until as
// much as an eighth has passed the first of these. So a tenant whose requests fill the
// memory, or wait in large numbers, makes his own wait. A request of more than seven eighths
// of the limit, with what it holds in other reservations (Reservation.Beside), is served when
// nobody else holds anything.
//
// # Why nobody waits in a circle
//
// A request first holds its body, and then grows by its answer. If all memory were held by
// requests that each wait for more, none of them could go on. Therefore those that wait may
// together hold at most a quarter of the limit, and those of light owners an eighth more. A
// reservation that would make it more fails with ErrFull in place of waiting. At least
// five eighths are then held by requests that do not wait, or are free, and whatever
// needs no more than a half gets its turn. (Ordering the phases, each with a part of the
// limit, prevents circles as well, but a part that one phase does not need is lost to the
// others.)
//
// # Caches
//
// What can be built again is held by a reservation that Account.Cache makes. It grows only
// into bytes that nobody waits for, and is asked to give bytes back before any reservation
// waits or is refused. What somebody begins to use moves to a reservation of its own
// (Reservation.Move), which no other one can drive out.
package memory
