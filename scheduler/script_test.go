package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"weir/backend"
	"weir/internal/testkit"
	"weir/kvcache"
)

// TestScripts runs the scripts in testdata. Their commands are
//
//	config [blocks=100] [block=4] [budget=100] [seqs=10] [len=1000] [prefill=N] [work=N] [scored=N]
//	    [states=N] [every=N] [long=N] [whole] [priority] [nocache] [windows=N,...]
//	add id=N prompt=LENGTH [base=N] [max=100] [min=N] [eos=N] [stop=N,...] [prio=N] [chunk=N]
//	    [leader=N] [tenant=NAME] [project=NAME] [weight=N] [pweight=N] [maxpattern=N] [minpattern=N] [count=2] [work=N] [scores] [suffix=N] [postponable]
//	step [draw=ID:TOKEN,...] [times=N]   plan a step, run it and book it
//	plan                                 plan a step, as for two steps in flight
//	end [draw=ID:TOKEN,...] [late=ID,...]  run and book the oldest planned step; sequences
//	    that are late have no token and sit out
//	resume id=N                          a sequence sits out no longer
//	abort id=N
//	forget [force]                       empty the prefix cache
//	prefill n=N                          from now on a step has so many prompt tokens beside answers; 0: as config says
//	state
//	shares                               what each tenant has
//	owed                                 what each class of priority is owed
//
// windows are those of groups of layers, 0 for all positions; the blocks of a position in all groups stand
// next to each other. config starts over. The prompt of a sequence is base, base+1, and so on; base
// is 1000 times the id unless it is given. A sequence draws token 1 unless draw
// says otherwise.
func TestScripts(t *testing.T) {
	testkit.Scripts(t, "testdata", func(t *testing.T) func(testkit.Command) string {
		return (&script{t: t}).run
	})
}

// script is the state of a running script.
type script struct {
	t         *testing.T
	s         *Scheduler
	kv        *kvcache.Manager
	sequences map[int]*Sequence
	inFlight  [][]Chunk // steps that are planned and not booked
	arrivals  uint64
	out       strings.Builder
}

// run executes a command, checks the books and returns the command's output.
func (s *script) run(c testkit.Command) string {
	s.out.Reset()
	switch c.Verb {
	case "config":
		s.config(c)
	case "add":
		s.add(c)
	case "step":
		for range c.Int("times", 1) {
			s.plan()
			s.end(c)
		}
	case "plan":
		s.plan()
	case "end":
		s.end(c)
	case "resume":
		s.s.Resume(s.sequences[c.Int("id", 0)])
	case "abort":
		s.s.Abort(s.sequences[c.Int("id", 0)])
	case "forget":
		fmt.Fprintf(&s.out, "forgotten: %v\n", s.s.ForgetPrefixes(c.Has("force")))
	case "state":
		n := s.s.counters
		fmt.Fprintf(&s.out, "waiting %v running %v free %d preempted %d hits %d/%d\n", ids(waitingOf(s.s)), ids(s.s.running), s.kv.Free(),
			n.Preemptions, n.PrefixHits, n.PrefixTokens)
		if s.kv.Stateful() {
			fmt.Fprintf(&s.out, "free states %d\n", s.kv.FreeStates())
		}
	case "prefill":
		s.s.LimitPrefill(c.Int("n", 0))
	case "shares":
		for _, share := range s.s.AppendShares(nil) {
			fmt.Fprintf(&s.out, "tenant %s of weight %d: running %d waiting %d computed %d\n", share.Tenant, share.Weight, share.Running, share.Waiting, share.Tokens)
		}
	case "owed":
		for _, class := range s.s.classes {
			fmt.Fprintf(&s.out, "class %d: owed %d\n", class.priority, class.age.owed)
		}
	default:
		s.t.Fatalf("unknown command %q", c.Verb)
	}
	if err := s.s.Check(); err != nil {
		s.t.Fatal(err)
	}
	return s.out.String()
}

func (s *script) config(c testkit.Command) {
	s.kv = kvcache.New(c.Int("blocks", 100), c.Int("block", 4), c.Int("states", 0), !c.Has("nocache"), windows(c.Ints("windows"))...)
	s.s = New(Config{MaxTokens: c.Int("budget", 100), MaxSeqs: c.Int("seqs", 10), MaxSeqTokens: c.Int("len", 1000),
		MaxPrefill: c.Int("prefill", 0), MaxWork: c.Int("work", 0), MaxScored: c.Int("scored", 0), StateEvery: c.Int("every", 0), LongAfter: c.Int("long", 0), Priority: c.Has("priority"), WholePrompts: c.Has("whole")}, s.kv)
	s.sequences, s.inFlight = map[int]*Sequence{}, nil
}

// windows are groups of layers with these windows.
func windows(list []int32) (groups []backend.KVGroup) {
	for _, w := range list {
		groups = append(groups, backend.KVGroup{Window: int(w)})
	}
	return groups
}

func (s *script) add(c testkit.Command) {
	id := c.Int("id", 0)
	s.arrivals++
	q := &Sequence{
		Account: Account{Tenant: c.Str("tenant"), Project: c.Str("project"), Weight: c.Int("weight", 0), ProjectWeight: c.Int("pweight", 0)},
		ID:      uint64(id), Arrival: s.arrivals, Priority: int64(c.Int("prio", 0)), Prompt: c.Int("prompt", 1), MaxChunk: c.Int("chunk", 0),
		Work: Work{Draw: c.Int("work", 0), Scored: c.Has("scores")}, Suffix: c.Int("suffix", 0), Postponable: c.Has("postponable"),
		Limits: Limits{MaxTokens: c.Int("max", 100), MinTokens: c.Int("min", 0), EOS: int32(c.Int("eos", -1)), StopIDs: c.Ints("stop"),
			Repetition: RepetitionLimit{MaxPattern: c.Int("maxpattern", 0), MinPattern: c.Int("minpattern", 0), MinCount: c.Int("count", 2)}},
	}
	for i := range q.Prompt {
		q.Tokens = append(q.Tokens, int32(c.Int("base", 1000*id)+i))
	}
	if c.Has("leader") {
		q.Leader = s.sequences[c.Int("leader", 0)]
		q.Arrival = q.Leader.Arrival
	}
	s.sequences[id] = q
	s.s.Add(q)
}

func (s *script) plan() {
	chunks := slices.Clone(s.s.Schedule())
	if len(chunks) == 0 {
		fmt.Fprintln(&s.out, "nothing to plan")
		return
	}
	for _, c := range chunks {
		fmt.Fprintf(&s.out, "%d: compute [%d,%d) blocks %v", c.Seq.ID, c.Start, c.Start+c.N, c.Seq.Table.Blocks)
		if s.kv.Stateful() {
			fmt.Fprintf(&s.out, " state %d to %d", c.StateIn, c.StateOut)
		}
		if c.Draw {
			s.out.WriteString(" draw")
		}
		s.out.WriteString("\n")
	}
	s.inFlight = append(s.inFlight, chunks)
}

// end books the oldest step in flight, if there is one.
func (s *script) end(c testkit.Command) {
	if len(s.inFlight) == 0 {
		return
	}
	draws, late := parseDraws(c.Str("draw")), c.Ints("late")
	for _, chunk := range s.inFlight[0] {
		q, before := chunk.Seq, chunk.Seq.Status
		if slices.Contains(late, int32(q.ID)) {
			s.s.Postpone(chunk)
			continue
		}
		tok, given := draws[q.ID]
		if !given {
			tok = 1
		}
		s.s.Commit(chunk, tok)
		if before != Finished && q.Status == Finished {
			s.printFinished(q)
		}
	}
	s.s.EndStep()
	s.inFlight = s.inFlight[1:]
}

func (s *script) printFinished(q *Sequence) {
	fmt.Fprintf(&s.out, "%d: finished, %s", q.ID, reasons[q.Reason])
	if q.StopID >= 0 {
		fmt.Fprintf(&s.out, " by id %d", q.StopID)
	}
	fmt.Fprintf(&s.out, ", output %v\n", q.Tokens[q.Prompt:])
}

// parseDraws reads ID:TOKEN,... into a map.
func parseDraws(text string) map[uint64]int32 {
	draws := map[uint64]int32{}
	for draw := range strings.SplitSeq(text, ",") {
		var id uint64
		var tok int32
		if n, _ := fmt.Sscanf(draw, "%d:%d", &id, &tok); n == 2 {
			draws[id] = tok
		}
	}
	return draws
}

// reasons names each Reason.
var reasons = [...]string{"not done", "stop", "length", "repetition", "abort", "error"}

// waitingOf returns the waiting sequences of all tenants by priority and arrival.
func waitingOf(s *Scheduler) []*Sequence {
	return slices.DeleteFunc(s.Live(), func(q *Sequence) bool { return q.Status != Waiting })
}

func ids(queue []*Sequence) []uint64 {
	out := []uint64{}
	for _, q := range queue {
		out = append(out, q.ID)
	}
	return out
}
