package ui

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"path"
	"strings"
	"sync"
)

//go:embed files
var files embed.FS

// Prefix is what the paths of all files of the page but the first begin with. They are relative in
// the page, so that it works wherever it is.
const Prefix = "/ui/"

// Policy is the Content-Security-Policy of the page. Nothing inline, nothing of another server, in no
// frame, and HTML in strings only from DOMPurify.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; font-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types dompurify"

// types are the media types of the files by their extensions.
var types = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".mjs":  "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
	"":      "text/plain; charset=utf-8", // licenses
}

// File is a file of the page. It is not to be changed.
type File struct {
	Type string // of its content
	Tag  string // the entity tag of its content, in quotation marks
	Raw  []byte
	Gzip []byte // the same, compressed; nil if that is no shorter
}

// all has the files by their paths below files/, each made when it is first asked for. The map itself
// is made at the first request, so that a start pays nothing for the page.
var all = sync.OnceValue(func() map[string]func() *File {
	found := map[string]func() *File{}
	// The files are in the binary, and every extension is in types: a test asks for all.
	_ = fs.WalkDir(files, "files", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			found[strings.TrimPrefix(name, "files/")] = sync.OnceValue(func() *File { return load(name) })
		}
		return err
	})
	return found
})

// Page returns the page itself.
func Page() *File { return all()["index.html"]() }

// Find returns the file at a path below Prefix; nil if there is none.
func Find(at string) *File {
	name, ok := strings.CutPrefix(at, Prefix)
	if !ok || name == "index.html" { // it is not below Prefix, its paths would be wrong
		return nil
	}
	if file, ok := all()[name]; ok {
		return file()
	}
	return nil
}

// load reads a file and compresses it.
func load(name string) *File {
	raw, err := files.ReadFile(name)
	if err != nil {
		panic(err) // it was found in the same file system
	}
	sum := sha256.Sum256(raw)
	f := &File{Type: types[path.Ext(name)], Tag: `"` + hex.EncodeToString(sum[:12]) + `"`, Raw: raw}
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // which is a level
	_, _ = w.Write(raw)                                   // to memory
	_ = w.Close()
	if b.Len() < len(raw) {
		f.Gzip = b.Bytes()
	}
	return f
}
