package auth

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Rights are what a key is for.
type Rights uint8

const (
	Read Rights = 1 << iota
	Write
	Admin
)

// Identity is who a request is from. It is shared: nobody may change it.
type Identity struct {
	Key    string // the name of the key, for logs
	User   string // whom records name
	Tenant string // whose records are apart from others'

	Projects []string // "team/project", "team/*" or "*"
	Models   []string // names, or "*"
	Rights   Rights
	Expires  time.Time // zero: never
	Limits   Limits
}

// Limits are what a key may use. 0 is no limit.
type Limits struct {
	RequestsPerMinute, TokensPerMinute, Concurrency int

	Weight      float64 // share of the machine, relative to others
	MaxPriority *int    // the most urgent priority; nil: any
}

// Covers reports whether a project is one of an identity's.
func (id *Identity) Covers(project string) bool {
	return slices.ContainsFunc(id.Projects, func(p string) bool { return covers(p, project) })
}

// May reports whether an identity has a right in a project.
func (id *Identity) May(right Rights, project string) bool {
	return id.Rights&right == right && id.Covers(project)
}

// MayUse reports whether an identity may use a model.
func (id *Identity) MayUse(model string) bool {
	return slices.ContainsFunc(id.Models, func(p string) bool { return covers(p, model) })
}

// covers reports whether a pattern, which may end in "*", names name.
func covers(pattern, name string) bool {
	if start, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(name, start)
	}
	return pattern == name
}

func everything(key, user string) Identity {
	return Identity{Key: key, User: user, Tenant: user, Projects: []string{"*"}, Models: []string{"*"}, Rights: Read | Write | Admin, Limits: Limits{Weight: 1}}
}

// Anonymous is who comes without credentials where none are needed.
var Anonymous = func() *Identity { id := everything("", "anonymous"); return &id }()

// entry is a key: the hash of a token or, with a name, of a password.
type entry struct {
	hash     [sha256.Size]byte
	username string
	Identity
}

// Keyring is the keys that are accepted. Its methods may be called from any goroutine.
type Keyring struct {
	fixed []entry // of the command line
	file  string  // "": none
	all   atomic.Pointer[[]entry]
	stamp atomic.Pointer[stamp] // of the file that all has
	now   func() time.Time
}

// New returns the keys given in plain, which may do everything as user "api", and
// those of a credentials file; "": there is no file.
func New(keys []string, file string) (*Keyring, error) {
	k := &Keyring{file: file, now: time.Now}
	for _, s := range keys {
		if s == "" {
			return nil, errors.New("auth: an API key is empty")
		}
		k.fixed = append(k.fixed, entry{hash: sha256.Sum256([]byte(s)), Identity: everything("api-key", "api")})
	}
	k.all.Store(&k.fixed)
	if file == "" {
		return k, nil
	}
	return k, k.Reload()
}

// Open reports whether there are no keys at all, and will not be.
func (k *Keyring) Open() bool { return k.file == "" && len(k.fixed) == 0 }

// Token is whose token it is; nil: nobody's.
func (k *Keyring) Token(token string) *Identity { return k.find("", token) }

// Password is who has a user name and password (spec feedback F-3): with the name
// "api", or none, the password is a token.
func (k *Keyring) Password(username, password string) *Identity {
	if username == "" || username == "api" {
		if id := k.Token(password); id != nil || username == "" {
			return id
		}
	}
	return k.find(username, password)
}

// find compares with all keys, and as long whatever they differ in.
func (k *Keyring) find(username, secret string) (found *Identity) {
	sum := sha256.Sum256([]byte(secret))
	all := *k.all.Load()
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

// A Scheme is how credentials were sent.
type Scheme int

const (
	None Scheme = iota // no credentials
	Bearer
	Basic
	Other // another scheme, or none that can be read
)

// Parse reads the value of an Authorization header: "Bearer <token>", split at the
// first space, or "Basic <base64 of name:password>", split at the first colon, with
// or without padding; the scheme's name in any case.
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

// validPattern: "*", "team/*", "team/project".
func validPattern(p string) bool {
	if p == "*" {
		return true
	}
	team, project, ok := strings.Cut(p, "/")
	return ok && team != "" && project != "" && path.Clean(p) == p && !strings.Contains(team, "*") && (project == "*" || !strings.ContainsAny(project, "*/"))
}
