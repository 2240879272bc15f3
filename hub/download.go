package hub

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// leastPart and mostPart bound how much of a file one request asks for. A part that is cut off
	// is asked for again from where it was cut, so the size only decides how often the hub is
	// asked.
	leastPart, mostPart = 8 << 20, 64 << 20
	// bufferSize is how much is written at once.
	bufferSize = 1 << 20
)

// A download is the work on one blob.
type download struct {
	h       *Hub
	repo    string
	commit  string
	name    string // of the file
	listed  *remoteFile
	meta    metadata
	a       *assembly
	arrived func(n int64) // is told of bytes of the file; negative: they were not used
	outline bool          // only some spans of the file are wanted

	mu      sync.Mutex
	address *url.URL // where the file is; asked for again when it has expired
	edition int      // counts the addresses
	whole   atomic.Bool
	renewed atomic.Bool // there is an address that nobody has tried
}

// metadata is what a hub says of a file.
type metadata struct {
	etag     string
	size     int64
	location *url.URL
}

// resolve asks the hub where a file is, and what its etag and its size are.
func (h *Hub) resolve(ctx context.Context, repo, commit, name string, listed *remoteFile) (m metadata, err error) {
	at := h.address(escapePath(repo), "resolve", commit, escapePath(name))
	resp, err := h.do(ctx, request{method: http.MethodHead, url: at, repo: repo, what: name, stay: true, timeout: h.config.InfoTimeout})
	if err != nil {
		return m, err
	}
	resp.Body.Close()
	wrong := func(format string, args ...any) (metadata, error) {
		return metadata{}, fail(ErrAnswer, "the hub's answer for %s of %s: %s", name, repo, fmt.Sprintf(format, args...))
	}
	if said := resp.Header.Get("X-Repo-Commit"); said != "" && said != commit {
		return wrong("it is of the commit %q, and %s was asked for", clip(said), commit)
	}
	m.etag = normalEtag(resp.Header.Get("X-Linked-Etag"))
	if m.etag == "" {
		m.etag = normalEtag(resp.Header.Get("ETag"))
	}
	if err := checkEtag(m.etag); err != nil {
		return wrong("%v", err)
	}
	m.location = resp.Request.URL
	next, err := redirect(resp, resp.Request.URL)
	if err != nil {
		return wrong("it %v", err)
	}
	size := resp.Header.Get("X-Linked-Size")
	if next != nil {
		m.location = next
	} else if size == "" {
		size = resp.Header.Get("Content-Length")
	}
	m.size = listed.Size
	if size != "" {
		if m.size = number(size); m.size != listed.Size {
			return wrong("it has %s bytes, and the list of files says %d", clip(size), listed.Size)
		}
	}
	if listed.SHA256 != "" && hexSHA256.MatchString(m.etag) && m.etag != listed.SHA256 {
		return wrong("its SHA-256 is %s, and the list of files says %s", m.etag, listed.SHA256)
	}
	return m, nil
}

// randomHex is a part of the name of a file that only this process writes.
func randomHex() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}

// unfinished are the names of the file that a blob is put together in, and of its journal.
func (r repository) unfinished(etag, mark string) (file, journal string) {
	return r.blob(etag + "." + mark + ".incomplete"), r.blob(etag + "." + mark + ".parts.incomplete")
}

// mark is in the names of unfinished files that a later process may go on with.
const mark = "weir"

// fetchBlob downloads a blob. The caller holds its lock, if the file system has locks.
func (d *download) fetchBlob(ctx context.Context, locks bool) (err error) {
	r := d.h.repository(d.repo)
	if err := os.MkdirAll(filepath.Dir(r.blob(d.meta.etag)), 0o777); err != nil {
		return err
	}
	name := mark
	if !locks {
		name = randomHex()
	}
	path, journal := r.unfinished(d.meta.etag, name)
	if locks {
		d.takeOver(r, path, journal)
	}
	if d.a, err = openAssembly(path, journal, d.meta.size); err != nil {
		return err
	}
	defer func() {
		_ = d.a.close()
		if err == nil || !locks || errors.Is(err, ErrChecksum) {
			_ = os.Remove(journal)
			_ = os.Remove(path) // after success it has another name
		}
	}()
	if have := d.meta.size - d.a.missing(); have > 0 {
		d.h.config.Log.Info("going on with a download that was interrupted", "file", d.name, "bytes", have, "of", d.meta.size)
		d.arrived(have)
	}
	for second := false; ; second = true {
		good, err := d.assemble(ctx)
		switch {
		case err != nil:
			return err
		case good:
			if err := d.a.file.Sync(); err != nil {
				return err
			}
			return os.Rename(path, r.blob(d.meta.etag))
		case second:
			return fail(ErrChecksum, "%s of %s is damaged: the hub says that its hash is %s, and two downloads have another one", d.name, d.repo, digestOf(d.meta.etag, d.listed).hex)
		}
		d.h.config.Log.Warn("a downloaded file has another hash than the hub says; it is downloaded again", "file", d.name)
		if err := d.a.reset(); err != nil {
			return err
		}
		d.arrived(-d.meta.size)
	}
}

// takeOver makes what an old version of huggingface_hub has left of the file the first part of
// ours. Those versions wrote it from the front and held the lock that we hold.
func (d *download) takeOver(r repository, path, journal string) {
	old := r.blob(d.meta.etag + ".incomplete")
	info, err := os.Lstat(old)
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 || info.Size() > d.meta.size {
		return
	}
	if _, err := os.Lstat(path); err == nil {
		return
	}
	if os.Rename(old, path) == nil {
		_ = os.WriteFile(journal, fmt.Appendf(nil, "%s0 %d\n", journalHead(d.meta.size), info.Size()), 0o666)
	}
}

// assemble fetches what is missing and tells whether the hash is right.
func (d *download) assemble(ctx context.Context) (good bool, err error) {
	want := digestOf(d.meta.etag, d.listed)
	sum := want.start(d.meta.size)
	hashed := make(chan error, 1)
	go func() { hashed <- d.a.follow(sum) }()
	err = d.fetchParts(ctx)
	d.a.end()
	failed := <-hashed
	switch {
	case err != nil:
		return false, err
	case failed != nil:
		return false, failed
	}
	return want.matches(sum), nil
}

// fetchParts fetches what is missing over several connections. A connection that gives nothing
// for some tries is given up while others go on: some hubs allow only a few.
func (d *download) fetchParts(ctx context.Context) error {
	connections := 1
	if n := d.a.missing() / d.h.leastPart; n > 1 {
		connections = int(min(n, int64(d.h.config.Connections)))
	}
	if d.outline {
		connections = min(d.a.missingParts(), d.h.config.Connections)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var workers sync.WaitGroup
	var mu sync.Mutex
	var failure error // of the connection that was given up last
	for range connections {
		workers.Go(func() {
			final, err := d.work(ctx)
			if err == nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if failure = err; final {
				cancel(err)
			}
		})
	}
	workers.Wait()
	if d.a.missing() == 0 {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return failure
}

// work fetches parts until there are none, or until it has to give up. final is true for an error
// after which no other connection need go on.
func (d *download) work(ctx context.Context) (final bool, err error) {
	part := min(max(d.meta.size/int64(d.h.config.Connections), d.h.leastPart), d.h.mostPart)
	var l *lease
	defer func() { l.release() }()
	for failures := 0; ; {
		if l == nil || l.at == l.part.to {
			l.release()
			if l = d.a.claim(part); l == nil {
				return false, nil
			}
		}
		n, wait, err := d.fetch(ctx, l)
		if n > 0 {
			failures = 0
		}
		switch {
		case errors.Is(err, errOthersFetch):
			return false, nil
		case ctx.Err() != nil:
			return true, context.Cause(ctx)
		case err == nil:
			continue
		}
		failures++
		if final, err = d.giveUp(err, wait, failures); err != nil {
			return final, err
		}
		if err := d.pause(ctx, wait, failures); err != nil {
			return true, err
		}
	}
}

// giveUp returns an error if it is not worth while to try again after a number of failures.
func (d *download) giveUp(err error, wait time.Duration, failures int) (final bool, _ error) {
	switch {
	case !errors.Is(err, ErrUnreachable) && !errors.Is(err, ErrBusy) && !errors.Is(err, errExpired):
		return true, err
	case failures >= maxTries:
		return false, err
	case wait > maxRetryAfter:
		return false, fail(ErrBusy, "%v, and asks to be left alone for %v; start again later", err, wait)
	}
	d.h.config.Log.Debug("a download is interrupted", "file", d.name, "error", err)
	return false, nil
}

// pause waits before the next try. With a new address it is made at once.
func (d *download) pause(ctx context.Context, wait time.Duration, failures int) error {
	if d.renewed.Swap(false) && failures == 1 {
		return nil
	}
	return sleep(ctx, max(wait, backoff(failures)))
}

// errOthersFetch ends the work of a connection to a server that ignores ranges, where one is
// enough.
var errOthersFetch = errors.New("another connection gets the whole file")

// fetch asks for the rest of a leased part and writes what comes. n is how much that is.
func (d *download) fetch(ctx context.Context, l *lease) (n int64, wait time.Duration, err error) {
	at, edition := d.where()
	r := request{method: http.MethodGet, url: at, repo: d.repo, what: d.name, timeout: d.h.config.StallTimeout,
		ranged: l.at > 0 || l.part.to < d.meta.size, from: l.at, to: l.part.to}
	resp, wait, err := d.h.exchange(ctx, r)
	if errors.Is(err, errExpired) {
		return 0, 0, d.renew(ctx, edition, err)
	}
	if err != nil {
		return 0, wait, err
	}
	defer resp.Body.Close()
	if encoding := resp.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return 0, 0, fail(ErrAnswer, "%s sends %s with the encoding %s, which was not asked for", resp.Request.URL.Host, d.name, clip(encoding))
	}
	if resp.StatusCode == http.StatusOK && r.ranged && d.outline {
		return 0, 0, d.noRanges(resp)
	}
	if resp.StatusCode != http.StatusPartialContent {
		return d.takeWhole(ctx, resp, l)
	}
	if err := checkRange(resp.Header.Get("Content-Range"), l.at, l.part.to, d.meta.size); err != nil {
		return 0, 0, fail(ErrAnswer, "%s sends a wrong part of %s: %v", resp.Request.URL.Host, d.name, err)
	}
	n, err = d.copy(ctx, resp, l.part.to-l.at, func(_ int64, p []byte) (int, error) { return len(p), l.write(p) })
	return n, 0, err
}

// takeWhole takes the whole file: it was asked for, or the server ignores ranges. One connection
// does it.
func (d *download) takeWhole(ctx context.Context, resp *http.Response, l *lease) (int64, time.Duration, error) {
	if resp.StatusCode != http.StatusOK {
		return 0, 0, fail(ErrAnswer, "%s answers %s for %s", resp.Request.URL.Host, answer(resp), d.name)
	}
	if resp.ContentLength >= 0 && resp.ContentLength != d.meta.size {
		return 0, 0, fail(ErrAnswer, "%s sends %d bytes of %s, which has %d", resp.Request.URL.Host, resp.ContentLength, d.name, d.meta.size)
	}
	if !d.whole.CompareAndSwap(false, true) {
		return 0, 0, errOthersFetch
	}
	defer d.whole.Store(false)
	l.release()
	l.part = span{l.part.to, l.part.to} // fill writes it; the rest is claimed anew
	l.at = l.part.to
	n, err := d.copy(ctx, resp, d.meta.size, d.a.fill)
	return n, 0, err
}

// copy reads so many bytes of a body and hands them on in pieces, with their offset in the body. n
// is how many of them were used.
func (d *download) copy(ctx context.Context, resp *http.Response, size int64, use func(at int64, p []byte) (int, error)) (n int64, err error) {
	buf := make([]byte, min(d.h.buffer, size))
	for at := int64(0); at < size; {
		got, failed := d.readPiece(resp.Body, buf[:min(int64(len(buf)), size-at)])
		used, err := use(at, buf[:got])
		n, at = n+int64(used), at+int64(got)
		if used < got {
			d.arrived(int64(used - got))
		}
		switch {
		case err != nil:
			return n, err
		case ctx.Err() != nil:
			return n, context.Cause(ctx)
		case at < size && failed != nil:
			if failed == io.EOF {
				failed = io.ErrUnexpectedEOF
			}
			return n, fail(ErrUnreachable, "%s was cut off after %d of %d bytes: %v", d.name, at, size, withoutQuery(failed))
		}
	}
	return n, nil
}

// readPiece fills a buffer, as far as the body goes, and tells of each of its bytes as it comes.
func (d *download) readPiece(body io.Reader, buf []byte) (got int, err error) {
	for got < len(buf) && err == nil {
		var n int
		n, err = body.Read(buf[got:])
		got += n
		d.arrived(int64(n))
	}
	return got, err
}

// checkRange returns an error unless Content-Range says that these bytes come.
func checkRange(header string, from, to, size int64) error {
	want := fmt.Sprintf("bytes %d-%d/", from, to-1)
	of, ok := strings.CutPrefix(strings.TrimSpace(header), want)
	if !ok || of != "*" && of != strconv.FormatInt(size, 10) {
		return fmt.Errorf("Content-Range is %q instead of %s%d", clip(header), want, size)
	}
	return nil
}

// where is the address of the file.
func (d *download) where() (*url.URL, int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.address, d.edition
}

// renew asks for another address if the one of this edition is still in use. It returns the error
// for the old one, unless there is another.
func (d *download) renew(ctx context.Context, edition int, old error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.edition != edition {
		return old
	}
	m, err := d.h.resolve(ctx, d.repo, d.commit, d.name, d.listed)
	if err != nil {
		return err
	}
	if m.etag != d.meta.etag {
		return fail(ErrAnswer, "the hub has changed %s of %s while it was downloaded", d.name, d.repo)
	}
	d.address, d.edition = m.location, d.edition+1
	d.renewed.Store(true)
	return old
}
