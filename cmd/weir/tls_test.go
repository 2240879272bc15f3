package main

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/internal/testkit"
)

// TestTLS: a server with a certificate speaks HTTPS, also to curl and to weir health. It takes a new
// certificate when the files change or at SIGHUP, keeps the one before if they are wrong, and metrics
// tell of both.
func TestTLS(t *testing.T) {
	t.Parallel()
	a := testkit.NewAuthority(t, "authority")
	dir := t.TempDir()
	a.Write(dir, "first", 10*time.Hour)
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	p := startProcess(t, nil, "--data-dir", "", "--ssl-certfile", cert, "--ssl-keyfile", key)
	if !strings.HasPrefix(p.url, "https://127.0.0.1:") {
		t.Fatal(p.url)
	}
	var served string // the name in the certificate of the newest connection
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: a.Pool, VerifyConnection: func(s tls.ConnectionState) error {
		served = s.PeerCertificates[0].Subject.CommonName
		return nil
	}}}
	client := &http.Client{Transport: transport}
	metric := func(name string) string {
		t.Helper()
		_, text, _ := do(t, client, "GET", p.url+"/metrics", "")
		for line := range strings.Lines(text) {
			if value, ok := strings.CutPrefix(line, name+" "); ok {
				return strings.TrimSpace(value)
			}
		}
		return ""
	}
	for _, c := range []struct {
		write            func()
		hangUp           bool
		log, stale, name string
	}{
		{func() {}, false, "msg=(ready)", "0", "first"},
		{func() { a.Write(dir, "second", 10*time.Hour) }, false, "(the files of TLS were read anew)", "0", "second"},
		{func() { testkit.Replace(t, cert, []byte("nothing")) }, true, "SIGHUP: (the files of TLS are not used)", "1", "second"},
		{func() { a.Write(dir, "third", 20*time.Hour) }, true, "SIGHUP: (the files of TLS were read anew)", "0", "third"},
	} {
		c.write()
		if c.hangUp {
			if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
		}
		p.log.find(t, c.log, p.ended)
		if stale := metric("weir:tls_files_stale"); stale != c.stale || served != c.name {
			t.Errorf("after %q: stale %s, served %s", c.log, stale, served)
		}
	}
	var expires float64
	if _, err := fmt.Sscan(metric("weir:tls_certificate_expiry_timestamp_seconds"), &expires); err != nil || expires < float64(time.Now().Add(15*time.Hour).Unix()) {
		t.Errorf("it expires at %f, %v", expires, err)
	}

	port := p.url[strings.LastIndex(p.url, ":")+1:]
	if code, out, msg := runWeir("health", "--port", port, "--ssl-certfile", cert); code != 0 || out != "healthy\n" {
		t.Errorf("health: %d %s %s", code, out, msg)
	}
	if code, _, msg := runWeir("health", "--port", port); code == 0 || !strings.Contains(msg, "use https://") {
		t.Errorf("health without TLS: %d %s", code, msg)
	}
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Skip("there is no curl")
	}
	authority := filepath.Join(dir, "ca.pem")
	testkit.Replace(t, authority, a.PEM)
	body := `{"stream":true,"max_tokens":5,` + question[1:]
	out, err := exec.Command(curl, "-sS", "--max-time", "60", "--cacert", authority, "-H", "Content-Type: application/json", "-d", body, p.url+"/v1/chat/completions").CombinedOutput()
	if err != nil || strings.Count(string(out), "data: ") < 6 || !strings.HasSuffix(string(out), "data: [DONE]\n\n") {
		t.Errorf("curl: %v\n%s", err, out)
	}
}

// TestClientCertificates: with --ssl-ca-certs a client needs a certificate, and curl has one.
func TestClientCertificates(t *testing.T) {
	t.Parallel()
	a := testkit.NewAuthority(t, "authority")
	dir := t.TempDir()
	a.Write(dir, "server", 10*time.Hour)
	cert, authority := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "ca.pem")
	testkit.Replace(t, authority, a.PEM)
	for reqs, want := range map[string]bool{"": false, "2": false, "1": true, "0": true} {
		args := []string{"--device", "sim", "--data-dir", "", "--ssl-certfile", cert, "--ssl-keyfile", filepath.Join(dir, "key.pem"), "--ssl-ca-certs", authority}
		if reqs != "" {
			args = append(args, "--ssl-cert-reqs", reqs)
		}
		url, stop := startServe(t, args...)
		for _, with := range []bool{false, true} {
			c := &tls.Config{RootCAs: a.Pool}
			if with {
				c.Certificates = []tls.Certificate{a.Pair("client", time.Hour+time.Minute)}
			}
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: c}}
			resp, err := client.Get(url + "/v1/models")
			if err == nil {
				resp.Body.Close()
			}
			if ok := err == nil && resp.StatusCode == 200; ok != (want || with) {
				t.Errorf("--ssl-cert-reqs %s, with a certificate %v: %v", reqs, with, err)
			}
		}
		if log := stop(); strings.Contains(log, "has no effect") != (reqs == "0") {
			t.Errorf("--ssl-cert-reqs %s: %s", reqs, log)
		}
	}
	for args, want := range map[string]string{
		"--ssl-keyfile x":                     "need --ssl-certfile",
		"--ssl-cert-reqs 2":                   "need --ssl-certfile",
		"--ssl-certfile x --ssl-cert-reqs 1":  "needs --ssl-ca-certs",
		"--ssl-certfile x --ssl-cert-reqs no": "none of 0, 1, 2",
	} {
		if code, _, msg := runWeir(append([]string{"serve", "--data-dir", ""}, strings.Fields(args)...)...); code != 2 || !strings.Contains(msg, want) {
			t.Errorf("%s: %d %s", args, code, msg)
		}
	}
	if code, _, msg := runWeir("serve", "--port", "0", "--device", "sim", "--data-dir", "", "--ssl-certfile", authority); code != 1 || !strings.Contains(msg, "private key") && !strings.Contains(msg, "PRIVATE KEY") {
		t.Errorf("without a key: %d %s", code, msg)
	}
}
