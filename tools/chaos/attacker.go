package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// attack is one kind of misbehaviour.
type attack struct {
	name, what string
	clients    int // that do it at the same time
	// begin prepares an attack, such as its bodies, and returns what one client does again
	// and again.
	begin func(at *attacker) func(ctx context.Context, client int)
	cuts  bool   // the server may close the connection without an answer
	needs string // the status of some answers in every run; without it, what is meant to be legal is not; "": any
}

// attacker is one attack while it is made.
type attacker struct {
	server string // host:port
	mu     sync.Mutex
	got    statuses
}

// statuses counts the answers by their status, as text; or what took the place of an answer:
// "left" (the client left), "cut" (the server closed the connection).
type statuses map[string]int

// answers are the statuses that an attack may get. Everything else is the server's fault.
var answers = []string{"200", "400", "401", "403", "404", "405", "408", "409", "413", "415", "417", "422", "429", "431", "501", "503", "left"}

// check returns an error if the attack got what it must not get.
func (s statuses) check(a attack) error {
	for _, status := range slices.Sorted(maps.Keys(s)) {
		if !slices.Contains(answers, status) && !(a.cuts && status == "cut") {
			return fmt.Errorf("%d requests were answered with %s (%v)", s[status], status, s)
		}
	}
	return nil
}

// checkEdge returns an error if no request of the attack had the effect that it needs. It is for
// attacks that were long enough for one.
func (s statuses) checkEdge(a attack) error {
	if a.needs != "" && s[a.needs] == 0 {
		return fmt.Errorf("no request was answered with %s, so the attack does not do what it is for (%v)", a.needs, s)
	}
	return nil
}

// String lists the statuses in order, as parseStatuses reads them: "200=5 left=1".
func (s statuses) String() string {
	var parts []string
	for _, status := range slices.Sorted(maps.Keys(s)) {
		parts = append(parts, fmt.Sprintf("%s=%d", status, s[status]))
	}
	return strings.Join(parts, " ")
}

// parseStatuses reads what String wrote in another process.
func parseStatuses(text string) (statuses, error) {
	s := statuses{}
	for _, part := range strings.Fields(text) {
		status, count, _ := strings.Cut(part, "=")
		n, err := strconv.Atoi(count)
		if err != nil {
			return nil, fmt.Errorf("%q is not a list of statuses: %w", text, err)
		}
		s[status] = n
	}
	return s, nil
}

// startAttacker attacks in a process of its own. stop ends it and returns what it was
// answered with.
func startAttacker(ctx context.Context, name, address string) (stop func() (statuses, error), err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "--attacker", name, "--server", address)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() (statuses, error) {
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			return nil, fmt.Errorf("the attacker: %w", err)
		}
		return parseStatuses(out.String())
	}, nil
}

// attackUntilEnd is the attacker's process. It attacks until standard input ends.
func attackUntilEnd(ctx context.Context, name, address string, out io.Writer) error {
	a, ok := find(name)
	if !ok {
		return fmt.Errorf("there is no attack %q", name)
	}
	giveWay()
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	_, err := fmt.Fprintln(out, a.make(ctx, address, 0))
	return err
}

// make attacks until ctx ends or, if rounds is not 0, until every client has done its work
// that often. It returns what the clients were answered with.
func (a attack) make(ctx context.Context, address string, rounds int) statuses {
	at := &attacker{server: address, got: statuses{}}
	do := a.begin(at)
	var clients sync.WaitGroup
	for i := range a.clients {
		clients.Go(func() {
			for n := 0; ctx.Err() == nil && (rounds == 0 || n < rounds); n++ {
				do(ctx, i)
			}
		})
	}
	clients.Wait()
	return at.got
}

// count books an answer, or what took its place.
func (at *attacker) count(status string) {
	at.mu.Lock()
	at.got[status]++
	at.mu.Unlock()
}

// ended books how a request ended. A client whose context has ended has left.
func (at *attacker) ended(ctx context.Context, code int, err error) {
	switch {
	case err == nil:
		at.count(strconv.Itoa(code))
	case ctx.Err() != nil:
		at.count("left")
	default:
		at.count("cut")
	}
}

// post sends a body from the client's address, and books the answer.
func (at *attacker) post(ctx context.Context, c *http.Client, path, body string) {
	code, _, err := post(ctx, c, "http://"+at.server+path, body)
	if !at.refusedEarly(err) {
		at.ended(ctx, code, err)
	}
}

// refusedEarly reports whether the server answered before it had read the body, and closed
// the connection while the client was still writing, so that the client has not seen the
// answer. It books nothing: a client of Go's library cannot read such an answer reliably.
func (at *attacker) refusedEarly(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "write"
}

// post sends a JSON body and reads the whole answer, of which it returns the beginning.
func post(ctx context.Context, c *http.Client, url, body string) (code int, beginning string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }() // read to its end, or broken anyway
	var b bytes.Buffer
	if _, err := io.CopyN(&b, resp.Body, 512); err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode, b.String(), err
	} else if !errors.Is(err, io.EOF) {
		return 0, "", err
	}
	return resp.StatusCode, b.String(), nil
}

// open opens a connection, from an address that differs by client.
func (at *attacker) open(ctx context.Context, address string) (net.Conn, bool) {
	c, err := dialer(address).DialContext(ctx, "tcp", at.server)
	if err != nil {
		at.ended(ctx, 0, err)
		return nil, false
	}
	return c, true
}

// raw sends bytes as they are and books the status of the answer.
func (at *attacker) raw(ctx context.Context, address, bytes string) {
	c, ok := at.open(ctx, address)
	if !ok {
		return
	}
	defer func() { _ = c.Close() }() // nothing is lost
	// A server may wait for the rest of what it takes for a beginning.
	_ = c.SetDeadline(time.Now().Add(2 * time.Second))
	if _, err := io.WriteString(c, bytes); err != nil {
		at.ended(ctx, 0, err)
		return
	}
	at.count(readStatus(c))
}

// readStatus reads the status of an answer; "cut" if there is none.
func readStatus(c net.Conn) string {
	line := make([]byte, len("HTTP/1.1 200"))
	if _, err := io.ReadFull(c, line); err != nil {
		return "cut"
	}
	return string(line[len("HTTP/1.1 "):])
}

// request is a POST with a body, as bytes.
func request(path, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
}
