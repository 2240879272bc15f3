// Package hubtest is a model hub for tests. It speaks the protocol of Hugging Face's as far as
// downloads go: revisions, lists of files in pages, HEAD and GET of files, redirects to a second
// host with addresses that are signed and expire, ranges, and the errors with their codes. A test
// can put any fault in front of it.
package hubtest

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"weir/internal/jsontext"
)

// A Repo is a repository with one commit.
type Repo struct {
	Commit string            // 40 hexadecimal digits
	Refs   []string          // that are the commit, such as main
	Files  map[string]string // text by name
	Large  []string          // the files in large file storage
	Gated  bool              // only Members may read the files
	Xet    bool              // the headers of Xet are sent for large files
	Tokens []string          // that may read a gated or private repository
	Hidden bool              // private
}

// A Call is a request that came.
type Call struct {
	Host, Method, Path, Token, Range string
}

// Server is the hub and the store of its large files.
type Server struct {
	HubURL, StoreURL string
	// Fault sees each request first, and says whether it has answered it.
	Fault func(host string, w http.ResponseWriter, r *http.Request) bool
	// PageSize is how many files a page of a list has.
	PageSize int

	mu     sync.Mutex
	repos  map[string]*Repo
	calls  []Call
	signed int // addresses with a lower number have expired
	issued int
	close  []func()
	dial   map[string]*pipes
}

// Hosts, for Fault and Call.
const (
	Hub   = "hub"
	Store = "store"
)

func newServer() *Server { return &Server{PageSize: 1000, repos: map[string]*Repo{}} }

// Start starts a server on two ports of this machine.
func Start() *Server {
	s := newServer()
	hub, store := httptest.NewServer(s.handler(Hub)), httptest.NewServer(s.handler(Store))
	s.HubURL, s.StoreURL, s.close = hub.URL, store.URL, []func(){hub.Close, store.Close}
	return s
}

// StartInMemory starts a server that is reached through Transport alone. It uses no sockets, so it
// may run in a bubble of testing/synctest.
func StartInMemory() *Server {
	s := newServer()
	s.HubURL, s.StoreURL = "http://hub.test", "http://store.test"
	s.dial = map[string]*pipes{}
	for _, host := range []string{Hub, Store} {
		p := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
		s.dial[host+".test:80"] = p
		server := &http.Server{Handler: s.handler(host)}
		done := make(chan struct{})
		go func() { defer close(done); _ = server.Serve(p) }()
		s.close = append(s.close, func() { _ = server.Close(); <-done })
	}
	return s
}

// Transport reaches a server that was started in memory.
func (s *Server) Transport() *http.Transport {
	return &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 16, DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
		p := s.dial[address]
		if p == nil {
			return nil, fmt.Errorf("there is no host %s", address)
		}
		return p.dial(ctx)
	}}
}

// Close stops the server.
func (s *Server) Close() {
	for _, f := range s.close {
		f()
	}
}

// Add adds a repository.
func (s *Server) Add(name string, r *Repo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.repos[name] = r
}

// Calls returns what came since the last call of it.
func (s *Server) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.calls
	s.calls = nil
	return calls
}

// Expire makes all addresses invalid that were given out.
func (s *Server) Expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.signed = s.issued
}

// SHA256 is the etag of a large file.
func SHA256(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// GitSHA1 is the etag of all other files.
func GitSHA1(text string) string {
	sum := sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(text), text))
	return hex.EncodeToString(sum[:])
}

// handler answers for one of the hosts.
func (s *Server) handler(host string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		s.mu.Lock()
		s.calls = append(s.calls, Call{host, r.Method, r.URL.Path, token, r.Header.Get("Range")})
		fault := s.Fault
		s.mu.Unlock()
		switch {
		case fault != nil && fault(host, w, r):
		case host == Store:
			s.store(w, r)
		case strings.HasPrefix(r.URL.Path, "/api/models/"):
			s.api(w, r, token)
		default:
			s.resolve(w, r, token)
		}
	})
}

// SetFault replaces Fault while the server runs.
func (s *Server) SetFault(f func(host string, w http.ResponseWriter, r *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Fault = f
}

// Refuse answers an error with a code, as the hub does.
func Refuse(w http.ResponseWriter, status int, code, message string) {
	if code != "" {
		w.Header().Set("X-Error-Code", code)
	}
	w.Header().Set("X-Error-Message", message)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"error":%q}`, message)
}

// find finds a repository and what its revision is, or answers an error.
func (s *Server) find(w http.ResponseWriter, name, revision, token string, files bool) *Repo {
	s.mu.Lock()
	repo := s.repos[name]
	s.mu.Unlock()
	member := repo != nil && slices.Contains(repo.Tokens, token)
	switch {
	case (repo == nil || repo.Hidden && !member) && token == "":
		Refuse(w, http.StatusUnauthorized, "", "Invalid username or password.")
	case repo == nil || repo.Hidden && !member:
		Refuse(w, http.StatusNotFound, "RepoNotFound", "Repository not found")
	case files && repo.Gated && token == "":
		Refuse(w, http.StatusUnauthorized, "GatedRepo", "Access to model "+name+" is restricted. You must have access to it and be authenticated to access it. Please log in.")
	case files && repo.Gated && !member:
		Refuse(w, http.StatusForbidden, "GatedRepo", "Access to model "+name+" is restricted and you are not in the authorized list.")
	case revision != repo.Commit && !slices.Contains(repo.Refs, revision):
		Refuse(w, http.StatusNotFound, "RevisionNotFound", "Invalid rev id: "+revision)
	default:
		return repo
	}
	return nil
}

// api answers /api/models/NAME/revision/REVISION and /api/models/NAME/tree/REVISION.
func (s *Server) api(w http.ResponseWriter, r *http.Request, token string) {
	path := strings.TrimPrefix(r.URL.EscapedPath(), "/api/models/")
	name, rest, ok := cut(path, "/revision/")
	tree := false
	if !ok {
		name, rest, tree = cut(path, "/tree/")
	}
	revision, err := url.PathUnescape(rest)
	if !ok && !tree || err != nil {
		http.NotFound(w, r)
		return
	}
	repo := s.find(w, name, revision, token, false)
	switch {
	case repo == nil:
	case tree:
		s.tree(w, r, repo)
	default:
		answerJSON(w, map[string]any{"id": name, "modelId": name, "sha": repo.Commit, "private": repo.Hidden, "gated": repo.Gated})
	}
}

// tree answers a page of the list of files.
func (s *Server) tree(w http.ResponseWriter, r *http.Request, repo *Repo) {
	names := []string{}
	folders := map[string]bool{}
	for name := range repo.Files {
		names = append(names, name)
		if i := strings.LastIndex(name, "/"); i > 0 {
			folders[name[:i]] = true
		}
	}
	slices.Sort(names)
	first, _ := strconv.Atoi(r.URL.Query().Get("cursor"))
	last := min(first+s.PageSize, len(names))
	page := []map[string]any{}
	for _, name := range names[min(first, last):last] {
		text := repo.Files[name]
		entry := map[string]any{"type": "file", "path": name, "size": len(text), "oid": GitSHA1(text)}
		if slices.Contains(repo.Large, name) {
			pointer := fmt.Sprintf("version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n", SHA256(text), len(text))
			entry["oid"] = GitSHA1(pointer)
			entry["lfs"] = map[string]any{"oid": SHA256(text), "size": len(text), "pointerSize": len(pointer)}
		}
		page = append(page, entry)
	}
	if first == 0 {
		for folder := range folders {
			page = append(page, map[string]any{"type": "directory", "path": folder, "oid": GitSHA1(folder), "size": 0})
		}
	}
	if last < len(names) {
		w.Header().Set("Link", fmt.Sprintf(`<%s%s?recursive=true&expand=false&cursor=%d>; rel="next"`, s.HubURL, r.URL.EscapedPath(), last))
	}
	answerJSON(w, page)
}

func answerJSON(w http.ResponseWriter, v any) {
	text, err := jsontext.Encode(v)
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_, _ = w.Write(text)
}

// resolve answers /NAME/resolve/REVISION/FILE, and the address that it redirects small files to.
func (s *Server) resolve(w http.ResponseWriter, r *http.Request, token string) {
	path, direct := strings.CutPrefix(r.URL.EscapedPath(), "/resolve-cache/models/")
	name, rest, ok := cut(strings.TrimPrefix(path, "/"), "/resolve/")
	revision, file, found := strings.Cut(rest, "/")
	revision, err := url.PathUnescape(revision)
	file, wrong := url.PathUnescape(file)
	if !ok || !found || err != nil || wrong != nil {
		http.NotFound(w, r)
		return
	}
	repo := s.find(w, name, revision, token, true)
	if repo == nil {
		return
	}
	w.Header().Set("X-Repo-Commit", repo.Commit)
	text, ok := repo.Files[file]
	large := slices.Contains(repo.Large, file)
	switch {
	case !ok:
		Refuse(w, http.StatusNotFound, "EntryNotFound", "Entry not found")
	case large:
		s.sendToStore(w, r, repo, name, file, text)
	case !direct:
		http.Redirect(w, r, "/resolve-cache/models/"+strings.TrimPrefix(path, "/"), http.StatusTemporaryRedirect)
	default:
		w.Header().Set("ETag", `"`+GitSHA1(text)+`"`)
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(text))
	}
}

// sendToStore redirects to the signed address of a large file.
func (s *Server) sendToStore(w http.ResponseWriter, r *http.Request, repo *Repo, name, file, text string) {
	w.Header().Set("X-Linked-Etag", `"`+SHA256(text)+`"`)
	w.Header().Set("X-Linked-Size", strconv.Itoa(len(text)))
	if repo.Xet {
		w.Header().Set("X-Xet-Hash", strings.Repeat("0123456789abcdef", 4))
		w.Header().Set("X-Xet-Refresh-Route", s.HubURL+"/api/models/"+name+"/xet-read-token/"+repo.Commit)
		w.Header().Set("Link", "<"+s.HubURL+"/api/models/"+name+"/xet-read-token/"+repo.Commit+`>; rel="xet-auth", <`+s.HubURL+`/reconstruction>; rel="xet-reconstruction-info"`)
	}
	s.mu.Lock()
	s.issued++
	n := s.issued
	s.mu.Unlock()
	http.Redirect(w, r, fmt.Sprintf("%s/%s/%s?signature=%d", s.StoreURL, name, url.PathEscape(file), n), http.StatusFound)
}

// store answers the address of a large file. It knows no tokens: who sends one is refused, as S3
// does.
func (s *Server) store(w http.ResponseWriter, r *http.Request) {
	signature, _ := strconv.Atoi(r.URL.Query().Get("signature"))
	org, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.EscapedPath(), "/"), "/")
	name, file, _ := strings.Cut(rest, "/")
	file, _ = url.PathUnescape(file)
	s.mu.Lock()
	repo, valid := s.repos[org+"/"+name], signature > s.signed && signature <= s.issued
	s.mu.Unlock()
	switch {
	case r.Header.Get("Authorization") != "":
		http.Error(w, "Only one auth mechanism allowed", http.StatusBadRequest)
	case repo == nil || !valid:
		http.Error(w, "Request has expired", http.StatusForbidden)
	default:
		text := repo.Files[file]
		w.Header().Set("ETag", `"`+SHA256(text)[:32]+`"`)
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(text))
	}
}

// cut is strings.Cut at the last separator.
func cut(text, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(text, sep); i >= 0 {
		return text[:i], text[i+len(sep):], true
	}
	return text, "", false
}

// pipes is a listener whose connections are in memory.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "memory"} }

func (p *pipes) dial(ctx context.Context) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-p.closed:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
