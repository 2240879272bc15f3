//go:build cuda && linux && amd64

package check

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"weir/device/cuda"
	"weir/internal/jsontext"
)

// Run runs all sections and returns ErrWrong if one failed.
func Run(o Options, version string) (err error) {
	list, err := cuda.Probe(o.Config.Driver)
	if err != nil {
		return err
	}
	if o.Config.Ordinal >= len(list) {
		return fmt.Errorf("gpu-check: the driver has %d devices", len(list))
	}
	if o.Scratch == "" {
		if o.Scratch, err = os.MkdirTemp(roomy(), "weir-gpu-check-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(o.Scratch)) }()
	}
	start := time.Now()
	info := list[o.Config.Ordinal]
	rep := Report{Started: start.UTC().Format(time.RFC3339), Version: version, Device: info.String(), Quick: o.Quick, hopper: info.Hopper()}
	fmt.Fprintf(o.Out, "%s, weir %s\n", rep.Device, version)
	if info, err := os.Stat(o.JSON); err == nil && info.IsDir() {
		o.JSON = filepath.Join(o.JSON, rep.FileName(list[o.Config.Ordinal].Name))
	}
	chosen := slices.Clone(sections)
	if o.Only != nil {
		chosen = slices.DeleteFunc(chosen, func(s section) bool { return !o.Only.MatchString(s.number + " " + s.title) })
	}
	ends := deadlines(chosen, o.Total)
	bad := 0
	for i, s := range chosen {
		fmt.Fprintf(o.Out, "== %s %s\n", s.number, s.title)
		within := ends[i] - time.Since(start)
		res := o.section(s, within)
		fmt.Fprintf(o.Out, "   %s, %.1f s of %.0f\n", res.State, res.Seconds, res.Within)
		if res.State != "done" && !(s.speeds && res.State == outOfTime) {
			bad++
		}
		rep.Sections = append(rep.Sections, res)
		rep.conclude()
		if err := rep.write(o.JSON); err != nil {
			return err
		}
	}
	rep.print(o.Out)
	fmt.Fprintf(o.Out, "%.0f s in all\n", time.Since(start).Seconds())
	if bad > 0 {
		return fmt.Errorf("%w: %d sections", ErrWrong, bad)
	}
	if o.Only == nil {
		if n := rep.unexplained(); n > 0 {
			return fmt.Errorf("%w: %d kernels were not launched, for no reason that is known", ErrWrong, n)
		}
	}
	return nil
}

// roomy is a folder in memory if there is enough memory, so that writing 16 GB of random
// weights does not depend on a disk. Otherwise it is "", for the usual folder.
func roomy() string {
	const shm, most = "/dev/shm", 20 << 30
	var available int64
	if b, err := os.ReadFile("/proc/meminfo"); err == nil {
		if _, rest, ok := strings.Cut(string(b), "MemAvailable:"); ok {
			_, _ = fmt.Sscan(rest, &available)
		}
	}
	if available<<10 > 3*most && freeBytes(shm) > most {
		return shm
	}
	return ""
}

// deadlines are the times by which each section must have ended, from the start of the
// first. Time that one does not use goes to the next.
func deadlines(list []section, total time.Duration) []time.Duration {
	var sum, at float64
	for _, s := range list {
		sum += float64(s.budget)
	}
	var ends []time.Duration
	for _, s := range list {
		at += float64(s.budget)
		ends = append(ends, time.Duration(float64(total)*at/sum))
	}
	return ends
}

const outOfTime = "out of time"

// section runs one section. Every task that it has planned is in the results, whatever
// happens.
func (o *Options) section(s section, within time.Duration) Section {
	res := Section{Number: s.number, Title: s.title, State: "done", Within: within.Seconds(), Records: []Record{}}
	began := time.Now()
	var pending []string
	emit := func(r Record) {
		switch r.Verdict {
		case planned:
			pending = append(pending, r.Name)
		case over:
			pending = slices.DeleteFunc(pending, func(n string) bool { return n == r.Name })
		default:
			res.Records = append(res.Records, r)
			fmt.Fprintln(o.Out, "  ", r)
		}
	}
	var err error
	late := within < time.Second
	if late {
		pending = append(pending, "all of section "+s.number)
	} else if o.Command == nil {
		err = RunSection(*o, s.number, within, emit)
	} else {
		late, err = o.process(s, within, emit)
	}
	why := Late
	if err != nil {
		why = Missed
	}
	if len(pending) > 0 && err == nil {
		late = true
	}
	for _, name := range pending {
		emit(Record{Name: name, Verdict: why})
	}
	res.Seconds = time.Since(began).Seconds()
	if slices.ContainsFunc(res.Records, func(r Record) bool { return r.Verdict == Late }) {
		late = true
	}
	switch {
	case err != nil:
		res.State = "failed: " + err.Error()
	case slices.ContainsFunc(res.Records, func(r Record) bool { return r.Verdict == Wrong }):
		res.State = "wrong"
	case late:
		res.State = outOfTime
	}
	return res
}

// process runs a section in a process of its own. It knows when it must end, and is
// killed if it does not.
func (o *Options) process(s section, within time.Duration, emit func(Record)) (late bool, err error) {
	soft := within - min(within/8, 5*time.Second) // for the task that runs then
	cmd := o.Command(s.number, soft, o)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	cmd.WaitDelay = time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		return false, err
	}
	if err := cmd.Start(); err != nil {
		return false, err
	}
	kill := time.AfterFunc(within-time.Second, func() { _ = cmd.Process.Kill() })
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r Record
		if jsontext.Decode(lines.Bytes(), &r) == nil {
			emit(r)
		}
	}
	err = cmd.Wait()
	if !kill.Stop() {
		return true, nil
	}
	var status *exec.ExitError
	if err != nil && !errors.As(err, &status) {
		return false, err
	}
	if err != nil {
		text := strings.TrimSpace(complaints.String())
		return false, fmt.Errorf("%w: %s", err, text[:min(len(text), 2000)])
	}
	return false, nil
}
