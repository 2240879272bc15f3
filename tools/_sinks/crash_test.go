// Package sinks tests the sinks of weir with the systems themselves. It has a module of its own, because their
// servers are large, and is not part of make test: make sinks.
package sinks

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/feedback"
	"weir/sinks"
	"weir/store"
	"weir/store/outbox"
	"weir/store/storetest"
)

// roles are what the test binary does in place of tests when it is started as another process.
var roles = map[string]func(args []string){}

const roleVar = "WEIR_SINKS_ROLE"

func TestMain(m *testing.M) {
	if name := os.Getenv(roleVar); name != "" {
		roles[name](os.Args[1:])
		return
	}
	os.Exit(m.Run())
}

// rounds is how often the processes are killed.
func rounds() int {
	if n, err := strconv.Atoi(os.Getenv("ROUNDS")); err == nil {
		return n
	}
	return 100
}

// process is the test binary in a role.
type process struct {
	t   *testing.T
	cmd *exec.Cmd
}

// startRole starts a process that listens at an address, and waits until it does.
func startRole(t *testing.T, role, address string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(os.Args[0], args...)}
	p.cmd.Env = append(os.Environ(), roleVar+"="+role)
	p.cmd.Stderr = os.Stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	waitFor(t, address, func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	return p
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(2 * time.Minute); !done(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("still not: %s", what)
		}
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func port(address string) string {
	_, p, _ := net.SplitHostPort(address)
	return p
}

// got is a message as a system has it.
type got struct {
	id, key string
	gone    bool
	body    string
}

const (
	writers = 4
	keys    = 5
)

func open(dir string) (*feedback.Store, *store.DB, *outbox.Log, error) {
	db, err := store.Open(storetest.Small(dir))
	if err != nil {
		return nil, nil, nil, err
	}
	book, log := feedback.New(db, feedback.DefaultConfig()), outbox.New(db, 'f', true)
	book.SetChanges(log)
	return book, db, log, nil
}

func start(book *feedback.Store, db *store.DB, log *outbox.Log, to sinks.Sink) *sinks.Group {
	return sinks.Start(sinks.Config{
		Sinks: []sinks.Sink{to}, Backlog: 1 << 20, Log: slog.New(slog.DiscardHandler), TrimEvery: 20 * time.Millisecond, PauseMost: 50 * time.Millisecond,
		Feeds: []sinks.Feed{{Name: "feedback", Log: log, Source: book.Changes(), Ready: db.Ready()}},
	})
}

// write is the process that stores feedback: arguments are a folder, the first version, and the address of the
// sink. It prints what was acknowledged.
func write(args []string, to sinks.Sink, err error) {
	if err != nil {
		panic(err)
	}
	book, db, log, err := open(args[0])
	if err != nil {
		panic(err)
	}
	start(book, db, log, to)
	first, _ := strconv.Atoi(args[1])
	for w := range writers {
		go func() {
			project := fmt.Sprintf("p/%d", w)
			for i := first; ; i++ {
				key := fmt.Sprintf("00000000-0000-4000-8000-%012d", i%keys)
				if err := put(book, project, key, i); err != nil {
					panic(err)
				}
				fmt.Println("put", project, key, i)
				if i%7 == 3 {
					if err := book.Purge(context.Background(), project, []string{key}); err != nil {
						panic(err)
					}
				}
			}
		}()
	}
	select {}
}

func put(book *feedback.Store, project, id string, version int) error {
	body, err := json.Marshal(map[string]any{"project_id": project, "trace_ref": "weave:///" + project + "/call/1", "feedback_type": "custom", "payload": map[string]any{"text": strconv.Itoa(version)}, "id": id, "feedback_id": id})
	if err != nil {
		return err
	}
	r, err := feedback.DecodeRequest(context.Background(), body, feedback.Replace)
	if err != nil {
		return err
	}
	_, err = book.Replace(context.Background(), feedback.Author{User: "u"}, r, feedback.Once{})
	return err
}

// crashed is a system under test.
type crashed struct {
	start         func(t *testing.T) *process
	sink          func(t *testing.T) sinks.Sink
	role, address string
	check         func(want map[string]string, acked map[string]int)
}

// round runs weir until it has acknowledged so many changes, which it notes in acked, and kills it. It returns the
// system, which is another one if it was killed as well.
func (c *crashed) round(t *testing.T, dir string, round int, system *process, acked map[string]int) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0], dir, strconv.Itoa(round*1_000_000), c.address)
	cmd.Env = append(os.Environ(), roleVar+"="+c.role)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := 0
	for in := bufio.NewScanner(out); in.Scan(); {
		part := strings.Fields(in.Text())
		if len(part) != 4 {
			continue
		}
		version, err := strconv.Atoi(part[3])
		if err != nil {
			continue
		}
		acked[part[1]+"/"+part[2]] = version
		lines++
		if lines == 60 && round%2 == 1 {
			system.kill()
			system = c.start(t)
		}
		if lines == 120+round%50 {
			_ = cmd.Process.Kill()
		}
	}
	_ = cmd.Wait()
	if lines < 120 {
		t.Fatalf("round %d ended after %d lines", round, lines)
	}
	return system
}

// crash kills weir in every round, and the system in every second.
func crash(t *testing.T, c crashed) {
	dir := t.TempDir()
	system := c.start(t)
	acked := map[string]int{}
	n := rounds()
	for round := range n {
		system = c.round(t, dir, round, system, acked)
	}
	book, db, log, err := open(dir)
	if err != nil {
		t.Fatal(err)
	}
	to := c.sink(t)
	g := start(book, db, log, to)
	waitFor(t, "everything is sent", func() bool {
		s := g.Stats()
		return len(s) == 1 && s[0].Lag == 0
	})
	want := map[string]string{}
	if err := book.Each(func(rec *feedback.Record) error {
		want[rec.Project+"/"+rec.ID] = string(rec.AppendAll(nil))
		return nil
	}, func(_ []byte, err error) { t.Error(err) }); err != nil {
		t.Fatal(err)
	}
	g.Close(time.Second)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	c.check(want, acked)
	t.Logf("%d rounds", n)
}

// checkList looks at a log of messages without repetitions.
func checkList(t *testing.T, list []got, want map[string]string, acked map[string]int) {
	t.Helper()
	have, version := map[string]string{}, map[string]int{}
	for _, m := range list {
		if m.gone {
			delete(have, m.key)
			continue
		}
		var body struct{ Payload struct{ Text string } }
		if err := json.Unmarshal([]byte(m.body), &body); err != nil {
			t.Fatal(err)
		}
		n, err := strconv.Atoi(body.Payload.Text)
		if err != nil {
			t.Fatal(err)
		}
		if n < version[m.key] {
			t.Errorf("%s has version %d after %d", m.key, n, version[m.key])
		}
		version[m.key], have[m.key] = n, m.body
	}
	for key, n := range acked {
		if want[key] != "" && version[key] < n {
			t.Errorf("%s: version %d was acknowledged, and %d arrived", key, n, version[key])
		}
	}
	same(t, "the log", have, want)
	t.Logf("%d messages", len(list))
}

func same(t *testing.T, what string, have, want map[string]string) {
	t.Helper()
	if len(have) != len(want) {
		t.Errorf("%s has %d records, want %d", what, len(have), len(want))
	}
	for key, body := range want {
		if have[key] != body {
			t.Errorf("%s: %s: %s, want %s", what, key, have[key], body)
		}
	}
}
