package engine

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// A plainBook is the reference implementation of places: a list that is counted anew for
// every question.
type plainBook struct {
	most int
	held []*submission // in the order of their numbers
}

func (b *plainBook) holds(tenant string, project *string) (n int) {
	for _, s := range b.held {
		if r := &s.requests[0].Request; r.Tenant == tenant && (project == nil || r.Project == *project) {
			n += s.live
		}
	}
	return n
}

// weight is that of a tenant or a project, by its name, so that all requests of one say the same.
func weight(name string) int { return []int{100, 300, 0, 50, 10000}[int(name[len(name)-1]-'0')%5] }

// compareFor compares n of one with m of another, each for its weight.
func compareFor(one string, n int, other string, m int) int {
	return cmp.Compare(n*cmp.Or(weight(other), 100), m*cmp.Or(weight(one), 100))
}

func (b *plainBook) live() (n int) {
	for _, s := range b.held {
		n += s.live
	}
	return n
}

// largest returns who holds most among the names of submissions that have not begun.
func (b *plainBook) largest(may func(*Request) bool, name func(*Request) string, holds func(string) int) (most string, found bool) {
	for _, s := range b.held {
		r := &s.requests[0].Request
		if s.begun || !may(r) {
			continue
		}
		n := name(r)
		if !found || cmp.Or(compareFor(n, holds(n), most, holds(most)), strings.Compare(n, most)) > 0 {
			most, found = n, true
		}
	}
	return most, found
}

// last returns what a tenant gives up first, and of which project it is.
func (b *plainBook) last(tenant string) (v *submission, project string) {
	in := func(r *Request) bool { return r.Tenant == tenant }
	project, found := b.largest(in, func(r *Request) string { return r.Project }, func(p string) int { return b.holds(tenant, &p) })
	if !found {
		return nil, ""
	}
	for _, s := range b.held {
		r := &s.requests[0].Request
		if !s.begun && in(r) && r.Project == project && (v == nil || s.order(v) > 0) {
			v = s
		}
	}
	return v, project
}

func (b *plainBook) victim(tenant, project string, n int) *submission {
	all := func(*Request) bool { return true }
	most, found := b.largest(all, func(r *Request) string { return r.Tenant }, func(t string) int { return b.holds(t, nil) })
	if found && most != tenant {
		v, _ := b.last(most)
		if left := b.holds(most, nil) - v.live; left >= b.most/64 && compareFor(most, left, tenant, b.holds(tenant, nil)+n) >= 0 {
			return v
		}
	}
	v, from := b.last(tenant)
	if v != nil && from != project && compareFor(from, b.holds(tenant, &from)-v.live, project, b.holds(tenant, &project)+n) >= 0 {
		return v
	}
	return nil
}

func (b *plainBook) admit(s *submission) (out []*submission, ok bool) {
	r := &s.requests[0].Request
	before := slices.Clone(b.held)
	missing := min(s.live, b.live()+s.live-b.most)
	for missing > 0 {
		v := b.victim(r.Tenant, r.Project, s.live)
		if v == nil {
			break
		}
		b.held = slices.DeleteFunc(b.held, func(o *submission) bool { return o == v })
		out = append(out, v)
		missing -= v.live
	}
	left := b.most + max(1, b.most/8) - b.live()
	if missing > 0 && (s.live > left || b.holds(r.Tenant, nil)+s.live > max(1, left-s.live)) {
		b.held = before
		return nil, false
	}
	b.held = append(b.held, s)
	return out, true
}

// comparison is places beside their reference implementation.
type comparison struct {
	t     *testing.T
	rng   *rand.Rand
	p     places
	plain plainBook

	tenants, projects, largest int // names, and choices of a submission

	refused, evicted, beyond int
}

// TestPlacesAtRandom compares the books with the reference implementation: who gets places,
// and who loses them for it. What has begun loses none.
func TestPlacesAtRandom(t *testing.T) {
	refused, evicted, beyond := 0, 0, 0
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 2))
		most := 1 + rng.IntN(80)
		c := comparison{
			t: t, rng: rng, p: newPlaces(most, seed%2 == 0), plain: plainBook{most: most},
			tenants: 1 + rng.IntN(5), projects: 1 + rng.IntN(4), largest: 1 + rng.IntN(max(1, most/3)),
		}
		for range 800 {
			c.operate()
		}
		for len(c.plain.held) > 0 {
			c.end(0)
		}
		if all := &c.p.all; all.live != 0 || all.tokens != 0 || all.weights != 0 || len(all.parts) != 0 || len(all.latent) != 0 {
			t.Fatalf("seed %d: in the end the books have %+v", seed, all)
		}
		refused, evicted, beyond = refused+c.refused, evicted+c.evicted, beyond+c.beyond
	}
	if refused == 0 || evicted == 0 || beyond == 0 {
		t.Errorf("%d refused, %d others out, %d times beyond the limit: the test has not seen all", refused, evicted, beyond)
	}
}

// operate does something at random.
func (c *comparison) operate() {
	held := c.plain.held
	switch op := c.rng.IntN(10); {
	case op < 6 || len(held) == 0:
		c.admit()
	case op < 8:
		c.p.begin(held[c.rng.IntN(len(held))])
	default:
		c.end(c.rng.IntN(len(held)))
	}
	if live := c.p.all.live; live != c.plain.live() || live > c.p.most+max(1, c.p.most/8) {
		c.t.Fatalf("%d places of %d are taken, want %d", live, c.p.most, c.plain.live())
	} else if live > c.p.most {
		c.beyond++
	}
}

// end ends a choice.
func (c *comparison) end(i int) {
	s := c.plain.held[i]
	if !c.p.end(s, Stop, c.rng.IntN(9)) {
		c.t.Fatal("what has places holds none")
	}
	if s.live == 0 {
		c.plain.held = slices.Delete(c.plain.held, i, i+1)
	}
}

// admit submits something new.
func (c *comparison) admit() {
	rng := c.rng
	r := Request{Tenant: fmt.Sprint("t", rng.IntN(c.tenants)), Project: fmt.Sprint("p", rng.IntN(c.projects)), Priority: rng.Int64N(3), Tokens: make([]int32, 1+rng.IntN(50))}
	r.Weight, r.ProjectWeight = weight(r.Tenant), weight(r.Project)
	s := &submission{requests: []*request{{Request: r}}, live: 1 + rng.IntN(c.largest)}
	want, wantOK := c.plain.admit(s)
	got, ok := c.p.admit(s)
	if ok != wantOK || !slices.Equal(got, want) {
		c.t.Fatalf("%d choices of %s %s: %t and %d others out, want %t and %d", s.live, r.Tenant, r.Project, ok, len(got), wantOK, len(want))
	}
	if !ok {
		c.refused++
	}
	for _, v := range got {
		if c.evicted++; v.begun || !v.evicted {
			c.t.Fatalf("a submission has lost its places that has begun: %t", v.begun)
		}
		c.p.begin(v) // comes too late
		if c.p.end(v, Failed, 0) {
			c.t.Fatal("what has lost its places holds some")
		}
	}
}

// TestPlacesBefore: a newcomer waits for the tokens of its own project, and for as many of each other
// project and tenant, if they have so many.
func TestPlacesBefore(t *testing.T) {
	p := newPlaces(100, false)
	submit := func(tenant, project string, tokens int) *submission {
		s := &submission{requests: []*request{{Request: Request{Tenant: tenant, Project: project, Tokens: make([]int32, tokens)}}}, live: 1}
		if _, ok := p.admit(s); !ok {
			t.Fatal("refused")
		}
		return s
	}
	before := func(tenant, project string, want int64) {
		t.Helper()
		s := &submission{requests: []*request{{Request: Request{Tenant: tenant, Project: project}}}, live: 1, tokens: 10}
		if got := p.before(s); got != want {
			t.Errorf("before one of %s %s: %d tokens, want %d", tenant, project, got, want)
		}
	}
	before("a", "1", 0)
	first := submit("a", "1", 1000)
	before("a", "1", 1000)
	before("a", "2", 10)
	before("b", "", 10)
	submit("b", "", 30)
	before("a", "1", 1030)
	before("b", "", 30+40)
	before("c", "", 20)
	submit("a", "2", 70)
	before("a", "2", 70+80+30)
	before("a", "1", 1000+70+30)
	p.begin(first) // half of it is done, on average
	before("a", "1", 500+70+30)
	p.end(first, Stop, 1)
	before("a", "1", 10+20)
}

// TestPlacesByWeight: a tenant may hold as many more places as its weight says, which the newest
// request decides, and so many more tokens are computed for it meanwhile.
func TestPlacesByWeight(t *testing.T) {
	p := newPlaces(40, false)
	submit := func(tenant string, weight int) (out []*submission, ok bool) {
		return p.admit(&submission{requests: []*request{{Request: Request{Tenant: tenant, Weight: weight, Tokens: make([]int32, 100)}}}, live: 1})
	}
	for range 40 {
		submit("light", 100)
	}
	for {
		if out, _ := submit("heavy", 300); len(out) == 0 {
			break
		}
	}
	if n := p.all.parts["heavy"].live; n < 30 || n > 35 { // with some of the eighth that is left to those who hold little
		t.Errorf("three parts of four are %d of 40 places", n)
	}
	s := &submission{requests: []*request{{Request: Request{Tenant: "new", Weight: 200}}}, live: 1, tokens: 10}
	if got, want := p.before(s), int64(10*400/200); got != want {
		t.Errorf("before one of half the others' weight are %d tokens, want %d", got, want)
	}
	if submit("light", 10000); p.all.weights != 10300 {
		t.Errorf("the weights are %d together", p.all.weights)
	}
	if v := p.victim(&Request{Tenant: "light", Weight: 10000}, 1); v == nil || v.project.within.name != "heavy" {
		t.Error("the tenant whose weight has grown gets no places")
	}
}
