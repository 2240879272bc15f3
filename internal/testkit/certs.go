package testkit

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority makes certificates, for tests of TLS.
type Authority struct {
	t    testing.TB
	Pool *x509.CertPool // with its own certificate
	PEM  []byte         // its own certificate
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority returns an authority of this name.
func NewAuthority(t testing.TB, name string) *Authority {
	t.Helper()
	a := &Authority{t: t, Pool: x509.NewCertPool()}
	a.key = newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.Pool.AddCert(a.cert)
	a.PEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// Issue returns a certificate and its key in PEM, valid from an hour ago for the given time. It is
// for servers at 127.0.0.1 and localhost, and for clients.
func (a *Authority) Issue(name string, valid time.Duration) (cert, key []byte) {
	a.t.Helper()
	k := newKey(a.t)
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		a.t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(-time.Hour + valid),
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.cert, &k.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		a.t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
}

// Pair is Issue as package tls has it.
func (a *Authority) Pair(name string, valid time.Duration) tls.Certificate {
	a.t.Helper()
	pair, err := tls.X509KeyPair(a.Issue(name, valid))
	if err != nil {
		a.t.Fatal(err)
	}
	return pair
}

// Write is Issue into the files cert.pem and key.pem of a folder. They take the place of those
// that are there at once, each for itself.
func (a *Authority) Write(dir, name string, valid time.Duration) {
	a.t.Helper()
	cert, key := a.Issue(name, valid)
	Replace(a.t, filepath.Join(dir, "cert.pem"), cert)
	Replace(a.t, filepath.Join(dir, "key.pem"), key)
}

// Replace writes a file beside another one, and renames it to it.
func Replace(t testing.TB, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}
