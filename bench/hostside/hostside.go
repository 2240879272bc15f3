package hostside

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/procfs"

	"weir/backend"
	"weir/internal/jsontext"
	"weir/tokenizer"
)

// Process is a server that was started to be measured.
type Process struct {
	Address string
	PID     int
	Stop    func() error
}

// Config says what Run measures.
type Config struct {
	// Server starts a server over the simulated device with further flags, and Reference a process that calls
	// ServeReferences with what is written to in.
	Server    func(ctx context.Context, flags ...string) (Process, error)
	Reference func(ctx context.Context) (in io.WriteCloser, out io.Reader, p Process, err error)
	Backend   func(backend.Spec) (backend.Backend, error) // a simulated device that takes no time
	Tokenizer *tokenizer.Tokenizer
	Progress  func(what string)

	Streams int           // at a time
	Tokens  int           // of each answer
	Time    time.Duration // of each measurement
	Rounds  int           // of each measurement that takes turns with its reference
	Idle    int           // streams that are open without a token; 0: none are measured
	Refused int           // requests beyond a server's cap
	Steps   []int         // numbers of sequences whose steps are measured

	Only  []string // names of Figures that are measured; none: all
	Flags []string // further flags of the servers
}

// Figures are the names for Config.Only, in the order in which they are measured.
var Figures = []string{"steps", "bursts", "chats", "single", "refusals", "idle"}

// DefaultConfig measures all there is.
func DefaultConfig() Config {
	return Config{Streams: 64, Tokens: 256, Time: 2 * time.Second, Rounds: 3, Idle: 10000, Refused: 10000, Steps: []int{256, 1024}, Progress: func(string) {}}
}

// Validate returns an error if Run would refuse the configuration.
func (c *Config) Validate() error {
	for _, n := range append([]int{c.Streams, c.Tokens, c.Rounds, c.Refused}, c.Steps...) {
		if n < 1 || n > 1<<16 {
			return fmt.Errorf("hostside: %d streams, tokens, rounds, refusals or sequences", n)
		}
	}
	for _, name := range c.Only {
		if !slices.Contains(Figures, name) {
			return fmt.Errorf("hostside: %q is not one of %s", name, strings.Join(Figures, ", "))
		}
	}
	if c.Time <= 0 || c.Idle < 0 || c.Idle > 1<<20 {
		return fmt.Errorf("hostside: a time of %v, %d idle streams", c.Time, c.Idle)
	}
	return nil
}

// Row is a figure and its reference.
type Row struct {
	Name      string  `json:"name"`
	Unit      string  `json:"unit"`
	Value     float64 `json:"value"`
	Reference float64 `json:"reference"`
	Beside    string  `json:"beside"` // what the reference is
	Note      string  `json:"note,omitempty"`
}

// paces are the times of a step, in microseconds, that are tried for events that are written one by one,
// from the slowest on.
var paces = []int{4000, 2500, 1500, 1000, 700, 500, 350, 250, 180, 120, 80}

// mostPerWrite is how many events a write may have as a mean so that they count as written one by one.
const mostPerWrite = 1.05

// measurement is a run of all measurements.
type measurement struct {
	c      *Config
	dir    string // for profiles
	report *Report
	raw    string // addresses of the references
	web    string
	refPID int
}

// Run measures. When ctx ends, the report has what was measured by then.
func Run(ctx context.Context, c Config) (r *Report, err error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	m := &measurement{c: &c, report: &Report{Date: time.Now()}}
	if m.dir, err = os.MkdirTemp("", "weir-hostside-"); err != nil {
		return nil, err
	}
	defer os.RemoveAll(m.dir)
	return m.report, m.run(ctx)
}

func (m *measurement) run(ctx context.Context) (err error) {
	if m.wants("steps") {
		if err := m.steps(ctx); err != nil {
			return err
		}
	}
	if !m.wants("bursts", "chats", "single", "refusals", "idle") {
		return nil
	}
	stop, err := m.startReferences(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	if err := m.instant(ctx); err != nil {
		return err
	}
	for _, f := range []struct {
		name    string
		measure func(context.Context) error
	}{{"single", m.single}, {"refusals", m.refusals}, {"idle", m.idle}} {
		if m.wants(f.name) {
			if err := f.measure(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// wants reports whether any of these figures is to be measured.
func (m *measurement) wants(names ...string) bool {
	return len(m.c.Only) == 0 || slices.ContainsFunc(names, func(name string) bool { return slices.Contains(m.c.Only, name) })
}

// server starts a server with the flags that all are to have and further ones.
func (m *measurement) server(ctx context.Context, flags ...string) (Process, error) {
	return m.c.Server(ctx, append(flags, m.c.Flags...)...)
}

// steps measures the steps of an engine.
func (m *measurement) steps(ctx context.Context) error {
	for _, n := range m.c.Steps {
		m.c.Progress(fmt.Sprintf("steps of %d sequences", n))
		s, err := measureSteps(ctx, n, m.c.Tokenizer, m.c.Backend)
		if err != nil {
			return err
		}
		m.report.Rows = append(m.report.Rows, Row{fmt.Sprintf("engine step, %d sequences", n), "µs", s.Median, s.Inside, "of it inside the simulated device", fmt.Sprintf("p99 %.0f µs, %d steps", s.P99, s.Count)})
	}
	return nil
}

// profile writes a profile with steps of this many microseconds.
func (m *measurement) profile(us int) (string, error) {
	path := filepath.Join(m.dir, fmt.Sprintf("%d.json", us))
	return path, os.WriteFile(path, fmt.Appendf(nil, `{"name": "steps of %d µs", "overhead_us": %d}`, us, us), 0o600)
}

func (m *measurement) chatBody(tokens int, stream bool) string {
	return fmt.Sprintf(`{"messages":[{"role":"user","content":"Hello"}],"max_tokens":%d,"ignore_eos":true,"stream":%v}`, tokens, stream)
}

const chatPath = "/v1/chat/completions"

// startReferences records a stream whose events are written one by one and a small answer, and starts the references
// with them.
func (m *measurement) startReferences(ctx context.Context) (stop func() error, err error) {
	m.c.Progress("recording")
	rec, err := m.recordAnswers(ctx)
	if err != nil {
		return nil, err
	}
	in, out, p, err := m.c.Reference(ctx)
	if err != nil {
		return nil, err
	}
	stop = func() error { return errors.Join(in.Close(), p.Stop()) }
	text, err := jsontext.Encode(rec)
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	if _, err := in.Write(append(text, '\n')); err != nil {
		return nil, errors.Join(err, stop())
	}
	var a addresses
	line := make([]byte, 4<<10)
	n, err := out.Read(line)
	if err == nil {
		err = jsontext.Decode(bytes.TrimSpace(line[:n]), &a)
	}
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	m.raw, m.web, m.refPID = a.Raw, a.HTTP, p.PID
	return stop, nil
}

func (m *measurement) recordAnswers(ctx context.Context) (rec recorded, err error) {
	profile, err := m.profile(2000)
	if err != nil {
		return rec, err
	}
	p, err := m.server(ctx, "--sim-profile", profile)
	if err != nil {
		return rec, err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	var stream []byte
	keep := func(piece []byte) { stream = append(stream, piece...) }
	if _, err := exchanges(ctx, p.Address, time.Time{}, streamed(post(chatPath, m.chatBody(m.c.Tokens, true)), keep)); err != nil {
		return rec, err
	}
	rec.Pieces = record(stream)
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", p.Address)
	if err != nil {
		return rec, err
	}
	defer conn.Close()
	request := bytes.Replace(post(chatPath, m.chatBody(1, false)), []byte("\r\n"), []byte("\r\nConnection: close\r\n"), 1)
	if _, err := conn.Write(request); err != nil {
		return rec, err
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		return rec, err
	}
	_, body, _ := bytes.Cut(answer, []byte("\r\n\r\n"))
	rec.Chat = string(body)
	return rec, nil
}

// versus lets a server and its reference take turns, and returns the medians of what they did per second.
func (m *measurement) versus(ctx context.Context, what, server string, x exchange, reference string, y exchange) (value, beside float64, err error) {
	var ours, theirs []float64
	for round := range m.c.Rounds {
		m.c.Progress(fmt.Sprintf("%s, round %d of %d", what, round+1, m.c.Rounds))
		for _, turn := range []struct {
			address string
			x       exchange
			to      *[]float64
		}{{server, x, &ours}, {reference, y, &theirs}} {
			n, took, err := load(ctx, turn.address, m.c.Streams, m.c.Time, turn.x)
			if err != nil {
				return 0, 0, err
			}
			*turn.to = append(*turn.to, float64(n)/took.Seconds())
		}
	}
	slices.Sort(ours)
	slices.Sort(theirs)
	return ours[len(ours)/2], theirs[len(theirs)/2], nil
}

// instant measures a server whose device takes no time: bursts of events, and small answers.
func (m *measurement) instant(ctx context.Context) (err error) {
	if !m.wants("bursts", "chats") {
		return nil
	}
	p, err := m.server(ctx, "--sim-profile", "instant")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	if m.wants("bursts") {
		stream := streamed(post(chatPath, m.chatBody(m.c.Tokens, true)), nil)
		value, beside, err := m.versus(ctx, "bursts", p.Address, stream, m.raw, streamed(post(wholePath, "{}"), nil))
		if err != nil {
			return err
		}
		m.report.Rows = append(m.report.Rows, Row{"streamed events in bursts", "events/s", value, beside, "a loop that writes each answer at once", m.loadNote()})
	}
	if m.wants("chats") {
		value, beside, err := m.versus(ctx, "small chats", p.Address, whole(post(chatPath, m.chatBody(1, false))), m.web, whole(post("/", m.chatBody(1, false))))
		if err != nil {
			return err
		}
		m.report.Rows = append(m.report.Rows, Row{"small chats, not streamed", "chats/s", value, beside, "a bare handler of fasthttp with the same answer", fmt.Sprintf("%d connections", m.c.Streams)})
	}
	return nil
}

func (m *measurement) loadNote() string {
	return fmt.Sprintf("%d streams of %d tokens", m.c.Streams, m.c.Tokens)
}

// single measures events that are written one by one: steps take so long that events do not gather, and ever less, as
// long as they do not. Where the system does not count writes, this is left out.
func (m *measurement) single(ctx context.Context) error {
	best, perWrite, pace := 0.0, 0.0, 0
	for _, us := range paces {
		m.c.Progress(fmt.Sprintf("single events, steps of %d µs", us))
		rate, events, ok, err := m.paced(ctx, us)
		if err != nil || !ok {
			return err
		}
		if events <= mostPerWrite && rate > best {
			best, perWrite, pace = rate, events, us
		}
		if events > 2*mostPerWrite {
			break
		}
	}
	m.c.Progress("single events of the loop")
	n, took, err := load(ctx, m.raw, m.c.Streams, m.c.Time, streamed(post("/pieces", "{}"), nil))
	if err != nil {
		return err
	}
	note := fmt.Sprintf("%s, steps of %d µs, %.3f events per write", m.loadNote(), pace, perWrite)
	if best == 0 {
		note = "events gathered at every pace that was tried: the machine is too busy"
	}
	m.report.Rows = append(m.report.Rows, Row{"streamed events, one per write", "events/s", best, float64(n) / took.Seconds(), "a loop that writes the same bytes, an event at a time", note})
	return nil
}

// paced measures a server with steps of this many microseconds: its events per second, and how many each of its
// writes had.
func (m *measurement) paced(ctx context.Context, us int) (rate, perWrite float64, ok bool, err error) {
	profile, err := m.profile(us)
	if err != nil {
		return 0, 0, false, err
	}
	p, err := m.server(ctx, "--sim-profile", profile)
	if err != nil {
		return 0, 0, false, err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	before, ok := writes(p.PID)
	if !ok {
		return 0, 0, false, nil
	}
	n, took, err := load(ctx, p.Address, m.c.Streams, m.c.Time, streamed(post(chatPath, m.chatBody(m.c.Tokens, true)), nil))
	if err != nil {
		return 0, 0, false, err
	}
	after, ok := writes(p.PID)
	return float64(n) / took.Seconds(), float64(n) / float64(max(1, after-before)), ok, nil
}

// writes is how often a process has called write, if the system counts that.
func writes(pid int) (uint64, bool) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return 0, false
	}
	io, err := p.IO()
	return io.SyscW, err == nil
}
