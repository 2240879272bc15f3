package feedback

import (
	"context"
	"slices"
	"strings"

	"weir/internal/jsontext"
	"weir/store"
)

// PayloadSchema returns the paths to scalars in payloads with the types of their values
// (docs/interface/feedback.md, section 8.6).
func (s *Store) PayloadSchema(ctx context.Context, q *Stats) ([]byte, error) {
	kinds := map[string]string{}
	n := 0
	if err := s.db.View(func(r *store.Reader) error {
		return q.each(ctx, r, func(rec *Record) bool {
			if n++; n > q.sample {
				return false
			}
			leaves(rec.Payload, "", kinds)
			return true
		})
	}); err != nil {
		return nil, err
	}
	paths := make([]string, 0, len(kinds))
	for path := range kinds {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	out := []byte(`{"paths":[`)
	for i, path := range paths {
		out = append(out, `,{"json_path":`[b2i(i == 0):]...)
		out = append(jsontext.AppendString(out, path), `,"value_type":"`...)
		out = append(append(out, kinds[path]...), `"}`...)
	}
	return append(out, `]}`...), nil
}

// leaves adds the types of the scalars in an object to kinds, by path.
func leaves(object jsontext.Value, prefix string, kinds map[string]string) {
	for key, v := range object.Members() {
		name := string(key)
		if strings.Contains(name, ".") || strings.TrimSpace(name) == "" {
			continue
		}
		kind := "categorical"
		switch v.Kind() {
		case jsontext.Object:
			leaves(v, prefix+name+".", kinds)
			continue
		case jsontext.Array, jsontext.Null:
			continue
		case jsontext.Bool:
			kind = "boolean"
		case jsontext.Number:
			kind = "numeric"
		}
		if before, ok := kinds[prefix+name]; ok && before != kind {
			kind = "categorical"
		}
		kinds[prefix+name] = kind
	}
}
