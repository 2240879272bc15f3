package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"time"

	"weir/engine"
	"weir/internal/plainfile"
	"weir/kvtransfer"
	"weir/metrics"
	"weir/server/openai"
)

// transferOptions say with which other servers the KV blocks of prompts are exchanged.
type transferOptions struct {
	role    string
	listen  string
	address string // "": that of listen
	peers   []string
	secret  string // a file
	encrypt bool
	memory  size
	leases  int
	lease   time.Duration
	wait    time.Duration
	log     *slog.Logger // nil: nothing is logged
}

func (o *transferOptions) bind(f *flagSet) {
	o.memory, o.lease, o.wait = 1<<30, 30*time.Second, 2*time.Second
	f.group("Prefill and decode on different machines")
	f.oneOf(&o.role, "role", "what the server does for others: prefill computes prompts and holds their KV blocks for partners, decode reads them from partners", "both", "prefill", "decode")
	f.StringVar(&o.listen, "kv-transfer-listen", "", "`host:port` at which partners read KV blocks (default: they cannot)")
	f.StringVar(&o.address, "kv-transfer-address", "", "`host:port` that partners are told (default: that of --kv-transfer-listen)")
	f.StringArrayVar(&o.peers, "kv-transfer-peers", nil, "`host:port` of a partner, as kv_transfer_params name it, from which KV blocks may be read; repeat it for several. Requests name partners only with keys that have the right transfer")
	f.StringVar(&o.secret, "kv-transfer-secret-file", "", "`file` with the secret that partners share, at least 16 bytes, for its owner only. The namespaces of the prefix cache depend on it, too")
	f.BoolVar(&o.encrypt, "kv-transfer-encrypt", false, "encrypt what goes between partners (TLS 1.3); all of them have to")
	f.Var(&o.memory, "kv-transfer-memory", "most memory for KV blocks that are held for partners")
	f.IntVar(&o.leases, "kv-transfer-leases", 1024, "largest number of `prompts` whose KV blocks are held for partners")
	f.Var((*span)(&o.lease), "kv-transfer-lease", "how long they are held when the prompt has been computed")
	f.Var((*span)(&o.wait), "kv-transfer-wait", "how long a partner may take to answer, and for each KV block; what comes later is computed. No request waits longer for its blocks than computing them would take")
}

// transferQueue is the most memory of KV blocks that come from partners; as much again is being copied to the device.
const transferQueue = 64 << 20

func (o *transferOptions) on() bool     { return o.listen != "" || len(o.peers) > 0 }
func (o *transferOptions) serves() bool { return o.listen != "" && o.role != "decode" }
func (o *transferOptions) reads() bool  { return len(o.peers) > 0 && o.role != "prefill" }

// held is how much memory of the machine transfers take.
func (o *transferOptions) held() (n int64) {
	if o.serves() {
		n += int64(o.memory)
	}
	if o.reads() {
		n += 2 * transferQueue
	}
	return n
}

// check refuses transfers that cannot be.
func (o *transferOptions) check(e *engineOptions) error {
	switch {
	case !o.on():
		// Commands that serve nobody have no role.
		if o.role != "" && o.role != "both" || o.address != "" || o.secret != "" || o.encrypt {
			return errors.New("--role, --kv-transfer-address, --kv-transfer-secret-file and --kv-transfer-encrypt need --kv-transfer-listen or --kv-transfer-peers")
		}
		return nil
	case o.role == "prefill" && o.listen == "":
		return errors.New("--role prefill needs --kv-transfer-listen, where partners read what was computed")
	case o.role == "decode" && len(o.peers) == 0:
		return errors.New("--role decode needs --kv-transfer-peers, from which it reads what was computed")
	case o.secret == "":
		return errors.New("--kv-transfer-listen and --kv-transfer-peers need --kv-transfer-secret-file: whoever reads KV blocks learns of prompts")
	case !e.caching:
		return errors.New("--kv-transfer-listen and --kv-transfer-peers: KV blocks are found in the prefix cache, which --no-enable-prefix-caching turns off")
	case e.device == "sim":
		return errors.New("--kv-transfer-listen and --kv-transfer-peers: the simulated device has no keys and values")
	case o.memory < 1 || o.leases < 1 || o.lease <= 0 || o.wait <= 0:
		return errors.New("--kv-transfer-memory, --kv-transfer-leases, --kv-transfer-lease and --kv-transfer-wait take more than 0")
	}
	for _, a := range o.peers {
		if _, _, err := splitAddress(a); err != nil {
			return fmt.Errorf("--kv-transfer-peers %s: %w", a, err)
		}
	}
	if o.address != "" {
		if _, _, err := splitAddress(o.address); err != nil {
			return fmt.Errorf("--kv-transfer-address %s: %w", o.address, err)
		}
	}
	return nil
}

// splitAddress divides host:port.
func splitAddress(text string) (host string, port int, err error) {
	host, digits, err := net.SplitHostPort(text)
	if err != nil {
		return "", 0, errors.New("it has to be host:port")
	}
	if port, err = strconv.Atoi(digits); err != nil || port < 1 || port > 65535 || host == "" {
		return "", 0, errors.New("it has to be host:port, with a number for the port")
	}
	return host, port, nil
}

// readSecret reads the file of the secret.
func (o *transferOptions) readSecret() ([]byte, error) {
	info, err := os.Stat(o.secret)
	if err != nil {
		return nil, fmt.Errorf("--kv-transfer-secret-file: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("--kv-transfer-secret-file %s: others can read it; only its owner should (chmod 600)", o.secret)
	}
	text, err := plainfile.Read(o.secret)
	if err != nil {
		return nil, fmt.Errorf("--kv-transfer-secret-file: %w", err)
	}
	text = bytes.TrimSpace(text)
	if len(text) < kvtransfer.LeastSecret {
		return nil, fmt.Errorf("--kv-transfer-secret-file %s: the secret has %d bytes; it takes %d or more, such as those of openssl rand -hex 32", o.secret, len(text), kvtransfer.LeastSecret)
	}
	return text, nil
}

// transfers are what a server has to do with partners.
type transfers struct {
	node *kvtransfer.Node // nil: it has none
	salt *[32]byte        // behind the namespaces of the prefix cache, the same for all partners
	openai.Transfer
}

// openTransfers begins to listen to partners, if there are any.
func (e *preparedEngine) openTransfers(o *transferOptions, blockTokens int) (err error) {
	if !o.on() {
		return nil
	}
	secret, err := o.readSecret()
	if err != nil {
		return err
	}
	log := o.log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	cfg := kvtransfer.Config{
		Identity: e.identity(blockTokens), Secret: secret, Encrypt: o.encrypt, Serve: o.serves(), Hold: int64(o.memory), MostLeases: o.leases,
		LeaseTime: o.lease, Queue: transferQueue, Wait: o.wait, Log: log,
	}
	if o.reads() {
		cfg.Peers = o.peers
	}
	if e.copies != nil { // a nil store in an interface is not nil
		cfg.Local = e.copies
	}
	t := &e.transfers
	if t.node, err = kvtransfer.New(cfg); err != nil {
		return err
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("namespaces of the prefix cache"))
	t.salt = (*[32]byte)(mac.Sum(nil))
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails (crypto/rand)
	t.Transfer = openai.Transfer{Node: t.node, Prefill: o.serves(), Decode: o.reads(), EngineID: "weir-" + hex.EncodeToString(id[:])}
	if !o.serves() {
		return nil
	}
	ln, err := net.Listen("tcp", o.listen)
	if err != nil {
		return errors.Join(fmt.Errorf("--kv-transfer-listen: %w", err), t.node.Close())
	}
	address := o.address
	if address == "" {
		if own := ln.Addr().(*net.TCPAddr); own.IP.IsUnspecified() {
			return errors.Join(fmt.Errorf("--kv-transfer-listen %s is all addresses of this machine: --kv-transfer-address has to say which of them partners are told", o.listen), ln.Close(), t.node.Close())
		}
		address = ln.Addr().String()
	}
	t.Host, t.Port, _ = splitAddress(address) // check has done so
	e.notes = append(e.notes, "partners read KV blocks at "+ln.Addr().String()+", and are told "+address)
	go func() {
		if err := t.node.Serve(ln); err != nil {
			log.Error("partners are not answered any more", "error", err)
		}
	}()
	return nil
}

// closeTransfers ends what partners read.
func (e *preparedEngine) closeTransfers() error {
	if e.transfers.node == nil {
		return nil
	}
	return e.transfers.node.Close()
}

// offload is what keeps copies for the engine; nil: nothing does.
func (e *preparedEngine) offload() engine.Offload {
	switch {
	case e.transfers.node != nil:
		return e.transfers.node
	case e.copies != nil:
		return e.copies
	}
	return nil
}

// notify lets the engine know when there are copies to be taken.
func (e *preparedEngine) notify() {
	if e.copies != nil {
		e.copies.Notify(e.engine.Wake)
	}
	if e.transfers.node != nil {
		e.transfers.node.Notify(e.engine.Wake)
	}
}

// saveShare is which part of the time may be spent on copying KV blocks out: more for a server that computes prompts for others, where
// somebody waits for each block.
func (o *transferOptions) saveShare() int {
	switch {
	case !o.serves():
		return 0
	case o.role == "prefill":
		return 8
	}
	return 16
}

// transferred counts what went to and came from partners.
func (e *preparedEngine) transferred() metrics.Transfers {
	st := e.transfers.node.Stats()
	return metrics.Transfers{
		Leases: st.LeasesOpen, Held: st.HeldBytes, Granted: st.Leases, Refused: st.LeasesRefused, Expired: st.LeasesExpired,
		Sent: st.SentBytes, Received: st.ReceivedBytes, Offers: st.Offers, OffersFailed: st.OffersFailed - st.Strangers, Strangers: st.Strangers,
		Failed: st.Failed - st.Damaged, Damaged: st.Damaged,
	}
}
