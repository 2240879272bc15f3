package feedback

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/internal/jsontext"
)

// An expr is a node of a query's expression, which is a small part of MongoDB's
// aggregation language (docs/interface/feedback.md, section 8.3).
type expr struct {
	op   string // as sent: "$and", "$getField", ...
	args []*expr

	value value  // $literal
	field field  // $getField
	to    string // $convert

	fold   bool    // $contains, $containsToken: case_insensitive
	search *search // for substr, which is folded if fold is set

	// The elements of an $in, which are also args[1:]: the literals, and the others.
	set    *set
	others []*expr
}

// field is what a query can name: a column, or a path into the payload.
type field struct {
	column int      // index in Dialect.columns; colPayload with a path
	path   []string // nil: the column itself
	name   string   // as sent
}

// Indexes, in Dialect.columns, of the columns that have a name in this package.
const (
	colID      = 0
	colProject = 1
	colRef     = 2
	colUser    = 3
	colCreated = 5
	colType    = 6
	colPayload = 7
	colTrigger = 11
	colCall    = 10
	colQueue   = 12
)

// The bounds of an expression (docs/interface/feedback.md, section 8.3, rule 7).
const (
	maxExprDepth  = 32
	maxExprNodes  = 1_000
	maxExprIn     = 10_000
	maxExprInAll  = 50_000 // literals of all $in together
	maxExprSubstr = 4_096  // bytes
	maxPathParts  = 32
	maxPathBytes  = 1_024
	maxFields     = 200
	maxSortBy     = 8
)

// parser reads the names and expressions of one request.
type parser struct {
	*decoder
	refusal  *Refusal // the first
	nodes    int
	elements int  // literals of all $in
	weave    bool // a name was used that only Weave's dialect has
	weir     bool // a name was used that Weave's dialect does not have
}

func (p *parser) refuse(reason string) {
	if p.refusal == nil {
		p.refusal = refuse(reason)
	}
}

func (p *parser) dialect() Dialect {
	if p.weave {
		return WeaveNames
	}
	return WeirNames
}

// field reads the name of a field.
func (p *parser) field(name string) (f field) {
	f.name = name
	if path, ok := strings.CutPrefix(name, "payload."); ok && path != "" {
		f.column, f.path = colPayload, p.path(path)
		return f
	}
	p.weir = p.weir || name == WeirNames.traceRefName() || name == WeirNames.userName()
	if i := slices.Index(WeaveNames.columns(), name); i >= 0 && !slices.Contains(WeirNames.columns(), name) {
		p.weave, f.column = true, i
		return f
	}
	if f.column = slices.Index(WeirNames.columns(), name); f.column < 0 {
		f.column = 0
		p.refuse("Unknown field: " + clip(name))
	}
	return f
}

// path reads a path into the payload.
func (p *parser) path(s string) []string {
	if len(s) > maxPathBytes {
		p.refuse("A path has more than 1024 bytes")
		return []string{""}
	}
	path := splitPath(s)
	if len(path) > maxPathParts {
		p.refuse("A path has more than 32 parts")
	}
	return path
}

// splitPath splits a path at its dots. A dot after a backslash belongs to a name.
func splitPath(s string) (path []string) {
	var part []byte
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s) && s[i+1] == '.':
			part = append(part, '.')
			i++
		case s[i] == '.':
			path = append(path, string(part))
			part = part[:0]
		default:
			part = append(part, s[i])
		}
	}
	return append(path, string(part))
}

// expression reads {"$expr": <node>}. It returns nil if there is none.
func (p *parser) expression(m *members, required bool) *expr {
	loc := []string{"body", "query"}
	v := p.take(m, "query", required, jsontext.Object, "model_attributes_type", []string{"body"})
	if v == nil {
		return nil
	}
	q := p.object(v, loc)
	node := p.take(q, "$expr", true, jsontext.Object, "model_attributes_type", loc)
	p.extras(q, loc)
	if node == nil {
		return nil
	}
	return p.node(node, append(loc, "$expr"), 1)
}

// malformed reports that something is not a node.
func (p *parser) malformed(loc []string) *expr {
	p.issue("value_error", loc)
	return &expr{op: "$literal"}
}

// nodeCost is what reading a node takes, in the units of package pace.
const nodeCost = 1_000

// node reads a node and the nodes below it.
func (p *parser) node(v jsontext.Value, loc []string, depth int) *expr {
	if p.meter.Spend(nodeCost) != nil {
		return &expr{op: "$literal"}
	}
	if p.nodes++; p.nodes > maxExprNodes {
		p.refuse("The query has more than 1000 nodes")
		return &expr{op: "$literal"}
	}
	if depth > maxExprDepth {
		p.refuse("The query is nested more than 32 levels deep")
		return &expr{op: "$literal"}
	}
	if v.Kind() != jsontext.Object {
		return p.malformed(loc)
	}
	n := &expr{}
	var arg jsontext.Value
	count := 0
	for key, val := range v.PacedMembers(p.meter.Bytes) {
		n.op, arg = string(key), val
		count++
	}
	if count != 1 {
		return p.malformed(loc)
	}
	loc = append(slices.Clip(loc), n.op)
	switch n.op {
	case "$literal":
		if t := arg.Kind(); t == jsontext.Object || t == jsontext.Array {
			return p.malformed(loc)
		}
		n.value = valueOf(arg)
	case "$getField":
		if arg.Kind() != jsontext.String {
			p.issue("string_type", loc)
			return n
		}
		n.field = p.field(arg.Text())
	case "$and", "$or", "$not", "$eq", "$gt", "$gte", "$lt", "$lte":
		p.operands(n, arg, loc, depth)
	case "$in":
		p.in(n, arg, loc, depth)
	case "$convert":
		p.convert(n, arg, loc, depth)
	case "$contains", "$containsToken":
		p.contains(n, arg, loc, depth)
	default:
		return p.malformed(loc)
	}
	return n
}

// operands reads the operands of a node whose argument is an array of nodes.
func (p *parser) operands(n *expr, arg jsontext.Value, loc []string, depth int) {
	if arg.Kind() != jsontext.Array {
		p.issue("list_type", loc)
		return
	}
	for i, v := range arg.PacedElements(p.meter.Bytes) {
		n.args = append(n.args, p.node(v, append(slices.Clip(loc), strconv.Itoa(i)), depth+1))
		if p.nodes > maxExprNodes {
			return
		}
	}
	switch n.op {
	case "$and", "$or":
		if len(n.args) == 0 {
			p.refuse(n.op + " needs at least one operand")
		}
	case "$not":
		if len(n.args) != 1 {
			p.malformed(loc)
		}
	default:
		if len(n.args) != 2 {
			p.malformed(loc)
			return
		}
		p.times(n.args[0], n.args[1])
		p.times(n.args[1], n.args[0])
	}
}

// times turns a text that is compared with created_at into a point in time
// (docs/interface/feedback.md, section 8.3, rule 4).
func (p *parser) times(f, with *expr) {
	if f.op != "$getField" || f.field.column != colCreated || f.field.path != nil || with.op != "$literal" || with.value.kind != kindText {
		return
	}
	at, ok := parseTime(with.value.text)
	if !ok {
		p.refuse("created_at is compared with something that is not a date")
		return
	}
	with.value = value{kind: kindNum, num: number{float: float64(at.UnixMilli())/1000 + float64(at.Nanosecond()%1e6)/1e9}}
}

// in reads the argument of $in.
func (p *parser) in(n *expr, arg jsontext.Value, loc []string, depth int) {
	var pair []jsontext.Value
	if arg.Kind() == jsontext.Array {
		for _, v := range arg.PacedElements(p.meter.Bytes) {
			if pair = append(pair, v); len(pair) > 2 {
				break
			}
		}
	}
	if len(pair) != 2 || pair[1].Kind() != jsontext.Array {
		p.malformed(loc)
		return
	}
	of := p.node(pair[0], append(slices.Clip(loc), "0"), depth+1)
	n.args = append(n.args, of)
	var literals []*expr
	for i, v := range pair[1].PacedElements(p.meter.Bytes) {
		if i == maxExprIn {
			p.refuse("$in has more than 10000 elements")
			return
		}
		nodes := p.nodes
		e := p.node(v, append(slices.Clip(loc), "1", strconv.Itoa(i)), depth+1)
		if p.nodes > maxExprNodes && e.op != "$literal" {
			return
		}
		p.times(of, e)
		n.args = append(n.args, e)
		if e.op != "$literal" {
			n.others = append(n.others, e)
			continue
		}
		p.nodes = nodes // literals do not count as nodes: they have bounds of their own
		literals = append(literals, e)
		if p.elements++; p.elements > maxExprInAll {
			p.refuse("The lists of all $in together have more than 50000 elements")
			return
		}
	}
	if literals != nil {
		n.set = newSet(literals, of.op == "$getField" && of.field.column == colID)
	}
}

// convert reads the argument of $convert.
func (p *parser) convert(n *expr, arg jsontext.Value, loc []string, depth int) {
	m := p.object(arg, loc)
	if m == nil {
		return
	}
	input := p.take(m, "input", true, jsontext.Object, "model_attributes_type", loc)
	if to := p.text(m, "to", true, loc); to != nil {
		n.to = *to
		if !slices.Contains([]string{"double", "int", "string", "bool", "exists"}, n.to) {
			p.issue("literal_error", loc, "to")
		}
	}
	p.extras(m, loc)
	if input != nil {
		n.args = []*expr{p.node(input, append(slices.Clip(loc), "input"), depth+1)}
	}
}

// contains reads the argument of $contains and $containsToken.
func (p *parser) contains(n *expr, arg jsontext.Value, loc []string, depth int) {
	m := p.object(arg, loc)
	if m == nil {
		return
	}
	input := p.take(m, "input", true, jsontext.Object, "model_attributes_type", loc)
	substr := p.take(m, "substr", true, jsontext.Object, "model_attributes_type", loc)
	if fold := p.take(m, "case_insensitive", false, jsontext.Bool, "bool_type", loc); fold != nil {
		n.fold = fold[0] == 't'
	}
	p.extras(m, loc)
	if input == nil || substr == nil {
		return
	}
	n.args = []*expr{p.node(input, append(slices.Clip(loc), "input"), depth+1), p.node(substr, append(slices.Clip(loc), "substr"), depth+1)}
	s := n.args[1]
	switch {
	case s.op != "$literal" || s.value.kind != kindText:
		p.refuse(n.op + ": substr must be a string literal")
	case len(s.value.text) > maxExprSubstr:
		p.refuse(n.op + ": substr has more than 4096 bytes")
	case n.fold:
		n.search = newSearch(foldText(s.value.text, nil))
	default:
		n.search = newSearch(s.value.text)
	}
}

// parseTime reads an ISO 8601 date, with or without a time. A time without a zone is in
// UTC.
func parseTime(s string) (time.Time, bool) {
	s = strings.TrimSpace(s)
	if len(s) > len("2006-01-02") && s[10] == ' ' {
		s = s[:10] + "T" + s[11:]
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05-0700", "2006-01-02"} {
		if t, err := time.Parse(layout, s); err == nil { // time.Parse accepts a fraction after the seconds of any layout
			return t, true
		}
	}
	return time.Time{}, false
}
