package memory

import "context"

type takeKey struct{}

// With returns a context for work whose memory is reserved by take. Take may wait; if it
// returns an error, the work has to end with it. What was taken is given back by whoever
// made the context, when the work has ended.
func With(ctx context.Context, take func(n int64) error) context.Context {
	return context.WithValue(ctx, takeKey{}, take)
}

// Take reserves n bytes that work with ctx is about to hold. Without With it does nothing.
func Take(ctx context.Context, n int64) error {
	if take, ok := ctx.Value(takeKey{}).(func(n int64) error); ok {
		return take(n)
	}
	return nil
}
