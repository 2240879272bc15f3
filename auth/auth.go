package auth

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Rights is a set of rights.
type Rights uint8

const (
	Read     Rights = 1 << iota // read records
	Write                       // write and delete records
	Admin                       // erase records by user, creator, ref or age
	Transfer                    // name another server to which the KV blocks of a prompt go, or from which they come
)

// Identity is the owner of credentials. It is shared by requests and must not be changed.
type Identity struct {
	Key    string // the name of the key, for logs
	User   string // the name in records
	Tenant string // trajectories of different tenants are kept apart

	// Share names those who share one part of the machine and of the prefix cache: the
	// tenant, or a single key of the command line. All keys of the command line store as one
	// tenant, because an operator may replace one by another, but they may be in the hands
	// of clients who compete. "" if there are no credentials.
	Share string

	Projects []string // "team/project", "team/*" or "*"
	Project  string   // of requests that name none; "": they have none
	Models   []string // names, or "*"
	Rights   Rights
	Expires  time.Time // zero: never
	Limits   *Limits   // nil: none; [Keyring.Limits] has those that hold now

	MaxPriority *int64 // the most urgent priority that requests may have, where lower is more urgent; nil: any
}

// Priority is the priority of a request that asks for one: what is more urgent than
// MaxPriority counts as that.
func (id *Identity) Priority(asked int64) int64 {
	if id == nil || id.MaxPriority == nil {
		return asked
	}
	return max(asked, *id.MaxPriority)
}

// Covers reports whether a project is among those of the identity.
func (id *Identity) Covers(project string) bool {
	return slices.ContainsFunc(id.Projects, func(p string) bool { return covers(p, project) })
}

// Names reports whether a project, or its team, is named among those of the identity. "*"
// covers every project and names none.
func (id *Identity) Names(project string) bool {
	return slices.ContainsFunc(id.Projects, func(p string) bool { return p != "*" && covers(p, project) })
}

// May reports whether the identity has a right, or all of several, in a project.
func (id *Identity) May(right Rights, project string) bool {
	return id.Rights&right == right && id.Covers(project)
}

// MayUse reports whether the identity may use a model.
func (id *Identity) MayUse(model string) bool {
	return slices.ContainsFunc(id.Models, func(p string) bool { return covers(p, model) })
}

// covers reports whether a name matches a pattern, which may end in "*".
func covers(pattern, name string) bool {
	if start, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(name, start)
	}
	return pattern == name
}

// everything is an identity that may do everything.
func everything(key, user string) Identity {
	return Identity{Key: key, User: user, Tenant: user, Projects: []string{"*"}, Models: []string{"*"}, Rights: Read | Write | Admin | Transfer}
}

// Anonymous is the identity of requests without credentials, where none are needed. It may
// do everything.
var Anonymous = func() *Identity { id := everything("", "anonymous"); return &id }()

// entry is a key: the hash of a token or, with a username, of a password.
type entry struct {
	hash     [sha256.Size]byte
	username string
	Identity
}

// keys is what is known at one time. It is never changed.
type keys struct {
	entries []entry
	sharing map[string]*sharing // by Identity.Share
}

// Keyring holds the keys that are accepted. Its methods may be called from any goroutine.
type Keyring struct {
	fixed []entry // keys of the command line
	file  string  // "" if there is none
	all   atomic.Pointer[keys]

	limits atomic.Pointer[map[string]*Limits] // by the name of the key; those that have some
	stale  atomic.Bool                        // see Stale
	now    func() time.Time

	mu     sync.Mutex // one goroutine reads the file at a time
	stamp  stamp      // the version of the file that was read last; zero: it could not be read
	marked bool       // a file that is or was in use ended in the marker
}

// New returns a keyring with plain keys, which may do everything as user "api" and have a
// share each, and with the keys of a credentials file, if file is not "". An empty key, and any error in the file, is
// an error.
func New(plain []string, file string) (*Keyring, error) {
	k := &Keyring{file: file, now: time.Now}
	for i, s := range plain {
		if s == "" {
			return nil, errors.New("auth: an API key is empty")
		}
		id := everything(fixedKey, "api")
		id.Share = "key " + strconv.Itoa(i+1)
		k.fixed = append(k.fixed, entry{hash: sha256.Sum256([]byte(s)), Identity: id})
	}
	k.all.Store(&keys{entries: k.fixed})
	if file == "" {
		return k, nil
	}
	return k, k.Reload()
}

// Open reports whether there are no keys and no file that could bring some, so that requests
// need no credentials.
func (k *Keyring) Open() bool { return k.file == "" && len(k.fixed) == 0 }

// Token returns the identity of a token, or nil.
func (k *Keyring) Token(token string) *Identity { return k.find("", token) }

// Password returns the identity of a user name and password, or nil. With the name "api", or
// with none, the password is a token (docs/interface/feedback.md, F-3).
func (k *Keyring) Password(username, password string) *Identity {
	if username == "" || username == "api" {
		if id := k.Token(password); id != nil || username == "" {
			return id
		}
	}
	return k.find(username, password)
}

// find compares a secret with all keys. It takes the same time wherever they differ.
func (k *Keyring) find(username, secret string) (found *Identity) {
	sum := sha256.Sum256([]byte(secret))
	all := k.all.Load().entries
	for i := range all {
		e := &all[i]
		if subtle.ConstantTimeCompare(sum[:], e.hash[:])&subtle.ConstantTimeCompare([]byte(username), []byte(e.username)) == 1 {
			found = &e.Identity
		}
	}
	if found != nil && !found.Expires.IsZero() && !k.now().Before(found.Expires) {
		return nil
	}
	return found
}

// Holds reports whether work may go on that was asked for with an identity, for a project ("":
// none): there is still a key of its name and user that has not expired, and that is for the
// project. A key whose secret was changed is still the key. All keys of the command line have one
// name, so of those there has to be one.
func (k *Keyring) Holds(id *Identity, project string) bool {
	if k.Open() {
		return true
	}
	now := k.now()
	return slices.ContainsFunc(k.all.Load().entries, func(e entry) bool {
		return id != nil && e.Key == id.Key && e.User == id.User && (e.Expires.IsZero() || now.Before(e.Expires)) && (project == "" || e.Covers(project))
	})
}

// A Scheme is the way in which credentials were sent.
type Scheme int

const (
	None Scheme = iota // no credentials
	Bearer
	Basic
	Other // another scheme, or credentials that cannot be read
)

// Parse reads the value of an Authorization header. It is "Bearer <token>", where everything
// after the first space is the token, or "Basic <base64>" of "name:password", with or without
// padding, where everything after the first colon is the password. The name of the scheme
// may be in any case.
func Parse(header string) (scheme Scheme, username, secret string) {
	name, value, _ := strings.Cut(header, " ")
	switch {
	case header == "":
		return None, "", ""
	case strings.EqualFold(name, "bearer"):
		return Bearer, "", value
	case strings.EqualFold(name, "basic"):
		b, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(strings.TrimSpace(value), "="))
		if err != nil {
			return Other, "", ""
		}
		username, secret, ok := strings.Cut(string(b), ":")
		if !ok {
			return Other, "", ""
		}
		return Basic, username, secret
	}
	return Other, "", ""
}

// validProject reports whether p is "team/project".
func validProject(p string) bool { return validPattern(p) && !strings.Contains(p, "*") }

// validPattern reports whether p is "*", "team/*" or "team/project".
func validPattern(p string) bool {
	if p == "*" {
		return true
	}
	team, project, ok := strings.Cut(p, "/")
	return ok && team != "" && project != "" && path.Clean(p) == p && !strings.Contains(team, "*") && (project == "*" || !strings.ContainsAny(project, "*/"))
}
