package hub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"weir/internal/jsontext"
)

// Bounds of what a hub may answer.
const (
	maxAnswer     = 32 << 20 // bytes of JSON in one answer
	maxRedirects  = 10
	maxTries      = 5               // that bring nothing, one after the other
	firstTries    = 3               // of the first question: what cannot be reached at all may be a path that is mistyped
	maxRetryAfter = 5 * time.Minute // that is waited for
)

// A Hub is a model hub and the cache in front of it. It may be used by several goroutines.
type Hub struct {
	config    Config
	endpoint  *url.URL
	transport http.RoundTripper // redirects are followed by exchange, which knows where the token may go

	leastPart, mostPart, buffer int64 // the constants of these names, and less in tests
}

// New returns the hub of a configuration. Nothing is sent.
func New(c Config) (*Hub, error) {
	endpoint, err := c.check()
	if err != nil {
		return nil, err
	}
	transport := c.Transport
	if transport == nil {
		transport = network(c.InfoTimeout)
	}
	return &Hub{config: c, endpoint: endpoint, transport: transport, leastPart: leastPart, mostPart: mostPart, buffer: bufferSize}, nil
}

// Close closes the connections that wait for the next request.
func (h *Hub) Close() {
	if t, ok := h.transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// network returns the system's network. HTTP/2 is left out: it would put all parts of a file on
// one connection.
func network(timeout time.Duration) http.RoundTripper {
	t, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport
	}
	t = t.Clone()
	t.DialContext = (&net.Dialer{Timeout: timeout, KeepAlive: 30 * time.Second}).DialContext
	t.TLSHandshakeTimeout = timeout
	t.ForceAttemptHTTP2 = false
	t.Protocols = new(http.Protocols)
	t.Protocols.SetHTTP1(true)
	t.DisableCompression = true // lengths are those of the files
	t.MaxResponseHeaderBytes = 1 << 20
	t.MaxIdleConnsPerHost = maxConnections
	return t
}

// A request is what is asked of a hub.
type request struct {
	method  string
	url     *url.URL
	from    int64 // first byte
	to      int64 // the byte after the last; 0: all
	ranged  bool  // only these bytes
	repo    string
	what    string // in words, for errors
	tries   int    // 0: maxTries
	stay    bool   // stop at a redirect that describes a file, or that leads to another host
	timeout time.Duration
}

// address returns an address below the endpoint. Its parts are escaped.
func (h *Hub) address(parts ...string) *url.URL {
	u := *h.endpoint
	u.RawPath = ""
	escaped, plain := strings.TrimRight(u.EscapedPath(), "/"), strings.TrimRight(u.Path, "/")
	for _, part := range parts {
		escaped, plain = escaped+"/"+part, plain+"/"+unescape(part)
	}
	u.Path, u.RawPath = plain, escaped
	return &u
}

func unescape(part string) string {
	plain, err := url.PathUnescape(part)
	if err != nil {
		return part
	}
	return plain
}

// escapePath escapes the segments of a path.
func escapePath(path string) string {
	segments := strings.Split(path, "/")
	for i, s := range segments {
		segments[i] = url.PathEscape(s)
	}
	return strings.Join(segments, "/")
}

// sameOrigin tells whether the token for one address may be sent to the other.
func sameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && port(a) == port(b)
}

func port(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

// do sends a request until there is an answer that is no temporary failure: 2xx, or with stay a
// redirect. All else is an error. The caller closes the body.
func (h *Hub) do(ctx context.Context, r request) (*http.Response, error) {
	for try := 1; ; try++ {
		resp, wait, err := h.exchange(ctx, r)
		if err == nil || ctx.Err() != nil || !errors.Is(err, ErrUnreachable) && !errors.Is(err, ErrBusy) {
			return resp, err
		}
		if try >= cmp.Or(r.tries, maxTries) {
			return nil, err
		}
		if wait > maxRetryAfter {
			return nil, fail(ErrBusy, "%v, and asks to be left alone for %v; try again later", err, wait.Round(time.Second))
		}
		h.config.Log.Warn("the hub is asked again", "error", err, "in", max(wait, backoff(try)))
		if err := sleep(ctx, max(wait, backoff(try))); err != nil {
			return nil, err
		}
	}
}

// backoff is the time to wait after a number of tries that failed: 1, 2, 4, 8 s.
func backoff(try int) time.Duration { return time.Second << min(try-1, 3) }

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// exchange sends a request once and follows its redirects. wait is how long the hub asks to wait
// before the next try.
func (h *Hub) exchange(ctx context.Context, r request) (resp *http.Response, wait time.Duration, err error) {
	if h.config.Offline {
		return nil, 0, fail(ErrOffline, "%s of %s is not in the cache, and the hub is not asked because HF_HUB_OFFLINE is set", r.what, r.repo)
	}
	at := r.url
	for range maxRedirects {
		resp, err = h.send(ctx, r, at)
		if err != nil {
			return nil, 0, err
		}
		next, err := redirect(resp, at)
		switch {
		case err != nil:
			resp.Body.Close()
			return nil, 0, fail(ErrAnswer, "the hub's answer for %s of %s %v", r.what, r.repo, err)
		case next == nil:
			return h.judge(resp, r, at)
		case r.stay && (resp.Header.Get("X-Linked-Etag") != "" || !sameOrigin(at, next) && resp.Header.Get("X-Repo-Commit") != ""):
			return resp, 0, nil
		}
		resp.Body.Close()
		at = next
	}
	return nil, 0, fail(ErrAnswer, "the hub answers more than %d redirects for %s of %s", maxRedirects, r.what, r.repo)
}

// judge returns an answer that is no redirect, or the error that it is.
func (h *Hub) judge(resp *http.Response, r request, at *url.URL) (*http.Response, time.Duration, error) {
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		return resp, 0, nil
	}
	defer resp.Body.Close()
	if !r.stay && !sameOrigin(at, h.endpoint) && expired(resp.StatusCode) {
		return nil, 0, fail(errExpired, "the address of %s of %s is no longer valid: %s", r.what, r.repo, answer(resp))
	}
	return nil, retryAfter(resp.Header, time.Now()), h.refusal(resp, r.repo, r.what)
}

// errExpired is the reason of an error for a signed address that is not valid any more.
var errExpired = errors.New("the address has expired")

// expired tells whether a store of files answers so for a signed address that it takes for
// expired: CloudFront and S3 answer 403, others 400, 401, 404 or 410.
func expired(status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusGone:
		return true
	}
	return false
}

// send sends a request to an address, with the token if it is the endpoint's.
func (h *Hub) send(ctx context.Context, r request, at *url.URL) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	req, err := http.NewRequestWithContext(ctx, r.method, at.String(), nil)
	if err != nil {
		cancel(nil)
		return nil, err
	}
	req.Header.Set("User-Agent", h.config.UserAgent)
	req.Header.Set("Accept-Encoding", "identity")
	if r.ranged {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", r.from, r.to-1))
	}
	if h.config.Token != "" && sameOrigin(at, h.endpoint) {
		req.Header.Set("Authorization", "Bearer "+h.config.Token)
	}
	watch := newWatchdog(r.timeout, cancel)
	resp, err := h.transport.RoundTrip(req)
	if err != nil {
		watch.stop()
		if cause := context.Cause(ctx); errors.Is(cause, errStalled) {
			err = cause
		}
		cancel(nil)
		return nil, fail(ErrUnreachable, "%s cannot be reached for %s of %s: %v", at.Host, r.what, r.repo, withoutQuery(err))
	}
	watch.stop()
	resp.Body = &watched{resp.Body, watch, ctx, cancel}
	return resp, nil
}

// withoutQuery returns the error of a request without its address, whose query may hold a
// signature.
func withoutQuery(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}

// redirect returns where an answer redirects to, nil if it does not.
func redirect(resp *http.Response, from *url.URL) (*url.URL, error) {
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
	default:
		return nil, nil
	}
	location := resp.Header.Get("Location")
	next, err := from.Parse(location)
	switch {
	case err != nil || location == "" || next.Host == "" || next.User != nil:
		return nil, fmt.Errorf("redirects to %q, which is no address", clip(location))
	case next.Scheme != "https" && next.Scheme != "http":
		return nil, fmt.Errorf("redirects to an address of the kind %q", clip(next.Scheme))
	case next.Scheme == "http" && from.Scheme == "https":
		return nil, fmt.Errorf("redirects from https to http")
	}
	return next, nil
}

// retryAfter is how long an answer asks to wait: Retry-After, in seconds or as a date, or the
// reset time of a rate that is used up (RateLimit: "api";r=0;t=55, of
// draft-ietf-httpapi-ratelimit-headers-09). 0: it does not ask.
func retryAfter(header http.Header, now time.Time) time.Duration {
	value := strings.TrimSpace(header.Get("Retry-After"))
	if n, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, at.Sub(now))
	}
	left, reset := "", ""
	for field := range strings.SplitSeq(header.Get("RateLimit"), ";") {
		switch name, v, _ := strings.Cut(strings.TrimSpace(field), "="); strings.TrimSpace(name) {
		case "r":
			left = strings.TrimSpace(v)
		case "t":
			reset = strings.TrimSpace(v)
		}
	}
	if n, err := strconv.ParseUint(reset, 10, 31); err == nil && left == "0" {
		return time.Duration(n)*time.Second + time.Second // the hub rounds down
	}
	return 0
}

// getJSON asks for a JSON text and decodes it. It returns the headers of the answer.
func (h *Hub) getJSON(ctx context.Context, r request, into any) (http.Header, error) {
	r.method = http.MethodGet
	resp, err := h.do(ctx, r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, fail(ErrUnreachable, "the hub's answer for %s of %s was cut off: %v", r.what, r.repo, err)
	case len(text) > maxAnswer:
		return nil, fail(ErrAnswer, "the hub's answer for %s of %s has more than %d bytes", r.what, r.repo, maxAnswer)
	}
	if err := jsontext.Decode(text, into); err != nil {
		return nil, fail(ErrAnswer, "the hub's answer for %s of %s is not what a hub answers (is HF_ENDPOINT a hub?): %v", r.what, r.repo, err)
	}
	return resp.Header, nil
}

// errStalled is why a request is cancelled for which nothing comes.
var errStalled = errors.New("nothing came for too long")

// watchdog cancels a request for which nothing comes for a time.
type watchdog struct {
	timer   *time.Timer
	timeout time.Duration
}

func newWatchdog(timeout time.Duration, cancel context.CancelCauseFunc) *watchdog {
	return &watchdog{time.AfterFunc(timeout, func() { cancel(fmt.Errorf("%w (%v)", errStalled, timeout)) }), timeout}
}

func (w *watchdog) start() { w.timer.Reset(w.timeout) }
func (w *watchdog) stop()  { w.timer.Stop() }

// watched is the body of an answer that a watchdog looks after.
type watched struct {
	io.ReadCloser
	watch  *watchdog
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// Read reads under the watch. Between two calls nobody waits for the network, so a slow disk is
// not taken for it.
func (b *watched) Read(p []byte) (int, error) {
	b.watch.start()
	n, err := b.ReadCloser.Read(p)
	b.watch.stop()
	if err != nil && err != io.EOF {
		if cause := context.Cause(b.ctx); errors.Is(cause, errStalled) {
			err = cause
		}
	}
	return n, err
}

func (b *watched) Close() error {
	b.watch.stop()
	err := b.ReadCloser.Close()
	b.cancel(nil)
	return err
}
