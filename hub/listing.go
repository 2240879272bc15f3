package hub

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"

	"weir/internal/jsontext"
	"weir/internal/plainfile"
)

// maxFiles is how many files a repository may have, and with it how many pages a listing.
const maxFiles = 100_000

// A remoteFile is a file of a repository as the hub lists it.
type remoteFile struct {
	Name   string
	Size   int64
	Blob   string // SHA-1 of git's object, in hexadecimal digits
	SHA256 string // of a file in large file storage; ""
}

// etag is what the hub's etag of the file should be.
func (f *remoteFile) etag() string {
	if f.SHA256 != "" {
		return f.SHA256
	}
	return f.Blob
}

// commitOf asks the hub what commit a revision is. tries is how often, 0: as often as for all
// else.
func (h *Hub) commitOf(ctx context.Context, repo, revision string, tries int) (string, error) {
	var info struct {
		SHA string `json:"sha"`
	}
	_, err := h.getJSON(ctx, request{url: h.address("api", "models", escapePath(repo), "revision", url.PathEscape(revision)),
		repo: repo, what: "revision " + revision, tries: tries, timeout: h.config.InfoTimeout}, &info)
	if err != nil {
		return "", err
	}
	if !commitHash.MatchString(info.SHA) {
		return "", fail(ErrAnswer, "the hub says that revision %s of %s is the commit %q, which is none", revision, repo, clip(info.SHA))
	}
	return info.SHA, nil
}

// listFiles lists the files of a commit: from the cache, where huggingface_hub keeps such lists,
// or from the hub. Files whose names no path can be made of are an error.
func (h *Hub) listFiles(ctx context.Context, repo, commit string, tries int) (map[string]remoteFile, error) {
	if files := h.repository(repo).tree(commit); files != nil {
		return files, nil
	}
	files := map[string]remoteFile{}
	next := h.address("api", "models", escapePath(repo), "tree", commit)
	next.RawQuery = "recursive=true&expand=false"
	for next != nil {
		var page []struct {
			Type string `json:"type"`
			Path string `json:"path"`
			Size int64  `json:"size"`
			OID  string `json:"oid"`
			LFS  *struct {
				OID  string `json:"oid"`
				Size int64  `json:"size"`
			} `json:"lfs"`
		}
		header, err := h.getJSON(ctx, request{url: next, repo: repo, what: "list of files", tries: tries, timeout: h.config.InfoTimeout}, &page)
		if err != nil {
			return nil, err
		}
		before := len(files)
		for _, entry := range page {
			if entry.Type != "file" {
				continue
			}
			f := remoteFile{Name: entry.Path, Size: entry.Size, Blob: entry.OID}
			if entry.LFS != nil {
				f.Size, f.SHA256 = entry.LFS.Size, entry.LFS.OID
			}
			if err := f.check(); err != nil {
				return nil, fail(ErrAnswer, "the hub's list of the files of %s: %v", repo, err)
			}
			files[f.Name] = f
		}
		if len(files) > maxFiles {
			return nil, fail(ErrAnswer, "the hub lists more than %d files of %s", maxFiles, repo)
		}
		if next, err = h.nextPage(header, next); err != nil {
			return nil, fail(ErrAnswer, "the hub's list of the files of %s: %v", repo, err)
		}
		if next != nil && len(files) == before {
			return nil, fail(ErrAnswer, "the hub's list of the files of %s goes on without more files", repo)
		}
	}
	return files, nil
}

// check refuses what cannot be the name, the size or the hash of a file.
func (f *remoteFile) check() error {
	if err := checkName(f.Name); err != nil {
		return fmt.Errorf("the name of a file %w", err)
	}
	if f.Size < 0 || f.Size > 1<<50 {
		return fmt.Errorf("%s has the size %d", clip(f.Name), f.Size)
	}
	if f.SHA256 != "" && !hexSHA256.MatchString(f.SHA256) {
		return fmt.Errorf("%s has the SHA-256 %q, which is none", clip(f.Name), clip(f.SHA256))
	}
	return nil
}

// nextPage returns the address of the next page of a list (RFC 8288, Link: <…>; rel="next"), nil
// if there is none. It has to be the hub's.
func (h *Hub) nextPage(header http.Header, from *url.URL) (*url.URL, error) {
	for link := range strings.SplitSeq(strings.Join(header.Values("Link"), ","), ",") {
		target, parameters, _ := strings.Cut(strings.TrimSpace(link), ">")
		target, ok := strings.CutPrefix(target, "<")
		if !ok || !strings.Contains(strings.ReplaceAll(parameters, `"`, ""), "rel=next") {
			continue
		}
		next, err := from.Parse(target)
		if err != nil {
			return nil, fmt.Errorf("the address of the next page is none")
		}
		// A mirror may pass on the address that the original hub has given.
		if !sameOrigin(next, h.endpoint) {
			next.Scheme, next.Host = h.endpoint.Scheme, h.endpoint.Host
		}
		return next, nil
	}
	return nil, nil
}

// tree reads the list of a commit's files that huggingface_hub keeps (_tree_cache.py, format 1);
// nil if there is none that can be used.
func (r repository) tree(commit string) map[string]remoteFile {
	text, err := plainfile.Read(filepath.Join(r.dir(), "trees", commit+".json"))
	if err != nil {
		return nil
	}
	var tree struct {
		Version int `json:"format_version"`
		Files   map[string]struct {
			Size    int64  `json:"size"`
			Blob    string `json:"blob_id"`
			SHA256  string `json:"lfs_sha256"`
			LFSSize int64  `json:"lfs_size"`
		} `json:"files"`
	}
	if jsontext.Decode(text, &tree) != nil || tree.Version != 1 || len(tree.Files) == 0 || len(tree.Files) > maxFiles {
		return nil
	}
	files := map[string]remoteFile{}
	for name, entry := range tree.Files {
		f := remoteFile{Name: name, Size: entry.Size, Blob: entry.Blob, SHA256: entry.SHA256}
		if f.SHA256 != "" {
			f.Size = entry.LFSSize
		}
		if f.check() != nil {
			return nil
		}
		files[name] = f
	}
	return files
}
