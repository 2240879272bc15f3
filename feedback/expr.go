package feedback

import (
	"slices"
	"strings"

	"weir/internal/pace"
	"weir/internal/query"
)

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

// maxFields bounds the fields of a query (docs/interface/feedback.md, section 8.3, rule 7).
const maxFields = 200

// parser reads the names and expressions of one request.
type parser struct {
	query.Parser
	weave bool // a name was used that only Weave's dialect has
	weir  bool // a name was used that Weave's dialect does not have
}

// newParser returns a parser whose work is counted on a meter.
func newParser(m *pace.Meter) *parser {
	p := &parser{}
	p.Meter, p.Names = m, p.field
	return p
}

func (p *parser) dialect() Dialect {
	if p.weave {
		return WeaveNames
	}
	return WeirNames
}

// key reads the key of a map, which is all that follows the first dot: keys may have dots.
func (p *parser) key(s string) []string {
	if len(s) > query.MaxPathBytes {
		p.Refuse("A path has more than 1024 bytes")
		return []string{""}
	}
	return []string{s}
}

// field reads the name of a field.
func (p *parser) field(name string) (f query.Field) {
	f.Name = name
	if path, ok := strings.CutPrefix(name, "payload."); ok && path != "" {
		f.Column, f.Path = colPayload, p.Path(path)
		return f
	}
	if column, key, ok := strings.Cut(name, "."); ok && key != "" {
		if i := mapColumn(column); i >= 0 {
			p.weave, f.Column, f.Path = true, i, p.key(key)
			return f
		}
	}
	p.weir = p.weir || name == WeirNames.traceRefName() || name == WeirNames.userName()
	if i := slices.Index(WeaveNames.columns(), name); i >= 0 && !slices.Contains(WeirNames.columns(), name) {
		p.weave, f.Column = true, i
		f.List = i >= firstWeave && weaveColumns[i-firstWeave].empty == "[]"
		return f
	}
	if f.Column = slices.Index(WeirNames.columns(), name); f.Column < 0 {
		f.Column = 0
		p.Refuse("Unknown field: " + clip(name))
	}
	f.ID, f.Time = f.Column == colID && f.Path == nil, f.Column == colCreated && f.Path == nil
	return f
}
