package feedback

import (
	"context"
	"slices"
	"strings"

	"weir/internal/jsontext"
	"weir/internal/pace"
	"weir/internal/query"
	"weir/store"
)

// PayloadSchema returns the paths to scalars in payloads with the types of their values
// (docs/interface/feedback.md, section 8.6).
func (s *Store) PayloadSchema(ctx context.Context, q *Stats) ([]byte, error) {
	k := kinds{meter: pace.Of(ctx), of: map[string]string{}}
	n := 0
	if err := s.viewWhole(func(r *store.Reader) error {
		return q.each(ctx, r, func(rec *Record) bool {
			if n++; n > q.sample {
				return false
			}
			k.add(rec.Payload, "", 1)
			return k.meter.Err() == nil
		})
	}); FirstError(err, k.meter.Err()) != nil {
		return nil, FirstError(err, k.meter.Err())
	}
	paths := make([]string, 0, len(k.of))
	for path := range k.of {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	out := []byte(`{"paths":[`)
	for i, path := range paths {
		out = append(out, `,{"json_path":`[b2i(i == 0):]...)
		out = append(jsontext.AppendString(out, path), `,"value_type":"`...)
		out = append(append(out, k.of[path]...), `"}`...)
	}
	return append(out, `]}`...), nil
}

// maxPaths bounds the paths of an answer. Those of further records are left out.
const maxPaths = 10_000

// kinds collects the types of the scalars in payloads, by path.
type kinds struct {
	meter *pace.Meter
	of    map[string]string
}

// add adds the scalars of an object whose paths begin with prefix. Paths that a query
// cannot name, because they are too long or too deep, are left out.
func (k *kinds) add(object jsontext.Value, prefix string, depth int) {
	if depth > query.MaxPathParts || k.meter.Spend(2*len(object)) != nil {
		return
	}
	for key, v := range object.Members() {
		name := string(key)
		if strings.Contains(name, ".") || strings.TrimSpace(name) == "" || len(prefix)+len(name) > query.MaxPathBytes {
			continue
		}
		kind := "categorical"
		switch v.Kind() {
		case jsontext.Object:
			k.add(v, prefix+name+".", depth+1)
			continue
		case jsontext.Array, jsontext.Null:
			continue
		case jsontext.Bool:
			kind = "boolean"
		case jsontext.Number:
			kind = "numeric"
		}
		before, ok := k.of[prefix+name]
		if ok && before != kind {
			kind = "categorical"
		}
		if ok || len(k.of) < maxPaths {
			k.of[prefix+name] = kind
		}
	}
}
