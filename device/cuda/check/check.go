//go:build cuda && linux && amd64

package check

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"weir/device/cuda"
	"weir/device/cuda/kernels"
)

// Options say what is checked, and how.
type Options struct {
	Config cuda.Config
	Quick  bool           // small shapes, for a driver that emulates
	Only   *regexp.Regexp // sections by "number title"; nil: all
	JSON   string         // file or folder for the results, rewritten after each section; "" is none
	Out    io.Writer
	Total  time.Duration // of everything; sections share it by their budgets
	Python string        // the interpreter that may have torch; "" is python3
	// Scratch is a folder for machine code and random weights, 16 GB of them; ""
	// is one that is made and removed.
	Scratch string
	// Command makes the process that runs one section within a time, as o says, and
	// prints its records; nil runs it in this process.
	Command func(section string, within time.Duration, o *Options) *exec.Cmd
}

// Verdicts of a record; none is a measurement.
const (
	OK      = "ok"
	Wrong   = "wrong"
	Skipped = "skipped"              // the device does not have it
	Late    = "not measured (time)"  // its section's time was up
	Missed  = "not measured (error)" // its section ended with an error before
)

// A section's process also reports the names of tasks: those that are planned, and those
// that have ended.
const planned, over = "planned", "over"

// Record is one line of the results.
type Record struct {
	Name    string         `json:"name"`
	Verdict string         `json:"verdict,omitempty"`
	Values  map[string]any `json:"values,omitempty"`
	Kernels []string       `json:"kernels,omitempty"` // that it is about
	Key     string         `json:"key,omitempty"`     // torch's time for the same work has the same key
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

// number is a value that may have come from JSON.
func (r Record) number(key string) (float64, bool) {
	v, ok := r.Values[key].(float64)
	return v, ok
}

// Section is the result of one section.
type Section struct {
	Number  string   `json:"section"`
	Title   string   `json:"title"`
	State   string   `json:"state"` // done, wrong, failed: why, out of time
	Seconds float64  `json:"seconds"`
	Within  float64  `json:"within"` // the seconds that it had
	Records []Record `json:"records"`
}

// ErrWrong says that a section failed.
var ErrWrong = errors.New("gpu-check: not everything is right")

// A section is a list of tasks. Its budget is its part of Options.Total, about
// twice what it takes on an H200 by the estimates in STATUS.md.
type section struct {
	number, title string
	budget        time.Duration
	speeds        bool // it only measures, so being cut short is not a failure
	tasks         func(*checker) ([]task, error)
}

// A task opens the device as it needs it. Its memory is freed after it.
type task struct {
	name string
	run  func(*checker) error
}

var sections = []section{
	{"0", "device, driver, kernels as compiled", 45 * time.Second, false, facts},
	{"1", "kernels of single rows and primitives", 25 * time.Second, false, rowKernels},
	{"2", "products", 70 * time.Second, false, products},
	{"3", "attention", 35 * time.Second, false, attention},
	{"4", "draws", 25 * time.Second, false, draws},
	{"5", "a trained model against the CPU", 60 * time.Second, false, network},
	{"6", "ceilings and rates of kernels", 55 * time.Second, true, rates},
	{"7", "steps of models with random weights", 105 * time.Second, true, steps},
	{"8", "torch, where the machine has it", 50 * time.Second, true, torch},
}

// checker runs one section.
type checker struct {
	lab  *cuda.Lab // open, or nil
	with cuda.Products
	o    *Options
	rng  *rand.Rand // of the task
	end  time.Time  // no task begins after it
	bw   float64    // bytes in a second: the ceiling, once it was measured
	emit func(Record)
}

// record emits a line about the kernels that were launched since begin.
func (c *checker) record(name, verdict string, pairs ...any) {
	r := Record{Name: name, Verdict: verdict, Values: map[string]any{}}
	for i := 0; i+1 < len(pairs); i += 2 {
		r.Values[pairs[i].(string)] = pairs[i+1]
	}
	if key, ok := r.Values["key"].(string); ok {
		r.Key = key
		delete(r.Values, "key")
	}
	if c.lab != nil {
		r.Kernels = c.lab.Launched()
	}
	c.emit(r)
}

// begin says that the next records are about the kernels launched from here on. Those
// before only prepared.
func (c *checker) begin() { c.lab.Forget() }

func verdict(ok bool) string {
	if ok {
		return OK
	}
	return Wrong
}

// pick returns the value for a quick check or for a full one.
func pick[T any](c *checker, quick, full T) T {
	if c.o.Quick {
		return quick
	}
	return full
}

// RunSection runs one section in this process. No task begins after the time within,
// unless it is 0.
func RunSection(o Options, number string, within time.Duration, emit func(Record)) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// The driver's compiler runs in the first section only. The device is opened some
	// forty times after that, and each time would take these seconds again.
	if o.Config.CacheDir == "" && o.Scratch != "" {
		o.Config.CacheDir = filepath.Join(o.Scratch, "code")
	}
	for _, s := range sections {
		if s.number == number {
			c := &checker{o: &o, emit: emit}
			if within > 0 {
				c.end = time.Now().Add(within)
			}
			return c.run(s)
		}
	}
	return fmt.Errorf("gpu-check: there is no section %q", number)
}

func (c *checker) run(s section) (err error) {
	list, err := s.tasks(c)
	if err != nil {
		return err
	}
	for _, t := range list {
		c.emit(Record{Name: t.name, Verdict: planned})
	}
	defer func() { err = errors.Join(err, c.close()) }()
	for _, t := range list {
		if !c.end.IsZero() && time.Now().After(c.end) {
			continue // it stays planned
		}
		// Each task has random numbers of its own, so it does not depend on those before.
		h := fnv.New64a()
		_, _ = h.Write([]byte(t.name))
		c.rng = rand.New(rand.NewPCG(1, h.Sum64()))
		if err := t.run(c); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
		if c.lab != nil {
			if err := c.lab.Free(); err != nil {
				return fmt.Errorf("%s: %w", t.name, err)
			}
			c.lab.Forget()
		}
		c.emit(Record{Name: t.name, Verdict: over})
	}
	return nil
}

// open opens the device for single kernels, unless it is open for these products.
func (c *checker) open(products cuda.Products) (err error) {
	if c.lab != nil && c.with == products {
		return nil
	}
	if err := c.close(); err != nil {
		return err
	}
	cfg := c.o.Config
	cfg.Products = products
	c.with = products
	c.lab, err = cuda.OpenLab(cfg)
	return err
}

func (c *checker) close() (err error) {
	if c.lab != nil {
		err = c.lab.Close()
		c.lab = nil
	}
	return err
}

// family is a set of products whose bits do not depend on the number of rows: those with
// one instruction and one format of weights.
type family struct {
	name     string
	products cuda.Products
	weights  cuda.Format
}

func (c *checker) info() (cuda.Info, error) {
	list, err := cuda.Probe(c.o.Config.Driver)
	if err != nil {
		return cuda.Info{}, err
	}
	return list[c.o.Config.Ordinal], nil
}

// families lists those that the device has.
func (c *checker) families() ([]family, error) {
	info, err := c.info()
	if err != nil {
		return nil, err
	}
	f := []family{{"mma", cuda.MMA, cuda.BF16}}
	if info.Hopper() {
		f = append(f, family{"wgmma", cuda.WGMMA, cuda.BF16})
	}
	return append(f, family{"q8", cuda.MMA, cuda.Q8}, family{"q4", cuda.MMA, cuda.Q4}), nil
}

// eachFamily makes tasks for each family of products.
func (c *checker) eachFamily(add func(family)) error {
	list, err := c.families()
	for _, f := range list {
		add(f)
	}
	return err
}

// has reports whether the launch table has a kernel. Some kernels are alternatives, and
// checks must not depend on which of them there are.
func has(kernel string) bool {
	return slices.ContainsFunc(kernels.Entries, func(e kernels.Entry) bool { return e.Name == kernel })
}
