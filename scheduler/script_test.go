package scheduler

import (
	"fmt"
	"strings"
	"testing"

	"weir/internal/testkit"
	"weir/kvcache"
)

// TestScripts runs testdata. The verbs:
//
//	config blocks=N block=N budget=N seqs=N len=N [prefill=N] [priority] [nocache]
//	add id=N prompt=N [base=N] [max=N] [prio=N] [leader=N] ...   tokens base, base+1, ...
//	step [draw=id:tok,...]    plan, run and book one step (depth 1)
//	plan / end [draw=...]     the halves, for two steps in flight
//	abort id=N                also between plan and end
//	state
//
// A sequence draws token 1 unless draw says otherwise.
func TestScripts(t *testing.T) {
	testkit.Scripts(t, "testdata", func(t *testing.T) func(testkit.Command) string {
		var s *Scheduler
		var kv *kvcache.Manager
		seqs := map[int]*Sequence{}
		var flight [][]Chunk
		arrival := uint64(0)
		return func(c testkit.Command) string {
			var out strings.Builder
			plan := func() {
				chunks := append([]Chunk(nil), s.Schedule()...)
				if len(chunks) == 0 {
					fmt.Fprintln(&out, "nothing to plan")
					return
				}
				for _, c := range chunks {
					fmt.Fprintf(&out, "%d: compute [%d,%d) blocks %v", c.Seq.ID, c.Start, c.Start+c.N, c.Seq.Table.Blocks)
					if c.Draw {
						out.WriteString(" draw")
					}
					out.WriteString("\n")
				}
				flight = append(flight, chunks)
			}
			end := func() {
				if len(flight) == 0 {
					return
				}
				draws := map[uint64]int32{}
				for f := range strings.SplitSeq(c.Str("draw"), ",") {
					var id uint64
					var tok int32
					if n, _ := fmt.Sscanf(f, "%d:%d", &id, &tok); n == 2 {
						draws[id] = tok
					}
				}
				for _, c := range flight[0] {
					tok, ok := draws[c.Seq.ID]
					if !ok {
						tok = 1
					}
					was := c.Seq.Status
					s.Commit(c, tok)
					if was != Finished && c.Seq.Status == Finished {
						fmt.Fprintf(&out, "%d: finished, %s", c.Seq.ID, reasons[c.Seq.Reason])
						if c.Seq.StopID >= 0 {
							fmt.Fprintf(&out, " by id %d", c.Seq.StopID)
						}
						fmt.Fprintf(&out, ", output %v\n", c.Seq.Tokens[c.Seq.Prompt:])
					}
				}
				s.EndStep()
				flight = flight[1:]
			}
			switch c.Verb {
			case "config":
				kv = kvcache.New(c.Int("blocks", 100), c.Int("block", 4), !c.Has("nocache"))
				s = New(Config{MaxTokens: c.Int("budget", 100), MaxSeqs: c.Int("seqs", 10), MaxSeqTokens: c.Int("len", 1000),
					MaxPrefill: c.Int("prefill", 0), Priority: c.Has("priority")}, kv)
				seqs, flight = map[int]*Sequence{}, nil
			case "add":
				id := c.Int("id", 0)
				arrival++
				q := &Sequence{ID: uint64(id), Arrival: arrival, Priority: int64(c.Int("prio", 0)), Prompt: c.Int("prompt", 1),
					Private: c.Has("private"), MaxChunk: c.Int("chunk", 0),
					Limits: Limits{MaxTokens: c.Int("max", 100), MinTokens: c.Int("min", 0), EOS: int32(c.Int("eos", -1)), StopIDs: c.Ints("stop"),
						Repetition: RepetitionLimit{MaxPattern: c.Int("maxpattern", 0), MinPattern: c.Int("minpattern", 0), MinCount: c.Int("count", 2)}}}
				for i := range q.Prompt {
					q.Tokens = append(q.Tokens, int32(c.Int("base", 1000*id)+i))
				}
				if l := c.Int("leader", 0); l > 0 {
					q.Leader = seqs[l]
					q.Arrival = q.Leader.Arrival
				}
				seqs[id] = q
				s.Add(q)
			case "step":
				for range c.Int("times", 1) {
					plan()
					end()
				}
			case "plan":
				plan()
			case "end":
				end()
			case "abort":
				s.Abort(seqs[c.Int("id", 0)])
			case "stop":
				s.End(seqs[c.Int("id", 0)], Stop)
			case "forget":
				fmt.Fprintf(&out, "forgotten: %v\n", s.ForgetPrefixes(c.Has("force")))
			case "state":
				fmt.Fprintf(&out, "waiting %v running %v free %d preempted %d hits %d/%d\n", ids(s.waiting), ids(s.running), kv.Free(),
					s.counters.Preemptions, s.counters.PrefixHits, s.counters.PrefixTokens)
			default:
				t.Fatalf("unknown verb %q", c.Verb)
			}
			if err := s.Check(); err != nil {
				t.Fatal(err)
			}
			return out.String()
		}
	})
}

var reasons = [...]string{"not done", "stop", "length", "repetition", "abort", "error"}

func ids(list []*Sequence) []uint64 {
	out := []uint64{}
	for _, q := range list {
		out = append(out, q.ID)
	}
	return out
}
