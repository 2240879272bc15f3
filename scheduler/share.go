package scheduler

import "slices"

// Share is what a tenant has of the machine.
type Share struct {
	Tenant           string
	Weight           int    // of the newest sequence, in hundredths
	Running, Waiting int    // sequences
	Tokens           uint64 // that were computed for it for the first time
}

// maxShares is how many tenants are counted by themselves: those that come first. All others
// are counted together as OtherTenants, because without keys there are as many as there
// are addresses.
const maxShares = 32

// OtherTenants stands for the tenants that are not counted by themselves. Their weight is 0.
const OtherTenants = "other"

// shares are the counts of tenants.
type shares struct {
	all   map[string]*Share
	order []*Share // as they came, the others last
}

// of returns the counts of a tenant, and makes them if need be.
func (s *shares) of(tenant string) *Share {
	if s.all == nil {
		s.all = map[string]*Share{}
	}
	if len(s.order) >= maxShares && s.all[tenant] == nil {
		tenant = OtherTenants
	}
	c := s.all[tenant]
	if c == nil {
		c = &Share{Tenant: tenant}
		s.all[tenant] = c
		s.order = append(s.order, c)
	}
	return c
}

// clear forgets which sequences there are.
func (s *shares) clear() {
	for _, c := range s.order {
		c.Running, c.Waiting = 0, 0
	}
}

// AppendShares appends what each tenant has, those that came first at first, to dst. It takes
// time for 33 tenants at most.
func (s *Scheduler) AppendShares(dst []Share) []Share {
	dst = slices.Grow(dst, len(s.shares.order))
	for _, c := range s.shares.order {
		dst = append(dst, *c)
		if c.Tenant == OtherTenants {
			dst[len(dst)-1].Weight = 0
		}
	}
	return dst
}
