package scheduler

import "weir/kvcache"

// Some networks rotate the heads of long sequences in another way than those of short ones, at all
// positions (LongRoPE). What was computed of a sequence is worth nothing when it becomes a long one:
// it gives its blocks back, is queued, and begins anew. How a position is computed must depend on the sequence
// alone, so that this happens when the token is known that makes it long, and neither earlier, for
// sequences that may become long, nor later. A long sequence and a short one share no blocks, as if they
// had other salts.

// isLong reports whether q is to be computed as a long sequence from here on.
func (s *Scheduler) isLong(q *Sequence) bool {
	return s.cfg.LongAfter > 0 && len(q.Tokens)+q.Pending > s.cfg.LongAfter
}

// outgrown reports whether what was computed of the running sequence q was computed as of a short one, which it
// is no more, or will not be when its pending token is known.
func (s *Scheduler) outgrown(q *Sequence) bool { return !q.Long && s.isLong(q) }

// lengthen queues the running sequences that have become long, to be computed anew.
func (s *Scheduler) lengthen() {
	if s.cfg.LongAfter == 0 {
		return
	}
	for i := len(s.running) - 1; i >= 0; i-- {
		if q := s.running[i]; q.Pending == 0 && !s.sitsOut(q) && s.outgrown(q) {
			s.requeue(q)
		}
	}
}

// root is what the hashes of q's prefixes begin with.
func (q *Sequence) root() kvcache.Hash { return Root(q.Salt, q.Long) }

// Root is the salt under which the prefixes of a sequence are found that is a long one, or is not.
func Root(salt kvcache.Hash, long bool) kvcache.Hash {
	if long {
		for i := range salt {
			salt[i] ^= 0x5a // a salt is a keyed hash, so that no other one is like this
		}
	}
	return salt
}
