package invariants

import "fmt"

// Check panics with the message if ok is false. A call whose arguments are
// expensive to compute belongs under "if invariants.Enabled".
func Check(ok bool, format string, args ...any) {
	if Enabled && !ok {
		panic(fmt.Sprintf("weir: broken invariant: "+format, args...))
	}
}

// NoError panics if err is not nil.
func NoError(err error) {
	if Enabled && err != nil {
		panic(fmt.Sprintf("weir: broken invariant: %v", err))
	}
}
