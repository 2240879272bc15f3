package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"weir/internal/jsontext"
)

// StartConfig says which server RunStart starts.
type StartConfig struct {
	Binary string        // called as: Binary serve --host 127.0.0.1 --port N Args…
	Args   []string      // further arguments
	Model  string        // that the request names; "": it names none, which the server must accept
	Runs   int           // number of starts
	Idle   time.Duration // how long the last server is watched while it does nothing; 0: not at all
	Limit  time.Duration // longest time from a start to the first answer
	Stop   time.Duration // longest time for stopping; 0: Limit
}

// DefaultStartConfig starts the server 20 times and watches the last one for 10 s.
func DefaultStartConfig() StartConfig {
	return StartConfig{Runs: 20, Idle: 10 * time.Second, Limit: time.Minute}
}

// Validate returns an error if RunStart would refuse the configuration.
func (c *StartConfig) Validate() error {
	switch {
	case c.Binary == "":
		return errors.New("bench: no binary to start")
	case c.Runs < 1:
		return fmt.Errorf("bench: %d runs", c.Runs)
	case c.Idle < 0:
		return fmt.Errorf("bench: %v of idling", c.Idle)
	case c.Limit <= 0 || c.Stop < 0:
		return fmt.Errorf("bench: a limit of %v, and of %v for stopping", c.Limit, c.Stop)
	}
	return nil
}

// StartReport is what RunStart measured. Times are in milliseconds, in the order of the
// runs, and begin just before the process is started.
type StartReport struct {
	Health  []float64 `json:"health_ms"` // to the first 200 of GET /health
	Answer  []float64 `json:"answer_ms"` // to the end of the first answer of one token
	Process *Process  `json:"process"`   // of the last run; nil: this system does not tell
}

// Process is what a server uses of its machine.
type Process struct {
	StartMemory  int64   `json:"rss_start_bytes"`  // resident memory at the first 200 of GET /health
	AnswerMemory int64   `json:"rss_answer_bytes"` // resident memory after the first answer
	IdleCPU      float64 `json:"idle_cpu_percent"` // of one processor; measured in ticks of 10 ms
	IdleSeconds  float64 `json:"idle_s"`           // 0: it was not watched
}

// RunStart starts and stops a server again and again. Every run must end with status 0. The
// first that does not is an error, with the end of what the server wrote to standard error.
// When ctx ends, the server is stopped, and the report has the runs that were complete.
func RunStart(ctx context.Context, cfg StartConfig) (*StartReport, error) {
	r := &StartReport{Health: []float64{}, Answer: []float64{}}
	if err := cfg.Validate(); err != nil {
		return r, err
	}
	for i := range cfg.Runs {
		if err := cfg.run(ctx, r, i == cfg.Runs-1); err != nil {
			return r, fmt.Errorf("bench: start %d: %w", i+1, err)
		}
	}
	return r, nil
}

// run is one start and stop.
func (c *StartConfig) run(ctx context.Context, r *StartReport, last bool) (err error) {
	ask, err := jsontext.Encode(question{c.Model, []turn{{"user", "Hi"}}, 1})
	if err != nil {
		return err
	}
	child, err := launch(c.Binary, c.Args, c.Limit)
	if err != nil {
		return err
	}
	child.stopLimit = cmp.Or(c.Stop, c.Limit)
	pid := child.cmd.Process.Pid
	defer func() {
		stopped := child.stop(ctx)
		if errors.Is(stopped, errByItself) {
			err = nil // the request failed because the server had ended
		}
		err = errors.Join(err, stopped)
	}()
	limited, cancel := child.within(ctx)
	defer cancel()
	poll := newPoller(child.URL)
	defer poll.close()

	if err := poll.await(limited, http.MethodGet, "/health", nil); err != nil {
		return err
	}
	health := time.Since(child.began)
	var p *Process
	if last {
		p = observe(pid)
	}
	if err := poll.await(limited, http.MethodPost, Chat.path(), ask); err != nil {
		return err
	}
	r.Health, r.Answer = append(r.Health, ms(health)), append(r.Answer, ms(time.Since(child.began)))
	if p == nil {
		return nil
	}
	poll.close()
	if p.AnswerMemory, err = residentMemory(pid); err != nil {
		return err
	}
	if c.Idle > 0 {
		alive, forget := child.alive(ctx)
		defer forget()
		if err := p.watch(alive, pid, c.Idle); err != nil {
			return err
		}
	}
	r.Process = p
	return nil
}

type question struct {
	Model     string `json:"model,omitempty"`
	Messages  []turn `json:"messages"`
	MaxTokens int    `json:"max_tokens"`
}

type turn struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// observe returns nil if the system does not tell the memory of a process.
func observe(pid int) *Process {
	memory, err := residentMemory(pid)
	if err != nil {
		return nil
	}
	return &Process{StartMemory: memory}
}

// watch measures how much processor time a process uses that has nothing to do.
func (p *Process) watch(ctx context.Context, pid int, idle time.Duration) error {
	before, err := processTime(pid)
	if err != nil {
		return err
	}
	begin := time.Now()
	select {
	case <-time.After(idle):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	after, err := processTime(pid)
	if err != nil {
		return err
	}
	wall := time.Since(begin)
	p.IdleSeconds, p.IdleCPU = wall.Seconds(), 100*(after-before).Seconds()/wall.Seconds()
	return nil
}

// WriteText writes the report as a table for people.
func (r *StartReport) WriteText(w io.Writer) error {
	t := &table{w: w}
	t.printf("%-24s %9s %9s %9s %9s\n", fmt.Sprintf("from start, %d runs", len(r.Health)), "min", "median", "p90", "max")
	for _, row := range []struct {
		label  string
		values []float64
	}{{"to healthy (ms)", r.Health}, {"to first answer (ms)", r.Answer}} {
		s := newSamples(append([]float64(nil), row.values...))
		t.printf("%-24s %9.1f %9.1f %9.1f %9.1f\n", row.label, s.Percentile(0), s.Percentile(50), s.Percentile(90), s.Percentile(100))
	}
	p := r.Process
	if p == nil {
		t.printf("memory and idle CPU are not known: they are read from /proc in the last run\n")
		return t.err
	}
	t.printf("%-24s %9.1f healthy, %.1f after the first answer\n", "resident memory (MiB)", float64(p.StartMemory)/(1<<20), float64(p.AnswerMemory)/(1<<20))
	if p.IdleSeconds > 0 {
		t.printf("%-24s %9.2f over %.1f s\n", "idle CPU (% of one)", p.IdleCPU, p.IdleSeconds)
	}
	return t.err
}

// WriteBenchmark writes the report as lines of Go benchmarks, which benchstat reads.
func (r *StartReport) WriteBenchmark(w io.Writer) error {
	t := &table{w: w}
	for i := range r.Health {
		t.printf("BenchmarkStart/to=healthy 1 %.0f ns/op\n", r.Health[i]*1e6)
		t.printf("BenchmarkStart/to=answer 1 %.0f ns/op\n", r.Answer[i]*1e6)
	}
	if p := r.Process; p != nil {
		t.printf("BenchmarkStart/process 1 %d start-rss-B %d answer-rss-B", p.StartMemory, p.AnswerMemory)
		if p.IdleSeconds > 0 {
			t.printf(" %.3f idle-cpu-%%", p.IdleCPU)
		}
		t.printf("\n")
	}
	return t.err
}

// WriteJSON writes the raw numbers.
func (r *StartReport) WriteJSON(w io.Writer) error {
	text, err := jsontext.EncodeIndent(r, "  ")
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	_, err = w.Write(append(text, '\n'))
	return err
}
