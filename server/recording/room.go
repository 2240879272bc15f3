package recording

import (
	"context"
	"errors"

	"weir/internal/memory"
)

// reserving returns a context for work of the server itself: what it holds is reserved in the
// account, until release. Work that finds no memory fails and is done later; what needs more
// than there ever is is done all the same, because it was accepted. Without an account nothing
// is reserved.
func reserving(ctx context.Context, account *memory.Account) (with context.Context, release func()) {
	if account == nil {
		return ctx, func() {}
	}
	held := account.Open()
	take := func(n int64) error {
		err := held.Grow(ctx, n)
		if errors.Is(err, memory.ErrNever) {
			held.Force(n)
			return nil
		}
		return err
	}
	return memory.With(ctx, take), held.Release
}

// TextShare is what a recording takes for a moment while it is written, for each of its bytes:
// its text, in which JSON may make six bytes of one, in a buffer that grows.
const TextShare = 8
