package tlsfiles

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/plainfile"
)

// Clients says what is asked of clients. The numbers are those of Python's module ssl, and so
// of vLLM's flag.
type Clients int

// What is asked of clients.
const (
	NotAsked Clients = iota // for no certificate
	Optional                // for a certificate; one that is sent has to be right
	Required                // for a certificate of one of the authorities
)

// Names are the files.
type Names struct {
	Cert string // certificates in PEM: that of the server, and those between it and an authority
	Key  string // the private key in PEM; "": it is in Cert too
	CA   string // certificates in PEM of the authorities that client certificates are of; "": none

	Clients Clients // NotAsked without a CA
}

// list has the names of the files.
func (n *Names) list() []string {
	names := []string{n.Cert, n.Key}
	if n.CA != "" {
		names = append(names, n.CA)
	}
	return names
}

// version is what the files had in them at some time.
type version struct {
	config  *tls.Config
	expires time.Time
}

// Files are the files of a server, of which a version is in use. All methods may be called from
// any goroutine.
type Files struct {
	names Names
	now   func() time.Time

	used  atomic.Pointer[version]
	stale atomic.Bool

	mu    sync.Mutex
	infos []fs.FileInfo // of the files as they were read last; nil: they were wrong
}

// Open reads the files. It fails if there is any error in them, but takes a certificate that
// has expired: whoever starts a server wants it to start.
func Open(names Names) (*Files, error) { return open(names, time.Now) }

func open(names Names, now func() time.Time) (*Files, error) {
	if names.Key == "" {
		names.Key = names.Cert
	}
	f := &Files{names: names, now: now}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.read(); err != nil {
		return nil, err
	}
	return f, nil
}

// Config returns the newest version that is right. It must not be changed.
func (f *Files) Config() *tls.Config { return f.used.Load().config }

// Expires is when the first of the certificates that are sent to clients expires.
func (f *Files) Expires() time.Time { return f.used.Load().expires }

// Stale reports whether the files could not be used when they were last looked at, so that the
// version in use is an earlier one.
func (f *Files) Stale() bool { return f.stale.Load() }

// Invalid says why the server's certificate is not valid now; nil: it is.
func (f *Files) Invalid() error { return valid(f.Config(), f.now()) }

// Reload reads the files again. If there is any error in them, the version before stays in use.
func (f *Files) Reload() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.read()
	f.stale.Store(err != nil)
	return err
}

// read makes what is in the files the version in use. f.mu is locked.
func (f *Files) read() error {
	f.infos = nil
	infos, err := stat(f.names.list()) // before they are read, so that a later change is noticed
	if err != nil {
		return fmt.Errorf("tls: %w", err)
	}
	v, err := load(&f.names)
	if err != nil {
		return fmt.Errorf("tls: %w", err)
	}
	if f.used.Load() != nil {
		if err := valid(v.config, f.now()); err != nil {
			return fmt.Errorf("tls: %s: %w", f.names.Cert, err)
		}
	}
	f.used.Store(v)
	f.infos = infos
	return nil
}

func stat(names []string) ([]fs.FileInfo, error) {
	infos := make([]fs.FileInfo, len(names))
	for i, name := range names {
		var err error
		if infos[i], err = os.Stat(name); err != nil {
			return nil, err
		}
	}
	return infos, nil
}

// changed reports whether a file is another one than was read last, or they were wrong then.
func (f *Files) changed() bool {
	infos, err := stat(f.names.list())
	f.mu.Lock()
	defer f.mu.Unlock()
	return err != nil || !slices.EqualFunc(f.infos, infos, func(a, b fs.FileInfo) bool {
		return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
	})
}

// Watch reloads the files when they have changed, until ctx ends. It looks once per interval,
// and logs each outcome once.
func (f *Files) Watch(ctx context.Context, every time.Duration, log *slog.Logger) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	said := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !f.changed() {
			continue
		}
		err := f.Reload()
		if err == nil {
			said = ""
			log.Info("the files of TLS were read anew", "certificate", f.names.Cert, "expires", f.Expires())
			continue
		}
		if text := err.Error(); text != said {
			said = text
			log.Error("the files of TLS are not used; those before them stay in use", "error", err)
		}
	}
}

// load reads a version of the files.
func load(n *Names) (*version, error) {
	cert, err := plainfile.Read(n.Cert)
	if err != nil {
		return nil, err
	}
	key, err := plainfile.Read(n.Key)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", n.Cert, n.Key, err)
	}
	v := &version{config: &tls.Config{
		Certificates: []tls.Certificate{pair},
		MinVersion:   tls.VersionTLS12,
		NextProtos:   []string{"http/1.1"},
	}}
	for i, der := range pair.Certificate {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, fmt.Errorf("%s: certificate %d: %w", n.Cert, i+1, err)
		}
		if v.expires.IsZero() || c.NotAfter.Before(v.expires) {
			v.expires = c.NotAfter
		}
	}
	return v, v.authorities(n)
}

// authorities reads the certificates of authorities.
func (v *version) authorities(n *Names) error {
	if n.CA == "" {
		return nil
	}
	text, err := plainfile.Read(n.CA)
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return fmt.Errorf("%s: there is no certificate in the file", n.CA)
	}
	v.config.ClientCAs = pool
	v.config.ClientAuth = [...]tls.ClientAuthType{NotAsked: tls.NoClientCert, Optional: tls.VerifyClientCertIfGiven, Required: tls.RequireAndVerifyClientCert}[n.Clients]
	return nil
}

// Errors about the time at which a certificate is valid.
var (
	errExpired = errors.New("the certificate has expired")
	errEarly   = errors.New("the certificate is not valid yet")
)

// valid returns an error if the server's certificate is not valid at a time.
func valid(c *tls.Config, now time.Time) error {
	switch leaf := c.Certificates[0].Leaf; {
	case now.After(leaf.NotAfter):
		return fmt.Errorf("%w, on %s", errExpired, leaf.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(leaf.NotBefore):
		return fmt.Errorf("%w, but on %s", errEarly, leaf.NotBefore.UTC().Format(time.RFC3339))
	}
	return nil
}
