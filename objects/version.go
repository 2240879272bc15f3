package objects

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/internal/form"
	"weir/internal/jsontext"
	"weir/internal/pace"
	"weir/store"
)

// version is what is known of a version of an object.
type version struct {
	Object, Digest string
	Index          int   // of all versions of the object, from 0 on
	Created        int64 // microseconds of Unix time
	Published      int64 // when it was published last; the greatest is the latest version
	Deleted        int64 // 0: it was not
	User           string
	Kind           string // op or object
	Base, Leaf     string // classes; "": none
	Size           int    // of the value, in bytes
}

// append encodes a version, but for what its key says.
func (v *version) append(dst []byte) []byte {
	for _, n := range []int64{int64(v.Index), v.Published, v.Deleted, int64(v.Size)} {
		dst = binary.BigEndian.AppendUint64(dst, uint64(n))
	}
	for _, s := range []string{v.Kind, v.Base, v.Leaf} {
		dst = store.AppendString(dst, s)
	}
	b := blob{at: v.Created, user: v.User, data: dst}
	return b.append(nil)
}

// decodeVersion reads a version from its row and the end of its key.
func decodeVersion(key, row []byte) (v *version, err error) {
	b, err := decodeBlob(row)
	if err != nil {
		return nil, err
	}
	v = &version{Created: b.at, User: b.user}
	var n [4]uint64
	rest := b.data
	for i := range n {
		if n[i], rest, err = store.CutUint(rest); err != nil {
			return nil, errBlob
		}
	}
	v.Index, v.Published, v.Deleted, v.Size = int(n[0]), int64(n[1]), int64(n[2]), int(n[3])
	for _, s := range []*string{&v.Kind, &v.Base, &v.Leaf} {
		if *s, rest, err = store.CutString(rest); err != nil {
			return nil, errBlob
		}
	}
	key = key[1:]
	for _, s := range []*string{new(string), &v.Object, &v.Digest} { // the project comes first
		if *s, key, err = store.CutString(key); err != nil {
			return nil, errBlob
		}
	}
	return v, nil
}

// versions are those of an object, or of all objects of a project, by object and digest.
func versions(r *store.Reader, m *pace.Meter, project string, object ...string) (list []*version, err error) {
	var failed error
	err = r.Scan(store.Range{Prefix: keyOf(tagObject, project, object...)}, func(key, row []byte) bool {
		v, err := decodeVersion(key, row)
		if failed = errors.Join(err, m.Spend(pace.Row)); failed != nil {
			return false
		}
		list = append(list, v)
		return true
	})
	return list, errors.Join(failed, err)
}

// latest is the version of an object that was published last and not deleted; nil: there is
// none.
func latest(list []*version) (last *version) {
	for _, v := range list {
		if v.Deleted == 0 && (last == nil || v.Published > last.Published || v.Published == last.Published && v.Index > last.Index) {
			last = v
		}
	}
	return last
}

// find is the version with a digest, a number such as v3, or "latest"; nil: there is none.
func find(list []*version, digest string) *version {
	if digest == "latest" {
		if v := latest(list); v != nil {
			return v
		}
		return newest(list)
	}
	n, err := strconv.Atoi(strings.TrimPrefix(digest, "v"))
	numbered := err == nil && strings.HasPrefix(digest, "v")
	for _, v := range list {
		if v.Digest == digest || numbered && v.Index == n {
			return v
		}
	}
	return nil
}

// newest is the version with the greatest number.
func newest(list []*version) (last *version) {
	for _, v := range list {
		if last == nil || v.Index > last.Index {
			last = v
		}
	}
	return last
}

// Object is a version to be created.
type Object struct {
	Project, ID string
	value       jsontext.Value
	expected    string // digest that the client has computed; "": none
	base, leaf  string
}

// The bounds of a request.
const (
	maxDepth    = 300
	maxProject  = 256
	maxObjectID = 128
	// maxListed bounds the digests and names that a request lists.
	maxListed = 10_000
)

// decoder reads requests.
type decoder struct {
	form.Decoder
}

// begin reads a body, or one member of it that has the request.
func begin(ctx context.Context, body []byte, member string) (d *decoder, m *form.Members, loc []string, err error) {
	d = &decoder{Decoder: form.Decoder{Meter: pace.Of(ctx)}}
	v, err := d.Scan(body, maxDepth)
	if err != nil {
		return nil, nil, nil, err
	}
	loc = []string{"body"}
	m = d.Object(v, loc)
	if member != "" {
		if v = d.Take(m, member, true, jsontext.Object, "model_attributes_type", loc); v != nil {
			loc = append(loc, member)
			m = d.Object(v, loc)
		} else {
			m = nil
		}
	}
	return d, m, loc, nil
}

// project takes the name of the project. An empty one is an issue already.
func (d *decoder) project(m *form.Members, loc []string) string {
	s := d.text(m, "project_id", true, loc)
	if s != "" && !validProject(s) {
		d.Refuse(400, "Invalid project_id")
	}
	return s
}

// text takes a text; "" if there is none.
func (d *decoder) text(m *form.Members, name string, required bool, loc []string) string {
	if s := d.Text(m, name, required, loc); s != nil {
		return *s
	}
	return ""
}

func (d *decoder) flag(m *form.Members, name string, loc []string) bool {
	v := d.Take(m, name, false, jsontext.Bool, "bool_type", loc)
	return v != nil && v[0] == 't'
}

// list takes a list of texts; nil if there is none, or nothing in it.
func (d *decoder) list(m *form.Members, name string, required bool, loc []string) []string {
	list := d.Texts(m, name, required, maxListed, loc)
	if len(list) == 0 {
		return nil
	}
	return list
}

// DecodeObject reads the body of a creation. The error is form.Invalid, or a *form.Refusal that
// comes with the object, because the right to its project is checked first.
func DecodeObject(ctx context.Context, body []byte) (*Object, error) {
	d, m, loc, err := begin(ctx, body, "obj")
	if err != nil {
		return nil, err
	}
	o := &Object{Project: d.project(m, loc), ID: d.text(m, "object_id", true, loc), expected: d.text(m, "expected_digest", false, loc)}
	if !m.Has("val") {
		d.Issue("missing", loc, "val")
		return nil, d.End()
	}
	o.value = jsontext.AppendCompact(nil, m.Values["val"])
	class := d.text(m, "builtin_object_class", false, loc)
	if class == "" {
		class = d.text(m, "set_base_object_class", false, loc)
	}
	if !validName(o.ID) {
		d.Refuse(400, "Invalid object_id: 1 to 128 letters, digits, and characters of -_. are allowed")
	}
	o.base, o.leaf = classes(o.value)
	switch {
	case class == "":
	case o.leaf == "" && o.value.Kind() == jsontext.Object:
		o.value, o.base, o.leaf = withClass(o.value, class), class, class
	case o.leaf != class:
		d.Refuse(400, "object_class must match val's defined object class: "+o.leaf+" != "+class)
	}
	if err := d.End(); err != nil {
		if _, refused := err.(*form.Refusal); refused {
			return o, err
		}
		return nil, err
	}
	return o, nil
}

// validName reports whether a text may be the name of an object.
func validName(s string) bool {
	if s == "" || len(s) > maxObjectID {
		return false
	}
	for _, r := range s {
		if r < ' ' || r == 0x7f || strings.ContainsRune("/:%?#", r) {
			return false
		}
	}
	return true
}

// classes are the classes of a value that is an instance of weave.Object or weave.BaseObject:
// the first class below those, and its own.
func classes(v jsontext.Value) (base, leaf string) {
	if v.Kind() != jsontext.Object {
		return "", ""
	}
	list := v.Member("_bases")
	if !list.Given() || list.Kind() != jsontext.Array {
		return "", ""
	}
	var bases []string
	for _, e := range list.Elements() {
		if e.Kind() != jsontext.String {
			return "", ""
		}
		bases = append(bases, e.Text())
	}
	n := len(bases)
	name := v.Member("_class_name")
	if n < 2 || bases[n-1] != "BaseModel" || bases[n-2] != "Object" && bases[n-2] != "BaseObject" || !name.Given() || name.Kind() != jsontext.String {
		return "", ""
	}
	if leaf = name.Text(); n > 2 {
		return bases[n-3], leaf
	}
	return leaf, leaf
}

// withClass adds to an object that it is an instance of one of Weave's own classes. Its other
// members are not checked against that class.
func withClass(v jsontext.Value, class string) jsontext.Value {
	name := jsontext.AppendString(nil, class)
	out := append(append([]byte(`{"_type":`), name...), ',')
	for key, val := range v.RawMembers() {
		switch key.SharedText() {
		case "_type", "_class_name", "_bases":
			continue
		}
		out = append(append(append(append(out, key...), ':'), val...), ',')
	}
	out = append(append(out, `"_class_name":`...), name...)
	return append(out, `,"_bases":["BaseObject","BaseModel"]}`...)
}

// Create stores a version of an object and returns its digest. A version that is there already
// becomes the latest one.
func (s *Store) Create(ctx context.Context, user string, o *Object) (digest string, err error) {
	m := pace.Of(ctx)
	digest = valueDigest(o.value, m)
	if err := m.Err(); err != nil {
		return "", err
	}
	if err := expect(o.expected, digest, "obj '"+o.ID+"'"); err != nil {
		return "", err
	}
	err = s.update(ctx, user, func(w *writer) error {
		list, err := versions(&w.tx.Reader, m, o.Project, o.ID)
		if err != nil {
			return err
		}
		v := find(list, digest)
		there := v != nil && v.Deleted == 0
		if !there { // also one that was deleted comes back as a new version
			v = &version{Object: o.ID, Digest: digest, Created: w.at, User: user, Kind: kindOf(o.value), Base: o.base, Leaf: o.leaf, Size: len(o.value)}
			if last := newest(list); last != nil {
				v.Index = last.Index + 1
			}
		}
		// A value that was damaged is whole again when it is published again.
		if err := w.put(o.Project, keyOf(tagValue, o.Project, o.ID, digest), o.value); err != nil {
			return err
		}
		if there && latest(list) == v && w.at-v.Published < touched {
			return nil
		}
		v.Published = w.at
		if last := latest(list); last != nil {
			v.Published = max(v.Published, last.Published+1)
		}
		w.tx.Set(keyOf(tagObject, o.Project, o.ID, digest), v.append(nil))
		return nil
	})
	return digest, err
}

// expect compares a digest with the one that the client has computed, if it has.
func expect(expected, digest, what string) error {
	if expected == "" || expected == digest {
		return nil
	}
	return refuse(409, fmt.Sprintf("Digest mismatch for %s: expected %s, computed %s", what, expected, digest))
}

// kindOf is the kind of an object: op, or object.
func kindOf(v jsontext.Value) string {
	if v.Kind() == jsontext.Object {
		if t := v.Member("_type"); t.Given() && t.Kind() == jsontext.String && t.SharedText() == "Op" {
			return "op"
		}
		if t := v.Member("weave_type"); t.Given() && t.Kind() == jsontext.Object {
			if t = t.Member("type"); t.Given() && t.Kind() == jsontext.String && t.SharedText() == "Op" {
				return "op"
			}
		}
	}
	return "object"
}

// appendJSON appends a version as an answer has it. value is its value.
func (v *version) appendJSON(dst []byte, project string, last *version, value jsontext.Value) []byte {
	dst = jsontext.AppendString(append(dst, `{"project_id":`...), project)
	dst = jsontext.AppendString(append(dst, `,"object_id":`...), v.Object)
	dst = append(appendTime(append(dst, `,"created_at":"`...), v.Created), '"')
	dst = append(dst, `,"deleted_at":`...)
	if v.Deleted == 0 {
		dst = append(dst, "null"...)
	} else {
		dst = append(appendTime(append(dst, '"'), v.Deleted), '"')
	}
	dst = jsontext.AppendString(append(dst, `,"digest":`...), v.Digest)
	dst = strconv.AppendInt(append(dst, `,"version_index":`...), int64(v.Index), 10)
	isLatest := 0
	if last != nil && last.Digest == v.Digest {
		isLatest = 1
	}
	dst = strconv.AppendInt(append(dst, `,"is_latest":`...), int64(isLatest), 10)
	dst = jsontext.AppendString(append(dst, `,"kind":`...), v.Kind)
	for _, f := range []struct{ name, value string }{{"base_object_class", v.Base}, {"leaf_object_class", v.Leaf}} {
		dst = append(append(append(dst, `,"`...), f.name...), `":`...)
		if f.value == "" {
			dst = append(dst, "null"...)
			continue
		}
		dst = jsontext.AppendString(dst, f.value)
	}
	dst = append(append(dst, `,"val":`...), value...)
	dst = jsontext.AppendString(append(dst, `,"wb_user_id":`...), v.User)
	return append(strconv.AppendInt(append(dst, `,"size_bytes":`...), int64(v.Size), 10), '}')
}

// appendTime appends a time in UTC, with six digits of the second's fraction.
func appendTime(dst []byte, us int64) []byte {
	return time.UnixMicro(us).UTC().AppendFormat(dst, "2006-01-02T15:04:05.000000Z")
}

// value reads the value of a version.
func (v *version) value(r *store.Reader, project string) (jsontext.Value, error) {
	b, err := read(r, keyOf(tagValue, project, v.Object, v.Digest))
	if err == nil && b == nil {
		err = errBlob
	}
	if err != nil {
		return nil, &Damaged{"object " + v.Object + ":" + v.Digest, err}
	}
	return b.data, nil
}

// Damaged says what cannot be read. It is store.ErrCorrupt.
type Damaged struct {
	What string
	Err  error
}

func (e *Damaged) Error() string { return "objects: " + e.What + ": " + e.Err.Error() }

// Unwrap lets errors.Is find store.ErrCorrupt.
func (e *Damaged) Unwrap() error { return e.Err }

// Deleted is the refusal of a version that was deleted.
type Deleted struct {
	Reason string
	At     string
}

func (e *Deleted) Error() string { return "objects: " + e.Reason }

// AppendJSON appends the body of the answer, whose status is 404.
func (e *Deleted) AppendJSON(dst []byte) []byte {
	dst = jsontext.AppendString(append(dst, `{"reason":`...), e.Reason)
	return append(jsontext.AppendString(append(dst, `,"deleted_at":`...), e.At), '}')
}

// sortVersions orders versions by the time when they were created, and then by number.
func sortVersions(list []*version) {
	slices.SortStableFunc(list, func(a, b *version) int {
		if a.Created != b.Created {
			return int(min(max(a.Created-b.Created, -1), 1))
		}
		return a.Index - b.Index
	})
}
