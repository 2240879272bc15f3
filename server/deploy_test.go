package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"

	"github.com/VictoriaMetrics/metricsql"
	"github.com/goccy/go-yaml"
)

// asked is a series that a query selects, with the conditions on its labels, and the labels that
// the query groups or joins by.
type asked struct {
	name    string
	filters []metricsql.LabelFilter
	labels  []string
}

// target are the labels that Prometheus adds to every series that it scrapes.
var target = []string{"job", "instance"}

// series returns what a query asks for. Variables of Grafana have been replaced.
func series(query string) ([]asked, error) {
	e, err := metricsql.Parse(query)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", query, err)
	}
	if metricsql.IsLikelyInvalid(e) {
		return nil, fmt.Errorf("%s: Prometheus would not answer it", query)
	}
	var found []asked
	var labels []string
	metricsql.VisitAll(e, func(e metricsql.Expr) {
		switch e := e.(type) {
		case *metricsql.MetricExpr:
			a := asked{}
			for _, f := range e.LabelFilterss[0] {
				if f.Label == "__name__" {
					a.name = f.Value
				} else if !slices.Contains(target, f.Label) {
					a.filters = append(a.filters, f)
				}
			}
			found = append(found, a)
		case *metricsql.AggrFuncExpr:
			labels = append(labels, e.Modifier.Args...)
		case *metricsql.BinaryOpExpr:
			labels = append(labels, e.GroupModifier.Args...)
		}
	})
	labels = slices.DeleteFunc(labels, func(l string) bool { return slices.Contains(target, l) })
	for i := range found {
		found[i].labels = labels
	}
	return found, nil
}

// has reports whether a series is one of those that are asked for. A condition with a variable
// of Grafana holds for every value.
func (a *asked) has(s *shown) bool {
	if s.name != a.name || !s.has(a.labels) {
		return false
	}
	for _, f := range a.filters {
		value, ok := s.labels[f.Label]
		if !ok {
			return false
		}
		if strings.Contains(f.Value, "$") {
			continue
		}
		holds := value == f.Value
		if f.IsRegexp {
			holds = regexp.MustCompile("^(?:" + f.Value + ")$").MatchString(value)
		}
		if holds == f.IsNegative {
			return false
		}
	}
	return true
}

// checkQuery looks for every series of a query.
func checkQuery(t *testing.T, all []shown, where, query string) {
	t.Helper()
	list, err := series(query)
	if err != nil {
		t.Errorf("%s: %v", where, err)
		return
	}
	if len(list) == 0 {
		t.Errorf("%s: %s asks for nothing", where, query)
	}
	for _, a := range list {
		if a.name != "up" && !slices.ContainsFunc(all, func(s shown) bool { return a.has(&s) }) {
			t.Errorf("%s: %s: no series is %+v", where, query, a)
		}
	}
}

// TestSeriesOfQueries: what is found in a query, and that a name, a label and a value that no
// server shows are noticed.
func TestSeriesOfQueries(t *testing.T) {
	t.Parallel()
	all := []shown{{"a_total", map[string]string{"x": "1"}}, {"b", map[string]string{"x": "2", "y": "3"}}}
	for query, want := range map[string]bool{
		`sum by (x) (rate(a_total{job="j"}[5m]))`:                                true,
		`sum by (x, instance) (a_total) / on (x) (b{y=~"3|4"} > 0) or vector(0)`: true,
		`sum by (y) (a_total)`:                                                   false,
		`a_total{x="2"}`:                                                         false,
		`b{y=~"4.*"}`:                                                            false,
		`b{y!="3"}`:                                                              false,
		`b{y="$y"}`:                                                              true,
		`histogram_quantile(0.9, sum by (le) (rate(b[5m])))`: false,
		`label_of_no_one`:                     false,
		`a_total unless on (instance, job) c`: false,
		`increase(a_total[15m]) > 0 and on (instance) rate(b{x="2"}[1h]) == 1`:      true,
		`max_over_time(b{x!~"3"}[10m]) * ignoring (q) group_left (x) a_total{x=""}`: false,
	} {
		list, err := series(query)
		if err != nil || len(list) == 0 {
			t.Errorf("%s: %v, %v", query, list, err)
		}
		got := true
		for _, a := range list {
			got = got && slices.ContainsFunc(all, func(s shown) bool { return a.has(&s) })
		}
		if got != want {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
	for _, bad := range []string{`sum by (x) (rate(a[5m])`, `rate(sum(a))`, `a{x=1}`, ``} {
		if list, err := series(bad); err == nil {
			t.Errorf("%s has %v", bad, list)
		}
	}
}

// panel is what a test reads of a panel of Grafana.
type panel struct {
	ID          int
	Type, Title string
	Description string
	GridPos     struct{ X, Y, W, H int }
	Targets     []struct{ Expr, RefID string }
	Panels      []panel
}

// TestGrafanaDashboard: every series and label that deploy/grafana/weir.json queries is shown by
// a server, and its panels do not lie on each other.
func TestGrafanaDashboard(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("../deploy/grafana/weir.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Title, UID string
		Panels     []panel
		Templating struct {
			List []struct{ Name, Type, Query string }
		}
	}
	if err := json.Unmarshal(source, &board); err != nil {
		t.Fatal(err)
	}
	all := shownBy(t)
	variables := []string{"__rate_interval", "__range", "__all"}
	for _, v := range board.Templating.List {
		variables = append(variables, v.Name)
		if query, ok := strings.CutPrefix(v.Query, "label_values("); ok {
			at := strings.LastIndex(query, ",")
			checkQuery(t, all, "variable "+v.Name, query[:at])
		}
	}
	names := regexp.MustCompile(`\$\{?([a-z_]+)`)
	for _, m := range names.FindAllStringSubmatch(string(source), -1) {
		if !slices.Contains(variables, m[1]) {
			t.Errorf("there is no variable $%s", m[1])
		}
	}
	checkLayout(t, board.Panels)
	queries := 0
	for _, p := range board.Panels {
		for _, q := range p.Targets {
			queries++
			checkQuery(t, all, p.Title, strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h").Replace(q.Expr))
		}
	}
	if queries < 70 || board.UID != "weir" {
		t.Errorf("%d queries, %s", queries, board.UID)
	}
}

// checkLayout: panels have ids of their own and descriptions, and do not lie on each other.
func checkLayout(t *testing.T, panels []panel) {
	t.Helper()
	taken := map[[2]int]string{}
	ids := map[int]bool{}
	for _, p := range panels {
		if ids[p.ID] || p.Type != "row" && p.Description == "" || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %q has the id of another one, no description, or lies outside", p.Title)
		}
		ids[p.ID] = true
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if taken[at] != "" {
					t.Fatalf("%q lies on %q", p.Title, taken[at])
				}
				taken[at] = p.Title
			}
		}
	}
}

// rule is an alert of Prometheus.
type rule struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

// TestAlertRules: every series and label that deploy/prometheus/alerts.yaml queries is shown by a
// server. Rules are complete, their texts name labels that their alerts have, and
// docs/operating.md has each of them.
func TestAlertRules(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("../deploy/prometheus/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Name  string
			Rules []rule
		}
	}
	if err := yaml.UnmarshalWithOptions(source, &file, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	guide, err := os.ReadFile("../docs/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	all := shownBy(t)
	seen := map[string]bool{}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			r.check(t, all)
			if seen[r.Alert] {
				t.Errorf("%s is there twice", r.Alert)
			}
			seen[r.Alert] = true
			if !strings.Contains(string(guide), "| `"+r.Alert+"` |") {
				t.Errorf("docs/operating.md does not have %s", r.Alert)
			}
		}
	}
	if len(seen) < 15 {
		t.Errorf("%d rules", len(seen))
	}
	for _, name := range regexp.MustCompile("\\| `(Weir[A-Za-z]+)` \\|").FindAllStringSubmatch(string(guide), -1) {
		if !seen[name[1]] {
			t.Errorf("docs/operating.md has %s, which is no rule", name[1])
		}
	}
}

func (r *rule) check(t *testing.T, all []shown) {
	t.Helper()
	checkQuery(t, all, r.Alert, r.Expr)
	if r.For != "" {
		if _, err := metricsql.PositiveDurationValue(r.For, 0); err != nil {
			t.Errorf("%s: for %s: %v", r.Alert, r.For, err)
		}
	}
	if s := r.Labels["severity"]; s != "critical" && s != "warning" {
		t.Errorf("%s has the severity %q", r.Alert, s)
	}
	if strings.Count(r.Expr, "{") != strings.Count(r.Expr, `job="weir"`) {
		t.Errorf("%s looks at other jobs", r.Alert)
	}
	// Labels that an alert surely has: those of its target, and those that the query names.
	labels := map[string]string{"instance": "host:8000", "job": "weir"}
	list, _ := series(r.Expr) // checkQuery has told the error
	for _, a := range list {
		for _, l := range a.labels {
			labels[l] = "x"
		}
		for _, s := range all {
			if s.name == a.name && !strings.Contains(r.Expr, " by (") {
				for l := range s.labels {
					labels[l] = "x"
				}
			}
		}
	}
	for _, what := range []string{"summary", "description"} {
		// Prometheus' templates begin like this (its template/template.go), and have these functions.
		text := func(float64) string { return "x" }
		tmpl, err := template.New(r.Alert).Option("missingkey=error").Funcs(template.FuncMap{"humanize": text, "humanizePercentage": text, "humanizeDuration": text}).
			Parse("{{$labels := .Labels}}{{$value := .Value}}" + r.Annotations[what])
		var out bytes.Buffer
		if err == nil {
			err = tmpl.Execute(&out, map[string]any{"Labels": labels, "Value": 1.5})
		}
		if err != nil || out.Len() < 10 {
			t.Errorf("%s: %s is %q, %v", r.Alert, what, &out, err)
		}
	}
}

// TestPrometheusConfig: the example finds the rules, and its job is the one that they look at.
func TestPrometheusConfig(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("../deploy/prometheus/prometheus.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Global        map[string]string
		RuleFiles     []string `yaml:"rule_files"`
		ScrapeConfigs []struct {
			JobName       string                       `yaml:"job_name"`
			StaticConfigs []struct{ Targets []string } `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	if err := yaml.UnmarshalWithOptions(source, &config, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	if len(config.RuleFiles) != 1 || config.RuleFiles[0] != "alerts.yaml" || len(config.ScrapeConfigs) != 1 || config.ScrapeConfigs[0].JobName != "weir" {
		t.Errorf("%+v", config)
	}
}
