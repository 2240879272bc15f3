package tokenizer

// allowance is what one Encode may still do. It bounds the steps of regular expressions,
// and ends the work if nobody waits for it any more. A nil allowance has no bounds; only
// matchers that count no steps may get one.
type allowance struct {
	left int // steps that are left until the next look at done
	rest int // steps that are left after those
	due  int // bytes of other work until the next look at done

	done    <-chan struct{}
	stopped bool // done was closed, or reserve has said no

	reserve func(length int) bool // of EncodeWithin
	length  int                   // bytes that are encoded, as far as is known
}

const (
	// stepSlice and workSlice are what is done between two looks at done: about five
	// milliseconds of a regular expression, about one of other work.
	stepSlice = 1 << 20
	workSlice = 1 << 16
)

// add adds steps.
func (a *allowance) add(n int) { a.rest += n }

// spent reports whether the last step has been taken.
func (a *allowance) spent() bool { return a.left <= 0 && a.rest <= 0 }

// refill is called when no steps are left of a slice. It takes the next one and reports
// whether there was any.
func (a *allowance) refill() bool {
	if a.rest > 0 && !a.look() {
		n := min(a.rest, stepSlice+max(0, -a.left))
		a.left += n
		a.rest -= n
	}
	return a.left > 0
}

// exhaust takes all steps away, so that nothing matches any more.
func (a *allowance) exhaust() { a.left, a.rest = min(a.left, 0), 0 }

// work counts the work on n bytes that are not matched by a regular expression, and
// reports whether it is to go on.
func (a *allowance) work(n int) bool {
	if a == nil {
		return true
	}
	if a.due -= n; a.due > 0 {
		return true
	}
	a.due = workSlice
	return !a.look()
}

// grow counts n bytes by which a text has become longer, and reports whether the work is to
// go on.
func (a *allowance) grow(n int) bool {
	if n <= 0 {
		return !a.stopped
	}
	a.length += n
	return a.holds(a.length)
}

// holds reports whether there may be a text of so many bytes. If not, the work ends.
func (a *allowance) holds(length int) bool {
	if a.reserve != nil && !a.reserve(length) {
		a.stopped = true
		a.exhaust()
	}
	return !a.stopped
}

// swelling looks from time to time at how much longer a text becomes while it is normalized.
type swelling struct {
	allow *allowance
	next  int // the growth at which it looks again
}

// ok reports whether the work is to go on when so many bytes have been made of so many. What has
// been made is counted by grow when it is complete.
func (s *swelling) ok(made, of int) bool {
	if s.allow == nil || made-of <= s.next {
		return true
	}
	s.next = made - of + workSlice
	return s.allow.holds(s.allow.length + made - of)
}

// look reports whether the work is to stop.
func (a *allowance) look() bool {
	if a.stopped {
		return true
	}
	select {
	case <-a.done:
		a.stopped = true
		a.exhaust()
	default:
	}
	return a.stopped
}
