package objects

import (
	"context"
	"strings"
	"testing"

	"weir/internal/jsontext"
)

// FuzzRequests: no body of any request panics, and the value of an object that is accepted is
// JSON whose digest is the same after another round.
func FuzzRequests(f *testing.F) {
	for _, body := range []string{
		`{"obj":{"project_id":"p/q","object_id":"o","val":{"b":[1e16,-0.0,"\ud83d\ude00\ud800"],"a":null}}}`,
		`{"obj":{"project_id":"p/q","object_id":"o","val":{"_bases":["Object","BaseModel"],"_class_name":"X"},"builtin_object_class":"X"}}`,
		`{"table":{"project_id":"p/q","rows":[{"a":1},{}]}}`,
		`{"project_id":"p/q","base_digest":"d","updates":[{"append":{"row":{}}},{"insert":{"index":0,"row":{}}},{"pop":{"index":-1}}]}`,
		`{"project_id":"p/q","digest":"d","filter":{"row_digests":["x"]},"sort_by":[{"field":"a.b[0]","direction":"asc"}],"limit":1,"offset":2}`,
		`{"project_id":"p/q","object_id":"o","digests":["v0","latest"],"filter":{"tags":[]}}`,
		`{"refs":["weave:///p/q/object/o:v0/attr/a%20b/index/0","weave:///p/q/table/d"]}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		ctx := context.Background()
		if o, err := DecodeObject(ctx, body); err == nil {
			if jsontext.Scan(o.value, maxDepth+10) != nil {
				t.Fatalf("%q: the value %q is not JSON", body, o.value)
			}
			text := appendPython(nil, o.value, nil)
			if again := appendPython(nil, text, nil); !strings.Contains(string(text), "Infinity") && string(again) != string(text) {
				t.Fatalf("%q: %q and %q", body, text, again)
			}
		}
		_, _ = DecodeTable(ctx, body)
		_, _ = DecodeTableFromDigests(ctx, body)
		_, _ = DecodeTableUpdate(ctx, body)
		_, _ = DecodeTableQuery(ctx, body)
		_, _ = DecodeTableStats(ctx, body, true)
		_, _ = DecodeTableStats(ctx, body, false)
		_, _ = DecodeRead(ctx, body)
		_, _ = DecodeDelete(ctx, body)
		_, _ = DecodeQuery(ctx, body)
		_, _ = DecodeRefs(ctx, body)
		_, _, _ = DecodeFileContent(ctx, body)
		_, _ = DecodeFileStats(ctx, body)
	})
}

// FuzzForm: no form panics, and a file is never larger than the form.
func FuzzForm(f *testing.F) {
	const form = "--b\r\nContent-Disposition: form-data; name=\"project_id\"\r\n\r\np/q\r\n--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"x\"\r\n\r\n\x00\r\n--b--\r\n"
	f.Add("multipart/form-data; boundary=b", []byte(form))
	f.Add("multipart/form-data; boundary=b", []byte(form[:60]))
	f.Add("multipart/form-data; boundary=b", []byte(strings.Replace(form, "p/q", "", 1)))
	f.Add("multipart/form-data; boundary=\"\"", []byte("--\r\n--\r\n"))
	f.Add("multipart/mixed; boundary=b", []byte(form))
	f.Fuzz(func(t *testing.T, contentType string, body []byte) {
		file, err := DecodeFile(contentType, body)
		if err == nil && (len(file.content) > len(body) || !validProject(file.Project)) {
			t.Fatalf("%q: %+v", body, file)
		}
	})
}

// FuzzRef: no reference panics, and what is accepted has a project.
func FuzzRef(f *testing.F) {
	for _, s := range []string{"weave:///p/q/object/o:v0/attr/a%20b/index/0", "weir:///p/q/op/f:*", "weave:///p/q/table/d", "weave:///%2F/q/object/o:v0", ":///a/b/object/:"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if r, ok := parseRef(s); ok && !strings.Contains(r.project, "/") {
			t.Fatalf("%q: %+v", s, r)
		}
	})
}

// FuzzRows: no bytes of a row panic, and what is taken for a version is encoded to the same
// bytes.
func FuzzRows(f *testing.F) {
	v := version{Object: "o", Digest: "d", Index: 3, Created: 1, Published: 2, User: "u", Kind: "op", Base: "B", Leaf: "L", Size: 9}
	row := v.append(nil)
	f.Add(row)
	f.Add(row[:len(row)-1])
	key := keyOf(tagObject, "p/q", "o", "d")
	f.Fuzz(func(t *testing.T, row []byte) {
		_, _ = decodeBlob(row)
		if v, err := decodeVersion(key, row); err == nil {
			again, err := decodeVersion(key, v.append(nil))
			if err != nil || *again != *v {
				t.Fatalf("%q: %+v, %v", row, again, err)
			}
		}
	})
}
