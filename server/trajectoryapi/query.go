package trajectoryapi

import (
	"math"
	"strconv"
	"strings"

	"weir/server/transport"
	"weir/trajectory"
	"weir/trajectory/archive"
	"weir/trajectory/export"
)

// selection is what the query of a request asks for (docs/interface/trajectories.md,
// section 11).
type selection struct {
	archive.Filter
	limit      int
	after      string
	backwards  bool
	include    map[string]bool
	form       export.Format
	noLogprobs bool
	groupBy    string
	confirm    string
	dry        bool

	entity, project, name string // of models
}

// Parameters that a query may have besides filters, by the kind of function.
const (
	pages     = "limit after order"
	details   = "include"
	downloads = "format logprobs"
	groupings = "group_by"
	deletions = "confirm dry_run"
	creations = "entity project name"
)

const maxPage = 1000

// A parameter reads one parameter, and reports the code of what is wrong with it.
type parameter func(q *selection, value string) (code string)

var parameters = map[string]parameter{
	"limit": func(q *selection, v string) string {
		n, err := strconv.Atoi(v)
		switch {
		case err != nil:
			return "int_parsing"
		case n < 1:
			return "greater_than_equal"
		case n > maxPage:
			return "less_than_equal"
		}
		q.limit = n
		return ""
	},
	"after": func(q *selection, v string) string { q.after = v; return "" },
	"order": func(q *selection, v string) string {
		q.backwards = v == "desc"
		return oneOf(v, "asc", "desc")
	},
	"include": func(q *selection, v string) string {
		q.include = make(map[string]bool)
		for name := range strings.SplitSeq(v, ",") {
			q.include[name] = true
			if code := oneOf(name, "messages", "logprobs", "raw"); code != "" {
				return code
			}
		}
		return ""
	},
	"format": func(q *selection, v string) string {
		q.form = export.Format(v)
		for _, f := range export.Formats() {
			if f == q.form {
				return ""
			}
		}
		return "enum"
	},
	"logprobs": func(q *selection, v string) string {
		yes, code := boolean(v)
		q.noLogprobs = !yes
		return code
	},
	"group_by": func(q *selection, v string) string {
		q.groupBy = v
		return oneOf(v, "log", "policy_version", "hour", "day")
	},
	"confirm": func(q *selection, v string) string { q.confirm = v; return "" },
	"dry_run": func(q *selection, v string) (code string) { q.dry, code = boolean(v); return code },
	"entity":  func(q *selection, v string) string { q.entity = v; return "" },
	"project": func(q *selection, v string) string { q.project = v; return "" },
	"name":    func(q *selection, v string) string { q.name = v; return "" },
}

var filters = map[string]parameter{
	"split": func(q *selection, v string) string { q.Splits = append(q.Splits, v); return "" },
	"log_id": func(q *selection, v string) string {
		id, ok := archive.ParseID(v)
		if q.Log = id; !ok {
			return "uuid_parsing"
		}
		return ""
	},
	"step":               integerInto(func(q *selection) *trajectory.Int { return &q.Step }),
	"min_policy_version": integerInto(func(q *selection) *trajectory.Int { return &q.MinVersion }),
	"max_policy_version": integerInto(func(q *selection) *trajectory.Int { return &q.MaxVersion }),
	"min_reward":         func(q *selection, v string) (code string) { q.MinReward, code = float(v); return code },
	"max_reward":         func(q *selection, v string) (code string) { q.MaxReward, code = float(v); return code },
	"after_time": func(q *selection, v string) string {
		t, ok := trajectory.ParseTime(v)
		if q.From = t; !ok {
			return "datetime_parsing"
		}
		return ""
	},
	"before_time": func(q *selection, v string) string {
		t, ok := trajectory.ParseTime(v)
		if q.To = t; !ok {
			return "datetime_parsing"
		}
		return ""
	},
	"time_field": func(q *selection, v string) string {
		q.ByStart = v == "start_time"
		return oneOf(v, "received_at", "start_time")
	},
	"finish_reason": func(q *selection, v string) string { q.Finish = append(q.Finish, v); return "" },
	"has_tools": func(q *selection, v string) string {
		yes, code := boolean(v)
		q.Tools = &yes
		return code
	},
	"q": func(q *selection, v string) string { q.Text = v; return "" },
}

func oneOf(v string, names ...string) string {
	for _, n := range names {
		if v == n {
			return ""
		}
	}
	return "enum"
}

func boolean(v string) (yes bool, code string) {
	switch strings.ToLower(v) {
	case "1", "true", "yes", "on":
		return true, ""
	case "0", "false", "no", "off":
		return false, ""
	}
	return false, "bool_parsing"
}

func integerInto(field func(*selection) *trajectory.Int) parameter {
	return func(q *selection, v string) string {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			return "int_parsing"
		}
		*field(q) = trajectory.Some(n)
		return ""
	}
}

func float(v string) (*float64, string) {
	x, err := strconv.ParseFloat(v, 64)
	if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
		return nil, "float_parsing"
	}
	return &x, ""
}

// nested reads the parameters that have a name of the client's in theirs:
// metadata.<key>, metric.<key>.min and metric.<key>.max. known is false for others.
func (q *selection) nested(name, value string) (code string, known bool) {
	if key, ok := strings.CutPrefix(name, "metadata."); ok {
		q.Metadata = append(q.Metadata, trajectory.Label{Name: key, Value: value})
		return "", true
	}
	key, ok := strings.CutPrefix(name, "metric.")
	if !ok {
		return "", false
	}
	x, code := float(value)
	if key, ok := strings.CutSuffix(key, ".min"); ok {
		q.Metrics = append(q.Metrics, archive.Range{Name: key, Min: x})
		return code, true
	}
	if key, ok = strings.CutSuffix(key, ".max"); ok {
		q.Metrics = append(q.Metrics, archive.Range{Name: key, Max: x})
		return code, true
	}
	return "", false
}

// query reads the query of a request. Besides filters, if it may have them, own names the
// parameters that are allowed. Unknown parameters are errors: one that is misspelt must not select, or
// delete, everything.
func query(c *transport.Call, filtered bool, own ...string) (*selection, error) {
	q := &selection{limit: 20, backwards: true, form: export.JSONL}
	names := " " + strings.Join(own, " ") + " "
	var bad []trajectory.Detail
	for k, v := range c.QueryArgs().All() {
		name, value := string(k), string(v)
		code, known := "", false
		if p := parameters[name]; p != nil && strings.Contains(names, " "+name+" ") {
			code, known = p(q, value), true
		} else if p := filters[name]; p != nil && filtered {
			code, known = p(q, value), true
		} else if filtered {
			code, known = q.nested(name, value)
		}
		if !known {
			code = "extra_forbidden"
		}
		if code != "" && len(bad) < trajectory.MaxDetails {
			bad = append(bad, trajectory.Detail{Loc: []string{"query", name}, Type: code, Msg: messages[code]})
		}
	}
	if bad != nil {
		return nil, &trajectory.Invalid{Details: bad}
	}
	return q, nil
}

// messages word the codes of what is wrong with a parameter.
var messages = map[string]string{
	"extra_forbidden":    "There is no such parameter",
	"int_parsing":        "Input should be a valid integer",
	"float_parsing":      "Input should be a valid number",
	"bool_parsing":       "Input should be a valid boolean",
	"datetime_parsing":   "Input should be a valid datetime",
	"uuid_parsing":       "Input should be a valid UUID",
	"enum":               "Input should be one of the documented values",
	"greater_than_equal": "Input should be greater than or equal to 1",
	"less_than_equal":    "Input should be less than or equal to 1000",
	"value_error":        "Value error, not what is expected",
}

// wrong is the 422 of a parameter.
func wrong(name, code string) error { return invalid([]string{"query", name}, code, messages[code]) }
