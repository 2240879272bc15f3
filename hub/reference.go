package hub

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// Scheme is what the name of a model on the hub may begin with, so that it cannot be taken for a
// path.
const Scheme = "hf://"

// MainRevision is the branch that is meant where no revision is given.
const MainRevision = "main"

// A Reference names a model on the hub.
type Reference struct {
	Repo     string // org/name; a few old repositories have a name alone
	Revision string // branch, tag or commit; "": main
	Variant  string // which of several GGUF files: a type such as Q4_K_M, or the name of a file
}

// repoName is what the hub takes for the name of a repository (huggingface_hub,
// utils/_validators.py): letters, digits, -, _ and ., not at the ends, no -- and no ...
var repoName = regexp.MustCompile(`^(?:[A-Za-z0-9_][\w.-]{0,95}/)?[A-Za-z0-9_][\w.-]{0,95}$`)

// specialRevision is a revision with slashes that may stand before a path in hf://.
var specialRevision = regexp.MustCompile(`^refs/(?:convert/[\w.-]+|pr/\d+)`)

// Looks tells whether a text that is no path may name a model on the hub: it begins with
// hf://, or it is org/name with what may follow.
func Looks(text string) bool {
	if strings.HasPrefix(text, Scheme) {
		return true
	}
	repo := text
	if i := strings.IndexAny(text, "@:"); i >= 0 {
		repo = text[:i]
	}
	return strings.Count(repo, "/") == 1 && checkRepo(repo) == nil && !isGGUF(repo)
}

// Parse reads [hf://]org/name[@revision][:QUANT]. After hf:// a path to a GGUF file may follow, as
// in the addresses of huggingface_hub: hf://org/name@revision/folder/file.gguf.
func Parse(text string) (r Reference, err error) {
	rest, address := strings.CutPrefix(text, Scheme)
	fail := func(why string) (Reference, error) {
		return Reference{}, fmt.Errorf("%q is not the name of a model on the hub, org/name[@revision][:QUANT]: %s", clip(text), why)
	}
	if address {
		if rest, r.Variant, err = cutPath(strings.TrimPrefix(rest, "models/")); err != nil {
			return fail(err.Error())
		}
	}
	if repo, variant, ok := cutLast(rest, ":"); ok {
		if r.Variant != "" || variant == "" {
			return fail("what follows the colon has to be the one name of a type or a file")
		}
		rest, r.Variant = repo, variant
	}
	var named bool
	if r.Repo, r.Revision, named = strings.Cut(rest, "@"); named && r.Revision == "" {
		return fail("there is no revision after the @")
	}
	if err := checkRepo(r.Repo); err != nil {
		return fail(err.Error())
	}
	if address {
		if r.Revision, err = url.PathUnescape(r.Revision); err != nil {
			return fail("the revision has a wrong escape")
		}
	}
	if r.Revision != "" {
		if err := checkName(r.Revision); err != nil {
			return fail("the revision " + err.Error())
		}
	}
	if r.Variant != "" {
		if err := checkName(r.Variant); err != nil {
			return fail("what follows the colon " + err.Error())
		}
	}
	return r, nil
}

// cutPath separates org/name[@revision] from a path that follows it.
func cutPath(text string) (name, path string, err error) {
	org, rest, found := strings.Cut(text, "/")
	if !found {
		return text, "", nil
	}
	repo, path, _ := strings.Cut(rest, "/")
	if at := strings.IndexByte(rest, '@'); at >= 0 && at < len(repo) {
		if special := specialRevision.FindString(rest[at+1:]); special != "" {
			repo = rest[:at+1] + special
			path = strings.TrimPrefix(rest[len(repo):], "/")
		}
	}
	if path != "" && !isGGUF(path) {
		return "", "", fmt.Errorf("the path has to be that of a .gguf file")
	}
	return org + "/" + repo, path, nil
}

// cutLast is strings.Cut at the last separator.
func cutLast(text, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(text, sep); i >= 0 {
		return text[:i], text[i+len(sep):], true
	}
	return text, "", false
}

func checkRepo(repo string) error {
	switch {
	case !repoName.MatchString(repo), strings.HasSuffix(repo, "."), strings.HasSuffix(repo, "-"), strings.Contains(repo, "./"), strings.Contains(repo, "-/"):
		return fmt.Errorf("a repository has a name of letters, digits, -, _ and ., which -, . do not begin or end")
	case strings.Contains(repo, "--"), strings.Contains(repo, ".."), strings.HasSuffix(repo, ".git"):
		return fmt.Errorf("the name of a repository has no -- or .. in it and does not end in .git")
	}
	return nil
}

// revision is what the reference means, never "".
func (r Reference) revision() string {
	if r.Revision == "" {
		return MainRevision
	}
	return r.Revision
}

// String writes the reference as Parse reads it.
func (r Reference) String() string {
	s := r.Repo
	if r.Revision != "" {
		s += "@" + r.Revision
	}
	if r.Variant != "" {
		s += ":" + r.Variant
	}
	return s
}

// Bounds of a name that becomes a path: those that Linux has for a name and, with room for the
// folder in front of it, for a path.
const (
	maxSegment = 255
	maxPath    = 1024
)

// checkName returns an error for a text that cannot be a path below a folder. It reads the
// text under the rules of Unix and of Windows, as huggingface_hub does (_local_folder.py),
// because caches are moved from one to the other.
func checkName(name string) error {
	if name == "" || len(name) > maxPath {
		return fmt.Errorf("has %d bytes; 1 to %d are possible", len(name), maxPath)
	}
	if strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\\' || r == 0xfffd }) {
		return fmt.Errorf("%q has a backslash, or a character that is no text", clip(name))
	}
	for segment := range strings.SplitSeq(name, "/") {
		switch {
		case segment == "", segment == ".", segment == "..":
			return fmt.Errorf("%q leads out of its folder", clip(name))
		case len(segment) > maxSegment:
			return fmt.Errorf("%q has a part of %d bytes, more than %d", clip(name), len(segment), maxSegment)
		case len(segment) > 1 && segment[1] == ':':
			return fmt.Errorf("%q names a drive", clip(name))
		}
	}
	return nil
}

var (
	commitHash = regexp.MustCompile(`^[0-9a-f]{40}$`)
	hexSHA256  = regexp.MustCompile(`^[0-9a-f]{64}$`)
	// etagName is what an etag has to be to become the name of a file: those of the hub are
	// hashes in hexadecimal digits; those of other servers may be something else.
	etagName = regexp.MustCompile(`^[0-9A-Za-z_-][0-9A-Za-z._-]{0,127}$`)
)

// normalEtag takes the quotes and the mark of a weak etag off.
func normalEtag(header string) string {
	return strings.Trim(strings.TrimPrefix(strings.TrimSpace(header), "W/"), `"`)
}

// checkEtag returns an error for an etag that cannot be the name of a blob.
func checkEtag(etag string) error {
	if !etagName.MatchString(etag) || strings.HasSuffix(etag, ".incomplete") || strings.HasSuffix(etag, ".lock") {
		return fmt.Errorf("the etag %q cannot be the name of a file", clip(etag))
	}
	return nil
}

// clip shortens what somebody else has written, for a message, and leaves out what would move
// the cursor of a terminal.
func clip(text string) string {
	const most = 200
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return strings.TrimSpace(text)
}
