package main

import (
	"errors"
	"fmt"
	"log/slog"

	"weir/internal/tlsfiles"
)

// tlsOptions say with which files the server speaks TLS. The names of the flags are those of
// vLLM, which has them from uvicorn.
type tlsOptions struct {
	cert, key, ca string
	clients       int // tlsfiles.Clients; below 0 until settle: it was not given
}

func (o *tlsOptions) bind(f *flagSet) {
	o.clients = -1
	f.group("TLS")
	f.StringVar(&o.cert, "ssl-certfile", "", "PEM `file` with the server's certificate, and those between it and an authority; the server then speaks HTTPS only. It is read again when it changes, and on SIGHUP")
	f.StringVar(&o.key, "ssl-keyfile", "", "PEM `file` with the private key; it is read again as well (default: it is in --ssl-certfile)")
	f.StringVar(&o.ca, "ssl-ca-certs", "", "PEM `file` with the authorities that client certificates have to be of; it is read again as well")
	f.Var(&clientsFlag{&o.clients}, "ssl-cert-reqs", "what clients need, as Python's module ssl has it: 0 no certificate, 1 none or a right one, 2 a right one (default: 2 with --ssl-ca-certs, else 0)")
}

// clientsFlag is the value of --ssl-cert-reqs.
type clientsFlag struct{ value *int }

func (c *clientsFlag) String() string { return "" }
func (c *clientsFlag) Type() string   { return "0|1|2" }
func (c *clientsFlag) Set(text string) error {
	if len(text) != 1 || text[0] < '0' || text[0] > '2' {
		return fmt.Errorf("%q is none of 0, 1, 2", text)
	}
	*c.value = int(text[0] - '0')
	return nil
}

// settle refuses combinations that make no sense, and completes what was not given.
func (o *tlsOptions) settle() error {
	switch {
	case o.cert == "" && (o.key != "" || o.ca != "" || o.clients > 0):
		return usageError{errors.New("--ssl-keyfile, --ssl-ca-certs and --ssl-cert-reqs need --ssl-certfile")}
	case o.ca == "" && o.clients > 0:
		return usageError{fmt.Errorf("--ssl-cert-reqs %d needs --ssl-ca-certs, which says what a right certificate is", o.clients)}
	}
	if o.clients < 0 {
		o.clients = int(tlsfiles.NotAsked)
		if o.ca != "" {
			o.clients = int(tlsfiles.Required)
		}
	}
	return nil
}

// open reads the files. Without any it returns nil.
func (o *tlsOptions) open(log *slog.Logger) (*tlsfiles.Files, error) {
	if o.cert == "" {
		return nil, nil
	}
	files, err := tlsfiles.Open(tlsfiles.Names{Cert: o.cert, Key: o.key, CA: o.ca, Clients: tlsfiles.Clients(o.clients)})
	if err != nil {
		return nil, err
	}
	if err := files.Invalid(); err != nil {
		log.Warn("clients will not trust this server", "certificate", o.cert, "error", err)
	}
	if o.ca != "" && tlsfiles.Clients(o.clients) == tlsfiles.NotAsked {
		log.Warn("--ssl-cert-reqs 0: clients are not asked for a certificate, so that --ssl-ca-certs has no effect")
	}
	return files, nil
}
