package objects

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"weir/internal/form"
	"weir/internal/jsontext"
	"weir/internal/pace"
	"weir/store"
)

// Selection names a version of an object, or several to be deleted.
type Selection struct {
	Project, ID  string
	Digests      []string
	MetadataOnly bool
}

// DecodeRead reads the body of a request for one version. The error is that of DecodeObject.
func DecodeRead(ctx context.Context, body []byte) (*Selection, error) {
	d, m, loc, err := begin(ctx, body, "")
	if err != nil {
		return nil, err
	}
	q := &Selection{Project: d.project(m, loc), ID: d.text(m, "object_id", true, loc)}
	q.Digests = []string{d.text(m, "digest", true, loc)}
	q.MetadataOnly = d.flag(m, "metadata_only", loc)
	return q, d.End()
}

// maxDeleted bounds the versions of a deletion.
const maxDeleted = 100

// DecodeDelete reads the body of a deletion. Without digests it is about all versions.
func DecodeDelete(ctx context.Context, body []byte) (*Selection, error) {
	d, m, loc, err := begin(ctx, body, "")
	if err != nil {
		return nil, err
	}
	q := &Selection{Project: d.project(m, loc), ID: d.text(m, "object_id", true, loc), Digests: d.list(m, "digests", false, loc)}
	if len(q.Digests) > maxDeleted {
		d.Refuse(400, "A request may delete at most 100 versions by their digests")
	}
	return q, d.End()
}

// Read returns {"obj": …} for a version.
func (s *Store) Read(ctx context.Context, q *Selection) (answer []byte, err error) {
	err = s.db.View(func(r *store.Reader) error {
		list, err := versions(r, pace.Of(ctx), q.Project, q.ID)
		if err != nil {
			return err
		}
		v := find(list, q.Digests[0])
		if v == nil {
			return refuse(404, "Obj "+q.ID+":"+q.Digests[0]+" not found")
		}
		if v.Deleted != 0 {
			at := string(appendTime(nil, v.Deleted))
			return &Deleted{fmt.Sprintf("%s:v%d was deleted at %s", q.ID, v.Index, at), at}
		}
		value := jsontext.Value("{}")
		if !q.MetadataOnly {
			if value, err = v.value(r, q.Project); err != nil {
				return err
			}
		}
		answer = append(v.appendJSON([]byte(`{"obj":`), q.Project, latest(list), value), '}')
		return nil
	})
	return answer, err
}

// Delete marks versions as deleted, removes their values, and returns how many they were. A
// deletion of all versions deletes those as well that cannot be read.
func (s *Store) Delete(ctx context.Context, q *Selection) (n int, err error) {
	err = s.update(ctx, "", func(w *writer) error {
		n = 0
		list, err := w.versionsToDelete(pace.Of(ctx), q, &n)
		if err != nil {
			return err
		}
		var gone []*version
		for _, v := range list {
			if v.Deleted == 0 && q.Digests == nil {
				gone = append(gone, v)
			}
		}
		for _, digest := range q.Digests {
			v := find(list, digest)
			if v == nil || v.Deleted != 0 {
				return refuse(404, "Object "+q.ID+":"+digest+" not found when deleting.")
			}
			if !slices.Contains(gone, v) {
				gone = append(gone, v)
			}
		}
		if len(gone)+n == 0 {
			return refuse(404, "Object "+q.ID+" not found when deleting.")
		}
		for _, v := range gone {
			v.Deleted = w.at
			w.tx.Set(keyOf(tagObject, q.Project, v.Object, v.Digest), v.append(nil))
			if err := w.remove(q.Project, keyOf(tagValue, q.Project, v.Object, v.Digest)); err != nil {
				return err
			}
			n++
		}
		return nil
	})
	return n, err
}

// versionsToDelete are the versions of the object of a deletion. If all are to be deleted,
// those that cannot be read are deleted at once and counted in n.
func (w *writer) versionsToDelete(m *pace.Meter, q *Selection, n *int) (list []*version, err error) {
	if q.Digests != nil {
		return versions(&w.tx.Reader, m, q.Project, q.ID)
	}
	var broken [][]byte
	err = w.tx.Scan(store.Range{Prefix: keyOf(tagObject, q.Project, q.ID), Damaged: func(key []byte, _ error) { broken = append(broken, bytes.Clone(key)) }}, func(key, row []byte) bool {
		if v, err := decodeVersion(key, row); err == nil {
			list = append(list, v)
		} else {
			broken = append(broken, bytes.Clone(key))
		}
		return m.Spend(pace.Row) == nil
	})
	for _, key := range broken {
		w.tx.Delete(key)
		err = errors.Join(err, w.remove(q.Project, valueKey(key)))
	}
	*n = len(broken)
	return list, errors.Join(err, m.Err())
}

// Query asks for the objects of a project.
type Query struct {
	Project      string
	metadataOnly bool
	limit        int // below 0: none
	offset       int
	sort         []form.Sort // by object_id and created_at; empty: by the time of creation

	kind       string // "": any; "op", or "object"
	ids        []string
	latestOnly bool
	bases      []string
	notBases   []string
	leaves     []string
}

// DecodeQuery reads the body of a query. The error is that of DecodeObject.
func DecodeQuery(ctx context.Context, body []byte) (*Query, error) {
	d, m, loc, err := begin(ctx, body, "")
	if err != nil {
		return nil, err
	}
	q := &Query{Project: d.project(m, loc), metadataOnly: d.flag(m, "metadata_only", loc), limit: d.number(m, "limit", -1, loc), offset: d.number(m, "offset", 0, loc)}
	if v := d.Take(m, "filter", false, jsontext.Object, "model_attributes_type", loc); v != nil {
		loc := append(slices.Clip(loc), "filter")
		f := d.Object(v, loc)
		if is := d.Take(f, "is_op", false, jsontext.Bool, "bool_type", loc); is != nil {
			q.kind = map[bool]string{true: "op", false: "object"}[is[0] == 't']
		}
		q.ids, q.latestOnly = d.list(f, "object_ids", false, loc), d.flag(f, "latest_only", loc)
		q.bases, q.notBases = d.list(f, "base_object_classes", false, loc), d.list(f, "exclude_base_object_classes", false, loc)
		q.leaves = d.list(f, "leaf_object_classes", false, loc)
		aliases := d.list(f, "aliases", false, loc)
		q.latestOnly = q.latestOnly || slices.Equal(aliases, []string{"latest"})
		if len(d.list(f, "tags", false, loc)) > 0 || len(aliases) > 0 && !q.latestOnly {
			d.Refuse(501, "weir has no tags, and no alias but latest")
		}
	}
	q.sort = slices.DeleteFunc(d.SortBy(m, loc), func(s form.Sort) bool { return s.Field != "object_id" && s.Field != "created_at" })
	return q, d.End()
}

// number takes a number that is not negative.
func (d *decoder) number(m *form.Members, name string, otherwise int, loc []string) int {
	v := d.Take(m, name, false, jsontext.Number, "int_type", loc)
	if v == nil {
		return otherwise
	}
	n, err := strconv.Atoi(string(v))
	switch {
	case err != nil:
		d.Issue("int_type", loc, name)
	case n < 0:
		d.Refuse(400, name+" must not be negative")
	}
	return n
}

func (q *Query) match(v *version, last *version) bool {
	among := func(list []string, s string) bool { return list == nil || slices.Contains(list, s) }
	switch {
	case v.Deleted != 0, q.kind != "" && v.Kind != q.kind, !among(q.ids, v.Object), q.latestOnly && v != last:
		return false
	case !among(q.bases, v.Base), !among(q.leaves, v.Leaf):
		return false
	}
	return q.notBases == nil || v.Base != "" && !slices.Contains(q.notBases, v.Base)
}

// Objects writes {"objs": […]} to w.
func (s *Store) Objects(ctx context.Context, q *Query, w io.Writer) error {
	m := pace.Of(ctx)
	return s.db.View(func(r *store.Reader) error {
		list, err := q.candidates(r, m)
		if err != nil {
			return err
		}
		byObject, last := map[string][]*version{}, map[string]*version{}
		for _, v := range list {
			byObject[v.Object] = append(byObject[v.Object], v)
		}
		for id, some := range byObject {
			last[id] = latest(some)
		}
		buf := []byte(`{"objs":[`)
		for i, v := range q.page(list, last) {
			if i > 0 {
				buf = append(buf, ',')
			}
			value := jsontext.Value("{}")
			if !q.metadataOnly {
				if value, err = v.value(r, q.Project); err != nil {
					return err
				}
			}
			if err := m.Spend(len(value)); err != nil {
				return err
			}
			if buf, err = writePart(w, v.appendJSON(buf, q.Project, last[v.Object], value)); err != nil {
				return err
			}
		}
		_, err = w.Write(append(buf, "]}"...))
		return err
	})
}

// maxSeparate is up to how many objects are read one by one, rather than all of a project.
const maxSeparate = 64

// candidates are the versions among which a query selects: all versions of some objects.
func (q *Query) candidates(r *store.Reader, m *pace.Meter) (list []*version, err error) {
	if q.ids == nil || len(q.ids) > maxSeparate {
		return versions(r, m, q.Project)
	}
	ids := slices.Clone(q.ids)
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		some, err := versions(r, m, q.Project, id)
		if err != nil {
			return nil, err
		}
		list = append(list, some...)
	}
	return list, nil
}

// page is the part of a list that a query asks for, in its order. last has the latest version
// of each object.
func (q *Query) page(list []*version, last map[string]*version) []*version {
	list = slices.DeleteFunc(list, func(v *version) bool { return !q.match(v, last[v.Object]) })
	sortVersions(list)
	slices.SortStableFunc(list, func(a, b *version) int {
		for _, s := range q.sort {
			c := cmp.Compare(a.Created, b.Created)
			if s.Field == "object_id" {
				c = strings.Compare(a.Object, b.Object)
			}
			if c != 0 && s.Descending {
				return -c
			}
			if c != 0 {
				return c
			}
		}
		return 0
	})
	return cut(list, q.offset, q.limit)
}

// cut is the part of a list from an offset on, of at most limit elements if that is not below 0.
func cut[T any](list []T, offset, limit int) []T {
	list = list[min(offset, len(list)):]
	if limit >= 0 {
		list = list[:min(limit, len(list))]
	}
	return list
}

// writePart writes the answer so far if it is long enough, and returns what is left of it.
func writePart(w io.Writer, buf []byte) ([]byte, error) {
	if len(buf) < part {
		return buf, nil
	}
	_, err := w.Write(buf)
	return buf[:0], err
}

// part is how much of an answer is held before it is written.
const part = 64 << 10
