package hub

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"weir/internal/plainfile"
)

// huggingface_hub may keep a blob once for all repositories (utils/_shared_blobs.py, layout 1):
// blobs/XX/HASH in the folder of the cache, where HASH is one of Xet and XX its first two digits. The
// blob of a repository is then a link to it, and blobs/XX/HASH.refs lists these links, one a line.
// weir reads such blobs as all others. When it deletes one, it deletes the link, and the shared
// blob if no other link is left.

const (
	sharedMarker  = ".huggingface-shared-blobs"
	sharedVersion = "1\n"
)

// sharedRef is a line of the list of links.
var sharedRef = regexp.MustCompile(`^(?:models|datasets|spaces|kernels)--[^/]+/blobs/[^/]+$`)

// sharedBlob returns what a blob is a link to, if that is a shared blob; "" otherwise.
func sharedBlob(cache, blob string) string {
	to, err := os.Readlink(blob)
	if err != nil {
		return ""
	}
	if !filepath.IsAbs(to) {
		to = filepath.Join(filepath.Dir(blob), to)
	}
	to = filepath.Clean(to)
	store := filepath.Join(cache, "blobs")
	name := filepath.Base(to)
	if !hexSHA256.MatchString(name) || to != filepath.Join(store, name[:2], name) {
		return ""
	}
	if text, err := readSmall(filepath.Join(store, sharedMarker)); err != nil || string(text) != sharedVersion {
		return ""
	}
	return to
}

// manifest lists the blobs that are links to a shared one, among those that its list names. It
// returns nil if there is no list.
func manifest(cache, store string) []string {
	text, err := plainfile.Read(store + ".refs")
	if err != nil {
		return nil
	}
	links := []string{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		link := filepath.Join(cache, filepath.FromSlash(line))
		if sharedRef.MatchString(line) && !strings.Contains(line, "..") && sharedBlob(cache, link) == store && !slices.Contains(links, link) {
			links = append(links, link)
		}
	}
	return links
}

// sweep deletes a shared blob if no link to it is left, and writes its list anew otherwise. One
// without a list stays, because nobody knows who uses it.
func sweep(cache, store string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for {
		unlock, err := tryLock(store + ".lock")
		if err != nil {
			return nil // it stays; huggingface_hub can delete it
		}
		if unlock != nil {
			defer unlock()
			break
		}
		if sleep(ctx, pollLock) != nil {
			return nil
		}
	}
	links := manifest(cache, store)
	switch {
	case links == nil:
		return nil
	case len(links) == 0:
		return errors.Join(os.Remove(store), os.Remove(store+".refs"))
	}
	var b strings.Builder
	slices.Sort(links)
	for _, link := range links {
		name, err := filepath.Rel(cache, link)
		if err != nil {
			return err
		}
		fmt.Fprintln(&b, filepath.ToSlash(name))
	}
	return writeAside(store+".refs", []byte(b.String()))
}
