package scheduler

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"weir/backend"
	"weir/kvcache"
)

// historyDevice stores in every KV slot a hash of the tokens up to and including
// the one that belongs to the slot. Before it draws a token it checks that every
// slot of the sequence's history holds the hash of exactly that history. So a
// mistake in the books is noticed, and what is drawn depends on the history
// alone. The recurrent state of a sequence is such a hash, too.
//
// Layers of several groups have slots of their own, of which the device reads those that the group sees.
type historyDevice struct {
	blockTokens int
	groups      []backend.KVGroup
	slots       []uint64
	states      []uint64            // of state slots; empty if there are none
	drawn       map[*Sequence]int32 // by the last step
}

// plannedChunk is a chunk with a copy of all that the device is given when the
// step is planned.
type plannedChunk struct {
	Chunk
	tokens []int32             // those known; one more may be drawn by the step before
	tables [][]kvcache.BlockID // by group
}

// extend adds a token to the hash of a history.
func extend(h uint64, tok int32) uint64 {
	h ^= uint64(uint32(tok)) + 0x9e3779b97f4a7c15
	h *= 0xbf58476d1ce4e5b9
	return h ^ h>>29
}

// drawAfter is the token drawn after a history with this hash.
func drawAfter(h uint64) int32 { return int32(h >> 7 % 11) }

func (d *historyDevice) slot(c *plannedChunk, g, pos int) *uint64 {
	return &d.slots[int(c.tables[g][pos/d.blockTokens])*d.blockTokens+pos%d.blockTokens]
}

// inGroup is what a slot of a group holds.
func inGroup(h uint64, g int) uint64 { return h + uint64(g) }

// checkHistory checks what the tokens of a chunk see.
func (d *historyDevice) checkHistory(c *plannedChunk, history []uint64) error {
	for g, group := range d.groups {
		for pos := group.First(c.Start); pos < len(history); pos++ {
			if *d.slot(c, g, pos) != inGroup(history[pos], g) {
				return fmt.Errorf("sequence %d: the slot of position %d of group %d, in block %d, does not hold its history", c.Seq.ID, pos, g, c.tables[g][pos/d.blockTokens])
			}
		}
	}
	return nil
}

// run computes a step and keeps what it draws. As in a layer of a model, all
// sequences write their slots before any is read.
func (d *historyDevice) run(step []plannedChunk) error {
	histories := make([][]uint64, len(step))
	for i := range step {
		histories[i] = d.write(&step[i])
	}
	drawn := map[*Sequence]int32{}
	for i := range step {
		c, history := &step[i], histories[i]
		if err := d.checkState(c, history); err != nil {
			return err
		}
		if err := d.checkHistory(c, history); err != nil {
			return err
		}
		if c.Draw {
			drawn[c.Seq] = drawAfter(history[len(history)-1])
		}
	}
	d.drawn = drawn
	for i := range step {
		if len(d.states) > 0 {
			d.states[step[i].StateOut] = histories[i][len(histories[i])-1]
		}
	}
	return nil
}

// checkState checks that a chunk goes on from the state after its history. The states that a step
// leaves are stored after all have been read, so that it is noticed if a step reads what it writes.
func (d *historyDevice) checkState(c *plannedChunk, history []uint64) error {
	switch {
	case len(d.states) == 0 && c.StateIn == 0 && c.StateOut == 0:
	case (c.StateIn == 0) != (c.Start == 0) || c.StateOut < 1 || int(c.StateOut) >= len(d.states):
		return fmt.Errorf("sequence %d: the chunk at %d goes from state slot %d to %d", c.Seq.ID, c.Start, c.StateIn, c.StateOut)
	case c.Start > 0 && d.states[c.StateIn] != history[c.Start-1]:
		return fmt.Errorf("sequence %d: state slot %d does not hold the state after %d tokens", c.Seq.ID, c.StateIn, c.Start)
	}
	return nil
}

// write stores the hashes of a chunk's positions and returns those of all
// positions up to its end.
func (d *historyDevice) write(c *plannedChunk) (history []uint64) {
	end := c.Start + c.N
	tokens := slices.Clone(c.tokens)
	if end > len(tokens) {
		tokens = append(tokens, d.drawn[c.Seq])
	}
	h := uint64(1)
	for pos, tok := range tokens[:end] {
		h = extend(h, tok)
		history = append(history, h)
		if pos >= c.Start {
			for g := range d.groups {
				*d.slot(c, g, pos) = inGroup(h, g)
			}
		}
	}
	return history
}

// outputAlone is what a sequence draws if nothing else runs.
func outputAlone(prompt []int32, limits Limits, maxSeqTokens int) []int32 {
	q := &Sequence{Tokens: slices.Clone(prompt), Prompt: len(prompt), Limits: limits,
		rules: rules{stopIDs: slices.Sorted(slices.Values(limits.StopIDs)), matches: make([]int32, limits.Repetition.MaxPattern+1)}}
	for {
		h := uint64(1)
		for _, tok := range q.Tokens {
			h = extend(h, tok)
		}
		q.Tokens = append(q.Tokens, drawAfter(h))
		if _, done := q.stop(maxSeqTokens); done {
			return q.Tokens[q.Prompt:]
		}
	}
}

// simulation runs a random workload: arrivals, aborts, and one or two steps in
// flight, under a random configuration.
type simulation struct {
	*rand.Rand
	cfg      Config
	depth    int // most steps in flight
	late     int // percentage of draws that are postponed
	kv       *kvcache.Manager
	s        *Scheduler
	dev      *historyDevice
	jobs     []*job
	inFlight [][]plannedChunk
}

// job is a sequence of a simulation and what is expected of it.
type job struct {
	q        *Sequence
	prompt   []int32
	aborted  bool
	finished int // how often it went from not finished to finished
	late     int // how often its token was postponed
}

// simulatedSeqTokens is the longest sequence of a simulation.
const simulatedSeqTokens = 40

func newSimulation(seed uint64) *simulation {
	g := rand.New(rand.NewPCG(seed, 2))
	m := &simulation{Rand: g, depth: 1 + g.IntN(2), late: g.IntN(2) * g.IntN(60)}
	blockTokens := 1 + g.IntN(5)
	states := 0
	if g.IntN(3) > 0 {
		states = 2 + g.IntN(14)
	}
	m.cfg = Config{MaxTokens: 1 + g.IntN(50), MaxSeqs: 1 + g.IntN(8), MaxSeqTokens: simulatedSeqTokens, MaxPrefill: g.IntN(2) * (1 + g.IntN(8)), Priority: g.IntN(2) == 0}
	if g.IntN(3) == 0 {
		m.cfg.WholePrompts, m.cfg.MaxTokens = true, simulatedSeqTokens+g.IntN(20)
	}
	if g.IntN(2) == 0 {
		m.cfg.MaxWork, m.cfg.MaxScored = 1+g.IntN(30), 1+g.IntN(12)
	}
	m.cfg.StateEvery = g.IntN(2) * g.IntN(12)
	groups := randomGroups(g)
	spec := backend.Spec{BlockTokens: blockTokens, MaxTokens: m.cfg.MaxTokens, Groups: groups}
	blocks := 1 + spec.SequenceBlocks(simulatedSeqTokens) + g.IntN(2)*g.IntN(30)
	m.kv = kvcache.New(blocks, blockTokens, states, g.IntN(3) > 0, groups...)
	m.s = New(m.cfg, m.kv)
	m.dev = &historyDevice{blockTokens: blockTokens, groups: groups, slots: make([]uint64, blocks*blockTokens), states: make([]uint64, states)}
	return m
}

// randomGroups are groups of layers: half of the time one that sees everything.
func randomGroups(g *rand.Rand) []backend.KVGroup {
	if g.IntN(2) == 0 {
		return make([]backend.KVGroup, 1)
	}
	groups := make([]backend.KVGroup, 1+g.IntN(3))
	for i := range groups {
		switch g.IntN(4) {
		case 0, 1:
			groups[i].Window = 1 + g.IntN(12)
		case 2:
			groups[i].Chunk = 1 + g.IntN(12)
		}
	}
	return groups
}

// run lets requests arrive until there have been enough, and steps until all
// have ended.
func (m *simulation) run() error {
	arrivals := 20
	for steps := 0; arrivals > 0 || !m.s.Idle() || len(m.inFlight) > 0; steps++ {
		if steps > 20000 {
			return fmt.Errorf("no end is in sight: waiting %v, running %v", ids(waitingOf(m.s)), ids(m.s.running))
		}
		for arrivals > 0 && m.IntN(3) == 0 {
			m.arrive()
			arrivals--
		}
		if err := m.step(); err != nil {
			return err
		}
	}
	if m.kv.Free() != m.kv.Total() {
		return fmt.Errorf("%d of %d blocks came back", m.kv.Free(), m.kv.Total())
	}
	if m.kv.FreeStates() != m.kv.TotalStates() {
		return fmt.Errorf("%d of %d state slots came back", m.kv.FreeStates(), m.kv.TotalStates())
	}
	return m.checkOutputs()
}

// arrive adds the choices of a request. Prompts have one of two prefixes, so that
// they share blocks.
func (m *simulation) arrive() {
	prefixes := [][]int32{{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, {1, 2, 3, 4, 9, 9, 9, 9, 9}}
	prompt := slices.Clone(prefixes[m.IntN(2)][:1+m.IntN(9)])
	for range m.IntN(10) {
		prompt = append(prompt, int32(m.IntN(3)))
	}
	limits := Limits{MaxTokens: 1 + m.IntN(simulatedSeqTokens-len(prompt)), EOS: int32(m.IntN(30)), MinTokens: m.IntN(2)}
	if m.IntN(3) == 0 {
		limits.Repetition = RepetitionLimit{MaxPattern: 1 + m.IntN(4), MinCount: 2 + m.IntN(2)}
	}
	var leader *Sequence
	choices, priority := 1+max(0, m.IntN(6)-3), int64(m.IntN(3))
	if priority == 2 {
		priority = Background
	}
	account := Account{Tenant: string(rune('a' + m.IntN(3))), Project: string(rune('x' + m.IntN(2)))}
	for range choices {
		n := uint64(len(m.jobs) + 1)
		q := &Sequence{ID: n, Arrival: n, Priority: priority, Account: account, Leader: leader, Prompt: len(prompt), Tokens: slices.Clone(prompt), Limits: limits,
			Suffix: m.IntN(2) * m.IntN(12), Postponable: m.IntN(4) > 0,
			NoCacheRead: m.IntN(8) == 0, Work: Work{Draw: m.IntN(2) * m.IntN(20), Scored: m.IntN(4) == 0}, MaxChunk: m.IntN(2) * (1 + m.IntN(9)), Salt: kvcache.Hash{byte(m.IntN(2))}}
		if leader != nil {
			q.Salt = leader.Salt
		} else {
			leader = q
		}
		m.jobs = append(m.jobs, &job{q: q, prompt: prompt})
		m.s.Add(q)
	}
}

// maybeAbort ends a random job now and then.
func (m *simulation) maybeAbort() {
	if len(m.jobs) == 0 || m.IntN(12) != 0 {
		return
	}
	j := m.jobs[m.IntN(len(m.jobs))]
	j.aborted = j.aborted || j.q.Status != Finished
	m.s.Abort(j.q)
}

// maybeResume lets sequences that sit out go on, each after two steps on average.
func (m *simulation) maybeResume() {
	for _, j := range m.jobs {
		if j.q.late.held && m.IntN(2) == 0 {
			m.s.Resume(j.q)
		}
	}
}

// changeWork changes what drawing costs some of the sequences, as penalties do.
func (m *simulation) changeWork() {
	for _, j := range m.jobs {
		if d := &j.q.Work.Draw; *d > 0 {
			*d += m.IntN(2)
		}
	}
}

// anyHeld reports whether a sequence that has not finished sits out.
func (m *simulation) anyHeld() bool {
	return slices.ContainsFunc(m.jobs, func(j *job) bool { return j.q.late.held && j.q.Status != Finished })
}

// step plans a step and ends the oldest one, if as many as possible are in flight
// or nothing could be planned. Jobs may be aborted before and after planning.
func (m *simulation) step() error {
	m.maybeAbort()
	m.maybeResume()
	m.changeWork()
	step, err := m.plan()
	if err != nil {
		return err
	}
	if len(step) > 0 {
		m.inFlight = append(m.inFlight, step)
	}
	m.maybeAbort()
	if len(m.inFlight) == m.depth || len(m.inFlight) > 0 && len(step) == 0 {
		if err := m.end(); err != nil {
			return err
		}
	}
	return m.s.Check()
}

// plan plans a step and checks it against the configuration.
func (m *simulation) plan() ([]plannedChunk, error) {
	if err := m.s.checkCandidate(); err != nil {
		return nil, err
	}
	chunks := m.s.Schedule()
	if len(chunks) == 0 && len(m.inFlight) == 0 && !m.s.Idle() && !m.anyHeld() {
		return nil, fmt.Errorf("nothing is planned or in flight although sequences wait")
	}
	if err := checkWork(m.cfg, chunks); err != nil {
		return nil, err
	}
	var step []plannedChunk
	tokens := 0
	for _, c := range chunks {
		tokens += c.N
		if c.N < 1 || c.Seq.Status != Running {
			return nil, fmt.Errorf("impossible chunk %+v", c)
		}
		if m.cfg.WholePrompts && !c.Draw && c.N != c.Seq.MaxChunk && !m.endsAtState(c) {
			return nil, fmt.Errorf("the prompt of sequence %d is cut: %+v", c.Seq.ID, c)
		}
		planned := plannedChunk{Chunk: c, tokens: slices.Clone(c.Seq.Tokens)}
		for g := range m.kv.Groups() {
			planned.tables = append(planned.tables, m.kv.AppendTable(nil, &c.Seq.Table, g))
		}
		step = append(step, planned)
	}
	if tokens > m.cfg.MaxTokens || len(chunks) > m.cfg.MaxSeqs || len(m.s.running) > m.cfg.MaxSeqs {
		return nil, fmt.Errorf("a step of %d tokens and %d chunks with %d running sequences exceeds %+v", tokens, len(chunks), len(m.s.running), m.cfg)
	}
	if err := m.checkStates(step); err != nil {
		return nil, err
	}
	return step, m.checkWrites(step)
}

// endsAtState reports whether the state at the end of c may be kept.
func (m *simulation) endsAtState(c Chunk) bool {
	end, every := c.Start+c.N, m.s.cfg.StateEvery
	return m.kv.Stateful() && (end == m.s.lastPoint(c.Seq) || end == m.s.forkPoint(c.Seq) || end == c.Seq.Table.Branch() || every > 0 && end%every == 0)
}

// checkStates makes sure that step writes to no state slot that it reads for another sequence or
// writes twice, nor to one that a step in flight uses, unless a sequence goes on in its slot.
func (m *simulation) checkStates(step []plannedChunk) error {
	if !m.kv.Stateful() {
		return nil
	}
	used := map[kvcache.StateID]bool{}
	for _, earlier := range m.inFlight {
		for _, c := range earlier {
			used[c.StateIn], used[c.StateOut] = true, true
		}
	}
	for i, c := range step {
		if used[c.StateOut] && c.StateOut != c.StateIn {
			return fmt.Errorf("sequence %d gets state slot %d while a step in flight uses it", c.Seq.ID, c.StateOut)
		}
		for j, o := range step {
			if i != j && (c.StateOut == o.StateOut || c.StateOut == o.StateIn) {
				return fmt.Errorf("sequence %d writes to state slot %d, which sequence %d has", c.Seq.ID, c.StateOut, o.Seq.ID)
			}
		}
	}
	return nil
}

// checkWrites makes sure that step writes to no block that a step in flight still
// writes to for another sequence.
func (m *simulation) checkWrites(step []plannedChunk) error {
	writer := map[kvcache.BlockID]*Sequence{}
	for _, earlier := range m.inFlight {
		m.eachWrite(earlier, func(c *plannedChunk, b kvcache.BlockID) { writer[b] = c.Seq })
	}
	var err error
	m.eachWrite(step, func(c *plannedChunk, b kvcache.BlockID) {
		if w := writer[b]; w != nil && w != c.Seq {
			err = fmt.Errorf("sequence %d gets block %d while a step in flight writes to it for sequence %d", c.Seq.ID, b, w.ID)
		}
	})
	return err
}

// eachWrite calls f with the block of each position that step computes.
func (m *simulation) eachWrite(step []plannedChunk, f func(c *plannedChunk, b kvcache.BlockID)) {
	for i := range step {
		c := &step[i]
		for pos := c.Start; pos < c.Start+c.N; pos++ {
			for g := range c.tables {
				f(c, c.tables[g][pos/m.dev.blockTokens])
			}
		}
	}
}

// end runs and books the oldest step in flight.
func (m *simulation) end() error {
	step := m.inFlight[0]
	if err := m.dev.run(step); err != nil {
		return err
	}
	for _, c := range step {
		tok, drawn := m.dev.drawn[c.Seq]
		if !drawn {
			tok = -1
		}
		before := c.Seq.Status
		if c.Draw && m.IntN(100) < m.late {
			if before != Finished && !m.s.Stale(c.Seq) {
				m.jobs[c.Seq.ID-1].late++
			}
			m.s.Postpone(c.Chunk)
		} else {
			m.s.Commit(c.Chunk, tok)
		}
		if before != Finished && c.Seq.Status == Finished {
			m.jobs[c.Seq.ID-1].finished++
		}
	}
	m.s.EndStep()
	m.inFlight = m.inFlight[1:]
	return nil
}

// checkOutputs compares each job with what it draws alone, as far as it came.
func (m *simulation) checkOutputs() error {
	for _, j := range m.jobs {
		got, want := j.q.Tokens[j.q.Prompt:], outputAlone(j.prompt, j.q.Limits, simulatedSeqTokens)
		if j.aborted {
			want = want[:min(len(want), len(got))]
		} else if j.finished != 1 {
			return fmt.Errorf("sequence %d finished %d times", j.q.ID, j.finished)
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("sequence %d drew %v, alone it draws %v", j.q.ID, got, want)
		}
	}
	return nil
}

// seeds are the first n seeds.
func seeds(n int) []uint64 {
	list := make([]uint64, n)
	for i := range list {
		list[i] = uint64(i)
	}
	return list
}

// TestRandom runs random workloads. Every sequence must draw what it draws alone,
// finish once, and give back its blocks.
func TestRandom(t *testing.T) {
	preempted, hits, stateful, windowed, aborted, late := 0, uint64(0), uint64(0), uint64(0), 0, 0
	// In 7406, two sequences whose prefixes are in the cache took the memory from each other without end. In 7456, a chunk
	// was taken out of a plan, and the scores that it had been given were not given to the next one.
	for _, seed := range append([]uint64{7406, 7456}, seeds(500)...) {
		m := newSimulation(seed)
		if err := m.run(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		hits += m.s.Counters().PrefixHits
		if m.kv.Stateful() {
			stateful += m.s.Counters().PrefixHits
		}
		if m.dev.groups[0] != (backend.KVGroup{}) {
			windowed += m.s.Counters().PrefixHits
		}
		for _, j := range m.jobs {
			preempted += j.q.Preempted
			late += j.late
			if j.aborted {
				aborted++
			}
		}
	}
	t.Logf("%d preemptions, %d tokens from the prefix cache, %d of them with a state, %d with a window, %d aborts, %d tokens postponed", preempted, hits, stateful, windowed, aborted, late)
	if preempted < 100 || hits < 1000 || stateful < 400 || windowed < 200 || aborted < 100 || late < 1000 {
		t.Error("there were too few of these for the test to mean anything")
	}
}

// TestRestart: when the device has lost everything, every live sequence goes on
// from its tokens.
func TestRestart(t *testing.T) {
	s := New(Config{MaxTokens: 50, MaxSeqs: 4, MaxSeqTokens: 40}, kvcache.New(20, 4, 0, true))
	var sequences []*Sequence
	for id := range 6 {
		q := &Sequence{ID: uint64(id), Arrival: uint64(id), Tokens: []int32{1, 2, 3, int32(id)}, Prompt: 4, Limits: Limits{MaxTokens: 5, EOS: -1}}
		sequences = append(sequences, q)
		s.Add(q)
	}
	step := func() {
		for _, c := range slices.Clone(s.Schedule()) {
			s.Commit(c, int32(100+len(c.Seq.Tokens)))
		}
		s.EndStep()
	}
	step()
	step()
	s.Schedule() // this step is lost with the device
	s.Restart(kvcache.New(20, 4, 0, true))
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		step()
	}
	for _, q := range sequences {
		if want := []int32{104, 105, 106, 107, 108}; q.Reason != Length || !slices.Equal(q.Tokens[4:], want) {
			t.Errorf("sequence %d ended with %v, %s; want %v", q.ID, q.Tokens[4:], reasons[q.Reason], want)
		}
	}
}

func TestConfigValidate(t *testing.T) {
	good := Config{MaxTokens: 1, MaxSeqs: 1, MaxSeqTokens: 2}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for _, c := range []Config{{}, {MaxTokens: 1}, {MaxTokens: 1, MaxSeqs: 1}, {MaxTokens: 1, MaxSeqs: 1, MaxSeqTokens: 2, MaxPrefill: -1}, {MaxTokens: 9, MaxSeqs: 1, MaxSeqTokens: 10, WholePrompts: true}} {
		if c.Validate() == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}
