//go:build cuda && linux && amd64

package check

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"weir/device/cuda"
)

// Options say what is checked, and how.
type Options struct {
	Config cuda.Config
	Quick  bool           // small shapes, for a driver that emulates
	Only   *regexp.Regexp // sections by "number title"; nil: all
	JSON   string         // file or folder for the results, rewritten after each section; "" is none
	Out    io.Writer
	Limit  time.Duration // of one section
	Total  time.Duration // no section starts after it
	// Command makes the process that runs one section and prints its records;
	// nil runs it in this process.
	Command func(section string) *exec.Cmd
}

// Verdicts of a record; none is a measurement.
const (
	OK    = "ok"
	Wrong = "wrong"
)

// Record is one line of the results.
type Record struct {
	Name    string         `json:"name"`
	Verdict string         `json:"verdict,omitempty"`
	Values  map[string]any `json:"values,omitempty"`
}

func (r Record) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-5s %-44s", r.Verdict, r.Name)
	keys := make([]string, 0, len(r.Values))
	for k := range r.Values {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		switch v := r.Values[k].(type) {
		case float64:
			fmt.Fprintf(&b, " %s=%.4g", k, v)
		default:
			fmt.Fprintf(&b, " %s=%v", k, v)
		}
	}
	return b.String()
}

// Section is what became of one.
type Section struct {
	Number  string   `json:"section"`
	Title   string   `json:"title"`
	State   string   `json:"state"` // done, wrong, failed: why, out of time, left out
	Seconds float64  `json:"seconds"`
	Records []Record `json:"records"`
}

// Report is the file of results.
type Report struct {
	Started  string    `json:"started"`
	Version  string    `json:"version"`
	Device   string    `json:"device"`
	Quick    bool      `json:"quick"`
	Sections []Section `json:"sections"`
}

// ErrWrong says that a section did not end well.
var ErrWrong = errors.New("gpu-check: not everything is right")

type section struct {
	number, title string
	run           func(*checker) error
}

var sections = []section{
	{"0", "device, driver, kernels as compiled", facts},
	{"1", "kernels of single rows", rowKernels},
	{"2", "products", products},
	{"3", "attention", attention},
	{"4", "draws", draws},
	{"5", "a trained model against the CPU", network},
	{"6", "ceilings and rates of kernels", rates},
	{"7", "steps of models with random weights", steps},
}

// checker runs one section.
type checker struct {
	lab  *cuda.Lab
	o    *Options
	rng  *rand.Rand
	emit func(Record)
}

func (c *checker) record(name, verdict string, pairs ...any) {
	r := Record{Name: name, Verdict: verdict, Values: map[string]any{}}
	for i := 0; i+1 < len(pairs); i += 2 {
		r.Values[pairs[i].(string)] = pairs[i+1]
	}
	c.emit(r)
}

func verdict(ok bool) string {
	if ok {
		return OK
	}
	return Wrong
}

// pick is quick's value or full's.
func pick[T any](c *checker, quick, full T) T {
	if c.o.Quick {
		return quick
	}
	return full
}

// RunSection runs one section here and now.
func RunSection(o Options, number string, emit func(Record)) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, s := range sections {
		if s.number == number {
			c := &checker{o: &o, rng: rand.New(rand.NewPCG(1, uint64(number[0]))), emit: emit}
			return s.run(c)
		}
	}
	return fmt.Errorf("gpu-check: there is no section %q", number)
}

// family is products whose bits do not depend on the number of rows: by the
// instructions and by what the weights are stored as.
type family struct {
	name     string
	products cuda.Products
	weights  cuda.Format
}

// families are those that the device has.
func (c *checker) families() ([]family, error) {
	list, err := cuda.Probe(c.o.Config.Driver)
	if err != nil {
		return nil, err
	}
	f := []family{{"mma", cuda.MMA, cuda.BF16}}
	if list[c.o.Config.Ordinal].Hopper() {
		f = append(f, family{"wgmma", cuda.WGMMA, cuda.BF16})
	}
	return append(f, family{"q8", cuda.MMA, cuda.Q8}, family{"q4", cuda.MMA, cuda.Q4}), nil
}

// eachFamily opens the device for single kernels once for each family of
// products.
func (c *checker) eachFamily(run func(family) error) error {
	list, err := c.families()
	for _, f := range list {
		if err == nil {
			err = c.with(f.products, func() error { return run(f) })
		}
	}
	return err
}

// withLab opens the device for single kernels.
func (c *checker) withLab(f func() error) (err error) { return c.with(cuda.MMA, f) }

func (c *checker) with(products cuda.Products, f func() error) (err error) {
	cfg := c.o.Config
	cfg.Products = products
	if c.lab, err = cuda.OpenLab(cfg); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.lab.Close()) }()
	return f()
}

// Run runs all sections and returns ErrWrong if one did not end well.
func Run(o Options, version string) error {
	list, err := cuda.Probe(o.Config.Driver)
	if err != nil {
		return err
	}
	if o.Config.Ordinal >= len(list) {
		return fmt.Errorf("gpu-check: the driver has %d devices", len(list))
	}
	start := time.Now()
	rep := Report{Started: start.UTC().Format(time.RFC3339), Version: version, Device: list[o.Config.Ordinal].String(), Quick: o.Quick}
	fmt.Fprintf(o.Out, "%s, weir %s\n", rep.Device, version)
	if info, err := os.Stat(o.JSON); err == nil && info.IsDir() {
		o.JSON = filepath.Join(o.JSON, rep.FileName(list[o.Config.Ordinal].Name))
	}
	bad := 0
	for _, s := range sections {
		if o.Only != nil && !o.Only.MatchString(s.number+" "+s.title) {
			continue
		}
		fmt.Fprintf(o.Out, "== %s %s\n", s.number, s.title)
		res := Section{Number: s.number, Title: s.title, State: "left out"}
		if left := o.Total - time.Since(start); left > time.Second {
			began := time.Now()
			err := o.section(s, min(left, o.Limit), func(r Record) {
				res.Records = append(res.Records, r)
				fmt.Fprintln(o.Out, "  ", r)
			})
			res.Seconds = time.Since(began).Seconds()
			wrong := slices.ContainsFunc(res.Records, func(r Record) bool { return r.Verdict == Wrong })
			switch {
			case err != nil:
				res.State = "failed: " + err.Error()
			case wrong:
				res.State = "wrong"
			default:
				res.State = "done"
			}
		}
		fmt.Fprintf(o.Out, "   %s, %.1f s\n", res.State, res.Seconds)
		if res.State != "done" {
			bad++
		}
		rep.Sections = append(rep.Sections, res)
		if err := rep.write(o.JSON); err != nil {
			return err
		}
	}
	if bad > 0 {
		return fmt.Errorf("%w: %d sections", ErrWrong, bad)
	}
	return nil
}

// section runs one, in a process of its own where there is a command for that.
func (o *Options) section(s section, limit time.Duration, emit func(Record)) error {
	if o.Command == nil {
		return RunSection(*o, s.number, emit)
	}
	cmd := o.Command(s.number)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	cmd.WaitDelay = 3 * time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	late := time.AfterFunc(limit, func() { _ = cmd.Process.Kill() })
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r Record
		if json.Unmarshal(lines.Bytes(), &r) == nil {
			emit(r)
		}
	}
	err = cmd.Wait()
	if !late.Stop() {
		return errors.New("out of time")
	}
	if err != nil {
		text := strings.TrimSpace(complaints.String())
		return fmt.Errorf("%w: %s", err, text[:min(len(text), 2000)])
	}
	return nil
}

// FileName names the file of results by date, card and commit.
func (r *Report) FileName(card string) string {
	word := func(s string) string {
		return strings.Trim(regexp.MustCompile(`[^a-z0-9.]+`).ReplaceAllString(strings.ToLower(s), "-"), "-")
	}
	return fmt.Sprintf("%.10s-%s-%s.json", r.Started, word(card), word(r.Version))
}

func (r *Report) write(path string) error {
	if path == "" {
		return nil
	}
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", append(b, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
