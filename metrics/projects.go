package metrics

import (
	"slices"
	"strings"
	"sync"
)

// Labels that are not names of projects, which contain a slash.
const (
	noProject     = "none"
	otherProjects = "other"
)

// maxProjects is how many projects have series of their own: those that were seen first.
// GET /usage has all of them. Names come from clients, and every name that was ever seen
// costs memory here and wherever series are stored.
const maxProjects = 32

// projectSeries are the series of each project.
var projectSeries = [...]struct {
	name, help string
	value      func(*projectCounts) uint64
}{
	{"weir:project_generation_tokens_total", "Output tokens by project.", func(c *projectCounts) uint64 { return c.generated }},
	{"weir:project_prompt_tokens_total", "Prompt tokens of requests that got a token, by project.", func(c *projectCounts) uint64 { return c.prompt }},
	{"weir:project_requests_total", "Requests that the engine accepted, by project.", func(c *projectCounts) uint64 { return c.requests }},
}

// projects counts by project.
type projects struct {
	sync.Mutex
	counts map[string]*projectCounts // by label
	named  int                       // of counts, projects with a name
}

// projectCounts are the counts of a project, and the text of its lines.
type projectCounts struct {
	label                       string
	requests, prompt, generated uint64
	lines                       [3][]byte // of projectSeries
}

// of returns the counts of a project, which may be "". The lock is held.
func (p *projects) of(project string) *projectCounts {
	label := project
	if project == "" {
		label = noProject
	}
	if c := p.counts[label]; c != nil {
		return c
	}
	if project != "" {
		if p.named == maxProjects {
			label = otherProjects
			if c := p.counts[label]; c != nil {
				return c
			}
		} else {
			p.named++
		}
	}
	c := &projectCounts{label: label}
	for i, s := range projectSeries {
		c.lines[i] = line(s.name, []labelPair{{"project", label}})
	}
	p.counts[label] = c
	return c
}

// Used counts a request that the engine accepted, and its tokens, for a project, which may
// be "".
func (m *Metrics) Used(project string, prompt, generated uint64) {
	p := &m.projects
	p.Lock()
	defer p.Unlock()
	c := p.of(project)
	c.requests++
	c.prompt += prompt
	c.generated += generated
}

// append writes the series of the projects for which shows returns true.
func (p *projects) append(b []byte, shows func(project string) bool) []byte {
	p.Lock()
	all := make([]projectCounts, 0, len(p.counts))
	for _, c := range p.counts {
		all = append(all, *c)
	}
	p.Unlock()
	all = slices.DeleteFunc(all, func(c projectCounts) bool {
		if c.label == noProject {
			return !shows("")
		}
		return !shows(c.label)
	})
	if len(all) == 0 {
		return b
	}
	slices.SortFunc(all, func(a, b projectCounts) int { return strings.Compare(a.label, b.label) })
	for i, s := range projectSeries {
		b = append(b, head(s.name, s.help, "counter")...)
		for j := range all {
			b = append(appendNumber(append(b, all[j].lines[i]...), float64(s.value(&all[j]))), '\n')
		}
	}
	return b
}
