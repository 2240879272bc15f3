package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"slices"
	"strings"
	"time"
)

// file is a file of an archive.
type file struct {
	name       string
	data       []byte
	executable bool
}

// tarball packs files into a folder of a compressed tar archive. The files are sorted and
// belong to root, and all times are the same, so equal files give equal archives.
func tarball(folder string, files []file, date time.Time) ([]byte, error) {
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	var out bytes.Buffer
	zip, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	archive := tar.NewWriter(zip)
	for _, f := range files {
		h := &tar.Header{Name: folder + "/" + f.name, Size: int64(len(f.data)), Mode: 0o644, ModTime: date, Uname: "root", Gname: "root", Format: tar.FormatUSTAR}
		if f.executable {
			h.Mode = 0o755
		}
		if err := archive.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := archive.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	if err := zip.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
