package tlsfiles

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/testkit"
)

// files writes a certificate, its key and an authority's certificate into a new folder.
func files(t *testing.T, a *testkit.Authority, clients Clients) (dir string, n Names) {
	t.Helper()
	dir = t.TempDir()
	a.Write(dir, "server", 10*time.Hour)
	n = Names{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem"), Clients: clients}
	if clients != NotAsked {
		n.CA = filepath.Join(dir, "ca.pem")
		testkit.Replace(t, n.CA, a.PEM)
	}
	return dir, n
}

// connect does a handshake and a read over it, with what the server has now and a client, and
// returns the error of either side.
func connect(f *Files, client *tls.Config) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer ln.Close()
	server := make(chan error, 1)
	go func() {
		nc, err := ln.Accept()
		if err == nil {
			s := tls.Server(nc, f.Config())
			_, err = s.Write([]byte("x"))
			s.Close()
		}
		server <- err
	}()
	c, err := tls.Dial("tcp", ln.Addr().String(), client)
	if err == nil {
		var n int
		if n, err = c.Read(make([]byte, 1)); n == 1 {
			err = nil // with TLS 1.2 the end is told at once
		}
		c.Close()
	}
	return errors.Join(err, <-server)
}

// TestReload: a version of the files takes the place of the one before if it is right, and only then.
func TestReload(t *testing.T) {
	a := testkit.NewAuthority(t, "a")
	dir, n := files(t, a, NotAsked)
	f, err := Open(n)
	if err != nil {
		t.Fatal(err)
	}
	served := func() string {
		t.Helper()
		return f.Config().Certificates[0].Leaf.Subject.CommonName
	}
	client := &tls.Config{RootCAs: a.Pool, ServerName: "localhost"}
	if err := connect(f, client); err != nil || served() != "server" || f.Stale() || f.changed() {
		t.Fatalf("%v, %s, stale %v, changed %v", err, served(), f.Stale(), f.changed())
	}
	cert, key := a.Issue("second", 20*time.Hour)
	other, otherKey := a.Issue("third", 20*time.Hour)
	late, lateKey := a.Issue("late", time.Minute)
	for _, c := range []struct {
		what      string
		cert, key []byte
		want      string // in the error; "": it is right
	}{
		{"a cut certificate", cert[:len(cert)/2], key, "failed to find any PEM data"},
		{"an empty certificate", nil, key, "failed to find any PEM data"},
		{"the key of another one", cert, otherKey, "private key does not match public key"},
		{"a key in place of the certificate", key, key, "failed to find certificate PEM data"},
		{"one that has expired", late, lateKey, "has expired"},
		{"a right pair", cert, key, ""},
		{"another right pair", other, otherKey, ""},
	} {
		before := served()
		testkit.Replace(t, n.Cert, c.cert)
		testkit.Replace(t, n.Key, c.key)
		if !f.changed() {
			t.Errorf("%s: the change is not noticed", c.what)
		}
		err := f.Reload()
		if c.want == "" {
			if err != nil || f.Stale() || served() == before || connect(f, client) != nil || f.changed() {
				t.Errorf("%s: %v, stale %v, %s", c.what, err, f.Stale(), served())
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || !f.Stale() || served() != before || connect(f, client) != nil || !f.changed() {
			t.Errorf("%s: %v, stale %v, %s", c.what, err, f.Stale(), served())
		}
	}
	if d := time.Until(f.Expires()); d < 18*time.Hour || d > 20*time.Hour {
		t.Errorf("it expires in %v", d)
	}
	// A file that is gone.
	if err := os.Remove(n.Key); err != nil {
		t.Fatal(err)
	}
	if err := f.Reload(); err == nil || !f.changed() || served() != "third" {
		t.Errorf("without a key: %v, %s", err, served())
	}
	// One file with both.
	both := filepath.Join(dir, "both.pem")
	testkit.Replace(t, both, append(key, cert...))
	if f, err = Open(Names{Cert: both}); err != nil || served() != "second" {
		t.Errorf("both in a file: %v", err)
	}
}

// TestClients: who is let in without a certificate, with one of an authority, of another one, with
// one that has expired, and with one of an authority that was removed since.
func TestClients(t *testing.T) {
	a, b := testkit.NewAuthority(t, "a"), testkit.NewAuthority(t, "b")
	for clients, wants := range map[Clients]map[string]bool{
		NotAsked: {"none": true, "right": true, "wrong": true, "expired": true},
		Optional: {"none": true, "right": true, "wrong": false, "expired": false},
		Required: {"none": false, "right": true, "wrong": false, "expired": false},
	} {
		_, n := files(t, a, clients)
		n.CA = filepath.Join(filepath.Dir(n.Cert), "ca.pem")
		testkit.Replace(t, n.CA, a.PEM)
		f, err := Open(n)
		if err != nil {
			t.Fatal(err)
		}
		client := func(pairs ...tls.Certificate) *tls.Config {
			c := &tls.Config{RootCAs: a.Pool, ServerName: "localhost", ClientSessionCache: tls.NewLRUClientSessionCache(1)}
			c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { // also one that the server does not ask for
				return &append(pairs, tls.Certificate{})[0], nil
			}
			return c
		}
		right := client(a.Pair("client", 10*time.Hour))
		for name, c := range map[string]*tls.Config{"none": client(), "right": right, "wrong": client(b.Pair("client", 10*time.Hour)), "expired": client(a.Pair("client", time.Minute))} {
			for range 2 { // the second time the session may be resumed
				if err := connect(f, c); (err == nil) != wants[name] {
					t.Errorf("%d, %s: %v", clients, name, err)
				}
			}
		}
		testkit.Replace(t, n.CA, b.PEM)
		if err := f.Reload(); err != nil {
			t.Fatal(err)
		}
		if err := connect(f, right); (err == nil) != (clients == NotAsked) {
			t.Errorf("%d, of an authority that was removed: %v", clients, err)
		}
		testkit.Replace(t, n.CA, []byte("nothing"))
		if err := f.Reload(); err == nil || !strings.Contains(err.Error(), "there is no certificate in the file") || !f.Stale() {
			t.Errorf("no authority: %v", err)
		}
	}
}

// TestProtocol: TLS 1.1 is refused, and so is a client that speaks HTTP/2 alone.
func TestProtocol(t *testing.T) {
	a := testkit.NewAuthority(t, "a")
	_, n := files(t, a, NotAsked)
	f, err := Open(n)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*tls.Config)
		ok     bool
	}{
		"1.1":            {func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 }, false},
		"1.2":            {func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }, true},
		"1.3":            {func(c *tls.Config) { c.MinVersion = tls.VersionTLS13 }, true},
		"h2 alone":       {func(c *tls.Config) { c.NextProtos = []string{"h2"} }, false},
		"h2 or HTTP/1.1": {func(c *tls.Config) { c.NextProtos = []string{"h2", "http/1.1"} }, true},
	} {
		client := &tls.Config{RootCAs: a.Pool, ServerName: "localhost"}
		c.change(client)
		if err := connect(f, client); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOpen: a server starts with a certificate that has expired, and with nothing else that is wrong.
func TestOpen(t *testing.T) {
	a := testkit.NewAuthority(t, "a")
	dir, n := files(t, a, NotAsked)
	a.Write(dir, "late", time.Minute)
	f, err := Open(n)
	if err != nil || !errors.Is(f.Invalid(), errExpired) {
		t.Fatalf("expired: %v, %v", err, f)
	}
	early, err := open(n, func() time.Time { return time.Now().Add(-2 * time.Hour) })
	if err != nil || !errors.Is(early.Invalid(), errEarly) {
		t.Errorf("early: %v", err)
	}
	if _, err := Open(Names{Cert: n.Cert, Key: filepath.Join(dir, "none")}); err == nil {
		t.Error("without a key it was opened")
	}
}

// TestWatch: what is written is in use within a second, and each outcome is logged once.
func TestWatch(t *testing.T) {
	a := testkit.NewAuthority(t, "a")
	synctest.Test(t, func(t *testing.T) {
		dir, n := files(t, a, NotAsked)
		f, err := Open(n)
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			f.Watch(ctx, time.Second, slog.New(slog.NewTextHandler(io.Writer(&text), nil)))
		}()
		wait := func() string {
			time.Sleep(3500 * time.Millisecond)
			synctest.Wait()
			said := text.String()
			text.Reset()
			return said
		}
		if said := wait(); said != "" {
			t.Error(said)
		}
		testkit.Replace(t, n.Cert, []byte("nothing"))
		if said := wait(); strings.Count(said, "those before them stay in use") != 1 || !f.Stale() {
			t.Error(said)
		}
		a.Write(dir, "new", 10*time.Hour)
		if said := wait(); strings.Count(said, "read anew") != 1 || f.Stale() || f.Config().Certificates[0].Leaf.Subject.CommonName != "new" {
			t.Error(said)
		}
		cancel()
		<-done
	})
}
