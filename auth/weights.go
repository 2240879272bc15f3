package auth

import (
	"fmt"
	"math"
	"strings"
)

// A Weight says how large the part of the machine is that somebody has beside others, in
// hundredths: who has 300 gets three times as much as who has 100, the usual weight, as long
// as both want more than they get.
type Weight int

const (
	UsualWeight Weight = 100
	LeastWeight Weight = 1     // 0.01
	MostWeight  Weight = 10000 // 100
)

// sharing is what the credentials file says of how those with the same [Identity].Share
// are weighed, and their projects.
type sharing struct {
	weight   Weight            // 0: it says nothing
	projects map[string]Weight // by pattern
}

// Weights returns the weight of those who have the given [Identity].Share, and that of a
// project among theirs: of the pattern that names it whole, or its team, or of "*". Both are
// the usual one where the credentials file says nothing.
func (k *Keyring) Weights(share, project string) (whole, part Weight) {
	s := k.all.Load().sharing[share]
	if s == nil {
		return UsualWeight, UsualWeight
	}
	if whole = s.weight; whole == 0 {
		whole = UsualWeight
	}
	return whole, s.of(project)
}

// of is the weight of a project.
func (s *sharing) of(project string) Weight {
	team, _, named := strings.Cut(project, "/")
	if w, ok := s.projects[project]; ok && named {
		return w
	}
	if w, ok := s.projects[team+"/*"]; ok && named {
		return w
	}
	if w, ok := s.projects["*"]; ok {
		return w
	}
	return UsualWeight
}

// weigh takes the weights of a key into those of its tenant. Two keys of a tenant must not
// contradict each other, because it would not be clear what the tenant gets.
func (f *fileKey) weigh(all map[string]*sharing, share string) error {
	if f.Weight == nil && len(f.ProjectWeights) == 0 {
		return nil
	}
	s := all[share]
	if s == nil {
		s = &sharing{projects: map[string]Weight{}}
		all[share] = s
	}
	if f.Weight != nil {
		w, err := parseWeight("weight", *f.Weight)
		if err != nil {
			return err
		}
		if s.weight != 0 && s.weight != w {
			return fmt.Errorf("another key of the tenant has the weight %v, and this one %v, so it is not clear which it has", s.weight, w)
		}
		s.weight = w
	}
	for p, number := range f.ProjectWeights {
		if !validPattern(p) {
			return fmt.Errorf("project_weights: %q is not team/project, team/* or *", p)
		}
		w, err := parseWeight("the weight of "+p, number)
		if err != nil {
			return err
		}
		if before, ok := s.projects[p]; ok && before != w {
			return fmt.Errorf("another key of the tenant gives %s the weight %v, and this one %v, so it is not clear which it has", p, before, w)
		}
		s.projects[p] = w
	}
	return nil
}

func (w Weight) String() string { return fmt.Sprint(float64(w) / float64(UsualWeight)) }

// parseWeight rounds a weight to hundredths.
func parseWeight(name string, number float64) (Weight, error) {
	w := Weight(math.Round(min(max(number, 0), 2*float64(MostWeight)) * float64(UsualWeight)))
	if w < LeastWeight || w > MostWeight || math.IsNaN(number) {
		return 0, fmt.Errorf("%s is %v; it takes a number from %v to %v", name, number, LeastWeight, MostWeight)
	}
	return w, nil
}
