package hub

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// Reasons why a hub gives no answer, or none that can be used.
var (
	ErrOffline      = errors.New("the hub is not asked")
	ErrUnreachable  = errors.New("the hub cannot be reached")
	ErrNoRepository = errors.New("there is no such repository, or none that may be read")
	ErrNoRevision   = errors.New("there is no such revision")
	ErrNoFile       = errors.New("there is no such file")
	ErrGated        = errors.New("the repository is gated")
	ErrRefused      = errors.New("the hub refuses the request")
	ErrBusy         = errors.New("the hub cannot answer now")
	ErrAnswer       = errors.New("the hub's answer cannot be used")
	ErrChecksum     = errors.New("what was downloaded is damaged")
	ErrNoSpace      = errors.New("the disk has too little room")
)

// A failure is an error with a reason among those above. Its text is a whole sentence, so the
// reason is not repeated in it.
type failure struct {
	reason error
	text   string
}

func (f *failure) Error() string { return f.text }
func (f *failure) Unwrap() error { return f.reason }

func fail(reason error, format string, args ...any) error {
	return &failure{reason, fmt.Sprintf(format, args...)}
}

// refusal is the error for an answer that is neither success nor a redirect. what is what was
// asked for, in words; repo its repository. The codes are those of huggingface_hub
// (utils/_http.py, hf_raise_for_status).
func (h *Hub) refusal(resp *http.Response, repo, what string) error {
	code := resp.Header.Get("X-Error-Code")
	said := clip(resp.Header.Get("X-Error-Message"))
	if said != "" {
		said = ": " + strings.TrimRight(said, ".")
	}
	page := h.config.Endpoint + "/" + repo
	switch status := resp.StatusCode; {
	case code == "RevisionNotFound":
		return fail(ErrNoRevision, "%s has no such revision: %s was asked for", repo, what)
	case code == "EntryNotFound":
		return fail(ErrNoFile, "%s has no %s", repo, what)
	case code == "GatedRepo" && h.config.Token == "":
		return fail(ErrGated, "%s is gated: accept its conditions at %s, make a token at %s/settings/tokens, and set HF_TOKEN to it", repo, page, h.config.Endpoint)
	case code == "GatedRepo":
		return fail(ErrGated, "%s is gated, and the account of the token has no access to it: accept its conditions at %s, and wait for the authors if they have to agree", repo, page)
	case status == http.StatusUnauthorized && h.config.Token == "", status == http.StatusNotFound && code == "RepoNotFound" && h.config.Token == "":
		return fail(ErrNoRepository, "%s does not exist on %s, or it is private or gated: if it is, set HF_TOKEN to a token that may read it (%s/settings/tokens)", repo, h.config.Endpoint, h.config.Endpoint)
	case code == "RepoNotFound":
		return fail(ErrNoRepository, "%s does not exist on %s, or the token may not read it", repo, h.config.Endpoint)
	case status == http.StatusUnauthorized:
		return fail(ErrNoRepository, "the hub refuses the token for %s (HF_TOKEN, or the file that huggingface_hub keeps)%s", repo, said)
	case status == http.StatusForbidden:
		return fail(ErrRefused, "the hub forbids the access to %s%s; its page is %s", repo, said, page)
	case status == http.StatusNotFound:
		return fail(ErrNoFile, "the hub has no %s of %s%s", what, repo, said)
	case retryable(status):
		return fail(ErrBusy, "the hub answers %s for %s of %s%s", answer(resp), what, repo, said)
	default:
		return fail(ErrRefused, "the hub answers %s for %s of %s%s", answer(resp), what, repo, said)
	}
}

// answer is the status of an answer in words.
func answer(resp *http.Response) string {
	return fmt.Sprintf("%d %s", resp.StatusCode, cmp.Or(http.StatusText(resp.StatusCode), "without a known meaning"))
}

// retryable tells whether a request may be repeated after an answer with this status.
func retryable(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway,
		http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// recoverable tells whether what is in the cache may be used instead of an answer that failed in
// this way: the hub may be away, a token may have expired, a repository may have been deleted.
// A revision that does not exist any more is a mistake of whoever asks for it.
func recoverable(err error) bool {
	for _, reason := range []error{ErrUnreachable, ErrBusy, ErrNoRepository, ErrGated, ErrRefused, ErrAnswer} {
		if errors.Is(err, reason) {
			return true
		}
	}
	return false
}
