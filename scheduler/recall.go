package scheduler

import (
	"slices"

	"weir/kvcache"
)

// A prefix may be kept outside of the pool, from where it takes a while to come back. When a sequence with Recall set could be
// admitted, it is held back once, and the caller is told. The caller brings back what it can into free blocks
// (kvcache.Manager.Restore), and says when it has ended. Others are admitted meanwhile. A sequence is not held back before it is its turn:
// what came back for one that still has to wait long would take the place of what others need sooner.

// recall is what the scheduler knows of that.
type recall struct {
	asked bool // since it began to wait
	held  bool
}

// holdBack reports whether q is held back, instead of being admitted, so that its prefix may come back. It is not if there is no place
// for it, or if its tokens do not fit into the blocks that are free.
func (s *Scheduler) holdBack(q *Sequence) bool {
	if !q.Recall || q.NoCacheRead || q.Leader != nil || q.recall.asked || len(s.running) >= s.cfg.MaxSeqs ||
		s.kv.Entries(len(q.Tokens))*s.kv.Groups()+s.spare() > s.kv.Free() || s.kv.Stateful() && s.kv.FreeStates() < 2 {
		return false
	}
	q.recall = recall{asked: true, held: true}
	s.recalls = append(s.recalls, q)
	return true
}

// Recalls returns the sequences that were held back since the last call. The caller calls Recalled for each of them some time.
func (s *Scheduler) Recalls() []*Sequence {
	list := s.recalls
	s.recalls = nil
	return list
}

// HeldBack reports whether Recalls has something to return.
func (s *Scheduler) HeldBack() bool { return len(s.recalls) > 0 }

// Recalled lets a sequence that was held back be admitted. It does nothing for one that has ended meanwhile.
func (s *Scheduler) Recalled(q *Sequence) { q.recall.held = false }

// Root is the salt under which the prefixes of q are found, which depends on its length.
func (s *Scheduler) Root(q *Sequence) kvcache.Hash {
	q.Long = s.isLong(q)
	return q.root()
}

// forgetRecall lets q be held back again, because it begins to wait anew.
func (s *Scheduler) forgetRecall(q *Sequence) {
	q.recall = recall{}
	s.recalls = slices.DeleteFunc(s.recalls, func(r *Sequence) bool { return r == q })
}
