package scheduler

import (
	"fmt"
	"slices"

	"weir/internal/invariants"
)

// Account says for whom a sequence runs. Tenants share the machine in proportion to their
// weights, and the projects of a tenant share its part in the same way.
type Account struct {
	Tenant, Project string

	// Weight is that of the tenant and ProjectWeight that of the project, in hundredths, at most
	// MaxWeight. 0 means UsualWeight. Those of the newest sequence count.
	Weight, ProjectWeight int

	in      *part  // the project; set by Add
	charged int    // Tokens[:charged] have been paid for
	forked  uint64 // the newest step in which another sequence was admitted that reads what it computes in it
	lost    int    // tokens computed when it was last preempted for somebody's fair part; 0: it is paid
	begun   uint64 // the newest plan in which it was admitted, by Scheduler.plans
}

// Weights are in hundredths.
const (
	UsualWeight = 100
	MaxWeight   = 10000
)

// tokenPrice is what a token costs who has the weight 1, in the units of part.served.
const tokenPrice = MaxWeight

// part is a class of priority, a tenant in a class, or a project of a tenant. Each has a
// right to the tokens that are computed for what it is a part of, in proportion to its weight.
type part struct {
	name     string
	priority int64            // of a class
	age      *classAge        // of a class
	within   *part            // nil: this is a class
	parts    map[string]*part // by name
	live     int              // sequences that have not finished
	weight   int64            // of a tenant or a project
	weights  int64            // of all parts with live sequences
	running  int              // running sequences
	blocks   int              // of running sequences, see Scheduler.tally
	work     workShare        // of a tenant
	share    *Share           // of a tenant

	// served is the price of the tokens computed for this part, which is tokenPrice by its
	// weight for each; rest is what the division has left. It begins with the clock of the
	// part that this one is in.
	served, rest int64

	// What follows is about the parts of this part. clock is where their counts would be if
	// each had been served by its weight; most is the largest count.
	clock, fraction, most int64
	epoch                 uint64 // see Scheduler.epoch

	queue []*Sequence // of a project: the waiting sequences, sorted by order
	ready []*part     // a heap of the parts with waiting sequences, see less

	at   int    // index in within.ready; -1: not there
	key  int64  // served, when the place in the heap was last corrected
	turn uint64 // decides between equal keys: lower came into the heap earlier
	idle uint64 // the number of the entry in Scheduler.idle that is about this part
}

// maxIdle bounds the tenants and projects without live sequences whose counts are kept.
// Clients can invent as many as they like.
const maxIdle = 4096

// idlePart is an entry of Scheduler.idle. It is void if the part has been idle again since.
type idlePart struct {
	part   *part
	number uint64
}

// join finds or makes the project of q and counts q as live.
func (s *Scheduler) join(q *Sequence) {
	i, found := slices.BinarySearchFunc(s.classes, q.rank, comparePriority)
	if !found {
		s.classes = slices.Insert(s.classes, i, &part{priority: q.rank, age: &classAge{}})
	}
	tenant := s.classes[i].part(q.Account.Tenant)
	tenant.weigh(q.Account.Weight)
	if tenant.share == nil {
		tenant.share = s.shares.of(tenant.name)
	}
	tenant.share.Weight = int(tenant.weight)
	p := tenant.part(q.Account.Project)
	p.weigh(q.Account.ProjectWeight)
	q.Account.in = p
	for ; p != nil; p = p.within {
		if p.live++; p.live == 1 && p.within != nil {
			p.within.weights += p.weight
		}
	}
}

// weigh sets the weight of a tenant or a project.
func (p *part) weigh(weight int) {
	w := int64(weight)
	if w <= 0 {
		w = UsualWeight
	}
	w = min(w, MaxWeight)
	if p.live > 0 {
		p.within.weights += w - p.weight
	}
	p.weight = w
}

func comparePriority(c *part, priority int64) int {
	switch {
	case c.priority < priority:
		return -1
	case c.priority > priority:
		return 1
	}
	return 0
}

// part returns the part of a name, and makes it if need be.
func (p *part) part(name string) *part {
	c := p.parts[name]
	if c == nil {
		if c = (&part{name: name, within: p, at: -1}); p.parts == nil {
			p.parts = make(map[string]*part)
		}
		p.parts[name] = c
	}
	return c
}

// retire counts q, which has finished, as no longer live. What a tenant was served is kept
// for a while after its last sequence, so that going away for a moment does not clear it.
func (s *Scheduler) retire(q *Sequence) {
	for p := q.Account.in; p != nil; p = p.within {
		if p.live--; p.live > 0 {
			continue
		}
		if p.within == nil {
			if len(s.classes) > 1 {
				i, _ := slices.BinarySearchFunc(s.classes, p.priority, comparePriority)
				s.classes = slices.Delete(s.classes, i, i+1)
			}
			continue
		}
		p.within.weights -= p.weight
		s.idles++
		p.idle = s.idles
		s.idle = append(s.idle, idlePart{p, s.idles})
	}
	for len(s.idle) > maxIdle {
		if e := s.idle[0]; e.part.live == 0 && e.part.idle == e.number {
			delete(e.part.within.parts, e.part.name)
		}
		s.idle[0] = idlePart{}
		s.idle = s.idle[1:]
	}
}

// tenant is the tenant that q runs for, in its class.
func (q *Sequence) tenant() *part { return q.Account.in.within }

// enqueue inserts q into the queue of its project.
func (s *Scheduler) enqueue(q *Sequence) {
	q.Status = Waiting
	s.forgetRecall(q)
	p := q.Account.in
	i, found := slices.BinarySearchFunc(p.queue, q, s.order)
	invariants.Check(!found, "scheduler: sequence %d is queued twice", q.ID)
	p.queue = slices.Insert(p.queue, i, q)
	s.waiting++
	p.within.share.Waiting++
	if p.at < 0 {
		s.enter(p, true)
	}
}

// dequeue takes q out of the queue of its project.
func (s *Scheduler) dequeue(q *Sequence) {
	p := q.Account.in
	p.queue = s.remove(p.queue, q)
	s.waiting--
	p.within.share.Waiting--
	if len(p.queue) == 0 && p.at >= 0 {
		p.leave()
	}
}

// enter makes p, which has waiting sequences, ready to be chosen. With lift, its count is
// raised to the clock: nobody saves up a right to the machine while wanting nothing.
func (s *Scheduler) enter(p *part, lift bool) {
	w := p.within
	if lift {
		s.forgive(w)
		p.served = max(p.served, w.clock)
	}
	s.turns++
	p.key, p.turn, p.at = p.served, s.turns, len(w.ready)
	w.ready = append(w.ready, p)
	w.up(p.at)
	if w.within != nil && w.at < 0 {
		s.enter(w, lift)
	}
}

// leave takes p out of the heap it is in.
func (p *part) leave() {
	w, i := p.within, p.at
	last := len(w.ready) - 1
	w.swap(i, last)
	w.ready[last] = nil
	w.ready = w.ready[:last]
	p.at = -1
	if i < last {
		w.down(i)
		w.up(i)
	}
	if last == 0 && w.within != nil {
		w.leave()
	}
}

// first is the part that is to be served next. Counts only grow, so it is enough to correct
// the place of a part when it comes first.
func (p *part) first() *part {
	for {
		f := p.ready[0]
		if f.key == f.served {
			return f
		}
		f.key = f.served
		p.down(0)
	}
}

// less orders the heap: by what has been served, and else by turn.
func (p *part) less(i, j int) bool {
	a, b := p.ready[i], p.ready[j]
	return a.key < b.key || a.key == b.key && a.turn < b.turn
}

func (p *part) swap(i, j int) {
	p.ready[i], p.ready[j] = p.ready[j], p.ready[i]
	p.ready[i].at, p.ready[j].at = i, j
}

func (p *part) up(i int) {
	for i > 0 && p.less(i, (i-1)/2) {
		p.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
}

func (p *part) down(i int) {
	for {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(p.ready); c++ {
			if p.less(c, least) {
				least = c
			}
		}
		if least == i {
			return
		}
		p.swap(i, least)
		i = least
	}
}

// candidate returns the waiting sequence that is to be admitted next: of the most urgent
// class, of its tenant that has been served least, of its project that has been served
// least, the first one that lacks nothing but a place and blocks. nil: there is none.
func (s *Scheduler) candidate() *Sequence {
	for _, class := range s.classes {
		if q := s.candidateOf(class); q != nil {
			return q
		}
	}
	return nil
}

// candidateOf is the candidate of a class.
func (s *Scheduler) candidateOf(class *part) *Sequence {
	for len(class.ready) > 0 {
		p := class.first().first()
		if i := slices.IndexFunc(p.queue, s.canRun); i >= 0 {
			return p.queue[i]
		}
		p.leave()
		s.aside = append(s.aside, p)
	}
	return nil
}

// restore makes the projects ready again that candidate has set aside because none of
// their sequences could run.
func (s *Scheduler) restore() {
	for i, p := range s.aside {
		if p.at < 0 && len(p.queue) > 0 {
			s.enter(p, false)
		}
		s.aside[i] = nil
	}
	s.aside = s.aside[:0]
}

// fairer reports whether a is to be served before b.
func (s *Scheduler) fairer(a, b *Sequence) bool {
	p, o := a.Account.in, b.Account.in
	if p == o {
		if a.Status != b.Status {
			return a.Status == Running
		}
		return s.order(a, b) < 0
	}
	if p.within != o.within {
		p, o = p.within, o.within
	}
	if p.within == o.within && p.served != o.served {
		return p.served < o.served
	}
	return s.order(a, b) < 0
}

// choose notes that q is served next. Nobody who comes later begins with a lower count, so
// q is not overtaken by ever new ones.
func (s *Scheduler) choose(q *Sequence) {
	for p := q.Account.in; p.within != nil; p = p.within {
		p.within.clock = max(p.within.clock, p.served)
	}
}

// charge makes the tenant and the project of q pay for a chunk that begins at start and
// ends at q.Computed. Tokens that have been paid for and are computed again, after a
// preemption, are free: they are not computed for the sake of q.
func (s *Scheduler) charge(q *Sequence, start int) {
	n := int64(q.Computed - max(start, q.Account.charged))
	if n <= 0 {
		return
	}
	q.Account.charged = q.Computed
	q.tenant().share.Tokens += uint64(n)
	s.chargeAge(q, n)
	for p := q.Account.in; p.within != nil; p = p.within {
		w := p.within
		s.forgive(w)
		p.rest += n * tokenPrice
		p.served += p.rest / p.weight
		p.rest %= p.weight
		w.most = max(w.most, p.served)
		w.fraction += n * tokenPrice
		w.clock = min(w.most, w.clock+w.fraction/w.weights)
		w.fraction %= w.weights
	}
	s.credit = min(s.maxCredit(), s.credit+n)
}

// forgive clears what the parts of p have been served more than others while nobody had to
// wait: they have taken it from nobody.
func (s *Scheduler) forgive(p *part) {
	if p.epoch != s.epoch {
		p.epoch, p.clock = s.epoch, p.most
	}
}

// checkParts recounts classes, tenants and projects. The error says what is wrong first.
func (s *Scheduler) checkParts() error {
	var live, running = map[*part]int{}, map[*part]int{}
	count := func(q *Sequence) {
		for p := q.Account.in; p != nil; p = p.within {
			live[p]++
			if q.Status == Running && p.within != nil {
				running[p]++
			}
		}
	}
	for _, q := range s.running {
		count(q)
	}
	waiting := 0
	var err error
	s.eachProject(func(p *part) {
		waiting += len(p.queue)
		for _, q := range p.queue {
			if count(q); q.Status != Waiting || len(q.Table.Blocks) > 0 || q.Computed > 0 || q.Account.in != p {
				err = fmt.Errorf("scheduler: sequence %d is in the waiting queue with status %d, %d blocks and %d tokens computed", q.ID, q.Status, len(q.Table.Blocks), q.Computed)
			}
		}
		if !slices.IsSortedFunc(p.queue, s.order) {
			err = fmt.Errorf("scheduler: the queue of project %s is out of order", p.name)
		}
	})
	switch {
	case err != nil:
		return err
	case waiting != s.waiting || len(s.aside) > 0:
		return fmt.Errorf("scheduler: %d sequences wait, not %d, and %d projects are set aside", waiting, s.waiting, len(s.aside))
	}
	for _, class := range s.classes {
		if err := class.check(live, running); err != nil {
			return err
		}
	}
	return nil
}

// check compares p and its parts with what was recounted.
func (p *part) check(live, running map[*part]int) error {
	weights, ready := int64(0), 0
	for _, c := range p.parts {
		if c.live > 0 {
			weights += c.weight
		}
		if waits := len(c.queue) > 0 || len(c.ready) > 0; waits != (c.at >= 0) || waits && p.ready[c.at] != c {
			return fmt.Errorf("scheduler: part %q has %d waiting sequences, %d ready parts and the place %d", c.name, len(c.queue), len(c.ready), c.at)
		}
		if c.at >= 0 {
			if ready++; c.at > 0 && p.less(c.at, (c.at-1)/2) {
				return fmt.Errorf("scheduler: the heap of part %q is out of order", p.name)
			}
		}
		if c.served > p.most && c.served > p.clock {
			return fmt.Errorf("scheduler: part %q was served %d, more than the most, %d", c.name, c.served, p.most)
		}
		if err := c.check(live, running); err != nil {
			return err
		}
	}
	if p.live != live[p] || p.running != running[p] || p.weights != weights || len(p.ready) != ready {
		return fmt.Errorf("scheduler: part %q has %d live and %d running sequences, parts of the weight %d and %d ready ones, and counted are %d, %d, %d and %d",
			p.name, p.live, p.running, p.weights, len(p.ready), live[p], running[p], weights, ready)
	}
	return nil
}
