package query

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/internal/form"
	"weir/internal/jsontext"
)

// An Expr is a node of a query's expression, which is a small part of MongoDB's
// aggregation language (docs/interface/feedback.md, section 8.3).
type Expr struct {
	Op   string // as sent: "$and", "$getField", ...
	Args []*Expr

	Value Value  // $literal
	Field Field  // $getField
	To    string // $convert

	Fold   bool    // $contains, $containsToken: case_insensitive
	search *search // for substr, which is folded if fold is set

	// The elements of an $in, which are also args[1:]: the literals, and the others.
	set    *set
	others []*Expr
}

// Field is what a query can name: a column, or a path into a column that is JSON.
type Field struct {
	Column int      // its number, which means something to whoever has the rows
	Path   []string // nil: the column itself
	Name   string   // as sent
	Time   bool     // its values are points in time, in seconds; texts that it is compared with are dates
	ID     bool     // its values are UUIDs in lower case; UUIDs that it is compared with may have any case
	List   bool     // its values are arrays of strings, which $contains looks for a string in
}

// The bounds of an expression (docs/interface/feedback.md, section 8.3, rule 7).
const (
	maxExprDepth  = 32
	maxExprNodes  = 1_000
	maxExprIn     = 10_000
	maxExprInAll  = 50_000 // literals of all $in together
	maxExprSubstr = 4_096  // bytes
)

// The bounds of a path.
const (
	MaxPathParts = 32
	MaxPathBytes = 1_024
)

// Parser reads the names and expressions of one request.
type Parser struct {
	form.Decoder
	// Names is the field that a name stands for. It refuses names that stand for none.
	Names func(name string) Field

	nodes    int
	elements int // literals of all $in
}

// Refuse notes why the request is refused although its form is right.
func (p *Parser) Refuse(reason string) {
	p.Decoder.Refuse(400, reason)
}

// Path reads a path into a column that is JSON.
func (p *Parser) Path(s string) []string {
	if len(s) > MaxPathBytes {
		p.Refuse("A path has more than 1024 bytes")
		return []string{""}
	}
	path := SplitPath(s)
	if len(path) > MaxPathParts {
		p.Refuse("A path has more than 32 parts")
	}
	return path
}

// SplitPath splits a path at its dots. A dot after a backslash belongs to a name.
func SplitPath(s string) (path []string) {
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

// Expression reads {"$expr": <node>}. It returns nil if there is none.
func (p *Parser) Expression(m *form.Members, required bool) *Expr {
	loc := []string{"body", "query"}
	v := p.Take(m, "query", required, jsontext.Object, "model_attributes_type", []string{"body"})
	if v == nil {
		return nil
	}
	q := p.Object(v, loc)
	node := p.Take(q, "$expr", true, jsontext.Object, "model_attributes_type", loc)
	p.Extras(q, loc)
	if node == nil {
		return nil
	}
	return p.Node(node, append(loc, "$expr"), 1)
}

// malformed reports that something is not a node.
func (p *Parser) malformed(loc []string) *Expr {
	p.Issue("value_error", loc)
	return &Expr{Op: "$literal"}
}

// nodeCost is what reading a node takes, in the units of package pace.
const nodeCost = 1_000

// Node reads a node and the nodes below it.
func (p *Parser) Node(v jsontext.Value, loc []string, depth int) *Expr {
	if p.Meter.Spend(nodeCost) != nil {
		return &Expr{Op: "$literal"}
	}
	if p.nodes++; p.nodes > maxExprNodes {
		p.Refuse("The query has more than 1000 nodes")
		return &Expr{Op: "$literal"}
	}
	if depth > maxExprDepth {
		p.Refuse("The query is nested more than 32 levels deep")
		return &Expr{Op: "$literal"}
	}
	if v.Kind() != jsontext.Object {
		return p.malformed(loc)
	}
	n := &Expr{}
	var arg jsontext.Value
	count := 0
	for key, val := range v.PacedMembers(p.Meter.Bytes) {
		n.Op, arg = string(key), val
		count++
	}
	if count != 1 {
		return p.malformed(loc)
	}
	loc = append(slices.Clip(loc), n.Op)
	switch n.Op {
	case "$literal":
		if t := arg.Kind(); t == jsontext.Object || t == jsontext.Array {
			return p.malformed(loc)
		}
		n.Value = ValueOf(arg)
	case "$getField":
		if arg.Kind() != jsontext.String {
			p.Issue("string_type", loc)
			return n
		}
		n.Field = p.Names(arg.Text())
	case "$and", "$or", "$not", "$eq", "$gt", "$gte", "$lt", "$lte":
		p.operands(n, arg, loc, depth)
	case "$in":
		p.in(n, arg, loc, depth)
	case "$size":
		n.Args = []*Expr{p.Node(arg, loc, depth+1)}
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
func (p *Parser) operands(n *Expr, arg jsontext.Value, loc []string, depth int) {
	if arg.Kind() != jsontext.Array {
		p.Issue("list_type", loc)
		return
	}
	for i, v := range arg.PacedElements(p.Meter.Bytes) {
		n.Args = append(n.Args, p.Node(v, append(slices.Clip(loc), strconv.Itoa(i)), depth+1))
		if p.nodes > maxExprNodes {
			return
		}
	}
	switch n.Op {
	case "$and", "$or":
		if len(n.Args) == 0 {
			p.Refuse(n.Op + " needs at least one operand")
		}
	case "$not":
		if len(n.Args) != 1 {
			p.malformed(loc)
		}
	default:
		if len(n.Args) != 2 {
			p.malformed(loc)
			return
		}
		p.Times(n.Args[0], n.Args[1])
		p.Times(n.Args[1], n.Args[0])
	}
}

// Times turns a text that is compared with a point in time into a point in time
// (docs/interface/feedback.md, section 8.3, rule 4).
func (p *Parser) Times(f, with *Expr) {
	if f.Op != "$getField" || !f.Field.Time || with.Op != "$literal" || with.Value.Kind != Text {
		return
	}
	at, ok := ParseTime(with.Value.Text)
	if !ok {
		p.Refuse(f.Field.Name + " is compared with something that is not a date")
		return
	}
	with.Value = Value{Kind: Num, Num: Number{Float: float64(at.UnixMilli())/1000 + float64(at.Nanosecond()%1e6)/1e9}}
}

// in reads the argument of $in.
func (p *Parser) in(n *Expr, arg jsontext.Value, loc []string, depth int) {
	var pair []jsontext.Value
	if arg.Kind() == jsontext.Array {
		for _, v := range arg.PacedElements(p.Meter.Bytes) {
			if pair = append(pair, v); len(pair) > 2 {
				break
			}
		}
	}
	if len(pair) != 2 || pair[1].Kind() != jsontext.Array {
		p.malformed(loc)
		return
	}
	of := p.Node(pair[0], append(slices.Clip(loc), "0"), depth+1)
	n.Args = append(n.Args, of)
	var literals []*Expr
	for i, v := range pair[1].PacedElements(p.Meter.Bytes) {
		if i == maxExprIn {
			p.Refuse("$in has more than 10000 elements")
			return
		}
		nodes := p.nodes
		e := p.Node(v, append(slices.Clip(loc), "1", strconv.Itoa(i)), depth+1)
		if p.nodes > maxExprNodes && e.Op != "$literal" {
			return
		}
		p.Times(of, e)
		n.Args = append(n.Args, e)
		if e.Op != "$literal" {
			n.others = append(n.others, e)
			continue
		}
		p.nodes = nodes // literals do not count as nodes: they have bounds of their own
		literals = append(literals, e)
		if p.elements++; p.elements > maxExprInAll {
			p.Refuse("The lists of all $in together have more than 50000 elements")
			return
		}
	}
	if literals != nil {
		n.set = newSet(literals, of.Op == "$getField" && of.Field.ID)
	}
}

// convert reads the argument of $convert.
func (p *Parser) convert(n *Expr, arg jsontext.Value, loc []string, depth int) {
	m := p.Object(arg, loc)
	if m == nil {
		return
	}
	input := p.Take(m, "input", true, jsontext.Object, "model_attributes_type", loc)
	if to := p.Text(m, "to", true, loc); to != nil {
		n.To = *to
		if !slices.Contains([]string{"double", "int", "string", "bool", "exists"}, n.To) {
			p.Issue("literal_error", loc, "to")
		}
	}
	p.Extras(m, loc)
	if input != nil {
		n.Args = []*Expr{p.Node(input, append(slices.Clip(loc), "input"), depth+1)}
	}
}

// contains reads the argument of $contains and $containsToken.
func (p *Parser) contains(n *Expr, arg jsontext.Value, loc []string, depth int) {
	m := p.Object(arg, loc)
	if m == nil {
		return
	}
	input := p.Take(m, "input", true, jsontext.Object, "model_attributes_type", loc)
	substr := p.Take(m, "substr", true, jsontext.Object, "model_attributes_type", loc)
	if fold := p.Take(m, "case_insensitive", false, jsontext.Bool, "bool_type", loc); fold != nil {
		n.Fold = fold[0] == 't'
	}
	p.Extras(m, loc)
	if input == nil || substr == nil {
		return
	}
	n.Args = []*Expr{p.Node(input, append(slices.Clip(loc), "input"), depth+1), p.Node(substr, append(slices.Clip(loc), "substr"), depth+1)}
	s := n.Args[1]
	switch {
	case s.Op != "$literal" || s.Value.Kind != Text:
		p.Refuse(n.Op + ": substr must be a string literal")
	case len(s.Value.Text) > maxExprSubstr:
		p.Refuse(n.Op + ": substr has more than 4096 bytes")
	case n.Fold:
		n.search = newSearch(FoldText(s.Value.Text, nil))
	default:
		n.search = newSearch(s.Value.Text)
	}
}

// anyNumber is what larger numbers of rows are taken for.
const anyNumber = 1 << 60

// Integer takes a number of rows; ok is false if there is none.
func (p *Parser) Integer(m *form.Members, name string, loc []string) (n int, ok bool) {
	v := p.Take(m, name, false, jsontext.Number, "int_type", loc)
	if v == nil {
		return 0, false
	}
	num, _ := ParseNumber(string(v))
	switch {
	case !num.Integer():
		p.Issue("int_type", loc, name)
		return 0, false
	case num.Float < 0:
		p.Refuse(name + " must not be negative")
		return 0, false
	case !num.Exact || num.Small > anyNumber:
		return anyNumber, true
	}
	return int(num.Small), true
}

// ParseTime reads an ISO 8601 date, with or without a time. A time without a zone is in
// UTC.
func ParseTime(s string) (time.Time, bool) {
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
