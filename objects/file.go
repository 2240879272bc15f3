package objects

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"strconv"

	"weir/internal/jsontext"
	"weir/store"
)

// File is a file to be created.
type File struct {
	Project  string
	expected string
	content  []byte
}

// maxFormText bounds a member of a form that is not the file.
const maxFormText = 4 << 10

// DecodeFile reads a form with the members project_id, file and, if the client has it,
// expected_digest. The error is that of DecodeObject.
func DecodeFile(contentType string, body []byte) (*File, error) {
	d := &decoder{}
	loc := []string{"body"}
	kind, params, err := mime.ParseMediaType(contentType)
	if err != nil || kind != "multipart/form-data" || params["boundary"] == "" {
		return nil, refuse(400, "The type of content must be multipart/form-data with a boundary")
	}
	f := &File{}
	seen := map[string]bool{}
	for r := multipart.NewReader(bytes.NewReader(body), params["boundary"]); ; {
		p, err := r.NextRawPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, refuse(400, "The form cannot be read")
		}
		name := p.FormName()
		if seen[name] {
			return nil, refuse(400, "The form has a member twice")
		}
		seen[name] = true
		if name == "file" {
			if f.content, err = io.ReadAll(p); err != nil {
				return nil, refuse(400, "The form cannot be read")
			}
			continue
		}
		text, err := io.ReadAll(io.LimitReader(p, maxFormText+1))
		if err != nil || len(text) > maxFormText {
			return nil, refuse(400, "The form cannot be read")
		}
		switch name {
		case "project_id":
			f.Project = string(text)
		case "expected_digest":
			f.expected = string(text)
		}
	}
	for _, name := range []string{"project_id", "file"} {
		if !seen[name] {
			d.Issue("missing", loc, name)
		}
	}
	if seen["project_id"] && !validProject(f.Project) {
		d.Refuse(400, "Invalid project_id")
	}
	return f, d.End()
}

// CreateFile stores a file and returns the answer.
func (s *Store) CreateFile(ctx context.Context, user string, f *File) ([]byte, error) {
	digest := Digest(f.content)
	if err := expect(f.expected, digest, "file"); err != nil {
		return nil, err
	}
	err := s.update(ctx, user, func(w *writer) error { return w.put(f.Project, keyOf(tagFile, f.Project, digest), f.content) })
	return append(jsontext.AppendString([]byte(`{"digest":`), digest), '}'), err
}

// DecodeFileContent reads the body of a request for a file.
func DecodeFileContent(ctx context.Context, body []byte) (project, digest string, err error) {
	d, m, loc, err := begin(ctx, body, "")
	if err != nil {
		return "", "", err
	}
	project, digest = d.project(m, loc), d.text(m, "digest", true, loc)
	return project, digest, d.End()
}

// File returns the content of a file.
func (s *Store) File(project, digest string) (content []byte, err error) {
	err = s.db.View(func(r *store.Reader) error {
		b, err := read(r, keyOf(tagFile, project, digest))
		if err != nil {
			return &Damaged{"file " + digest, err}
		}
		if b == nil {
			return refuse(404, "File "+clip(digest)+" not found")
		}
		content = b.data
		return nil
	})
	return content, err
}

// DecodeFileStats reads the body of a request for the size of all files.
func DecodeFileStats(ctx context.Context, body []byte) (project string, err error) {
	d, m, loc, err := begin(ctx, body, "")
	if err != nil {
		return "", err
	}
	return d.project(m, loc), d.End()
}

// FileStats answers a request for the size of all files.
func (s *Store) FileStats(project string) (answer []byte, err error) {
	n := 0
	err = s.db.View(func(r *store.Reader) error {
		return r.Scan(store.Range{Prefix: keyOf(tagFile, project)}, func(_, row []byte) bool {
			if b, err := decodeBlob(row); err == nil {
				n += len(b.data)
			}
			return true
		})
	})
	return append(strconv.AppendInt([]byte(`{"total_size_bytes":`), int64(n), 10), '}'), err
}
