//go:build cuda && linux && amd64

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"time"

	"github.com/spf13/pflag"

	"weir/device/cuda"
	"weir/device/cuda/check"
)

// gpuCheckMain runs the checks of the CUDA backend. Each section is a process,
// which is this program with --section.
func gpuCheckMain(args []string, env func(string) string, out, errOut io.Writer) error {
	fs := pflag.NewFlagSet("weir gpu-check", pflag.ContinueOnError)
	fs.SetOutput(errOut)
	device := deviceFlag(fs)
	driver := fs.String("cuda-driver", "", "`library` of the CUDA driver (default: libcuda.so.1)")
	quick := fs.Bool("quick", false, "small shapes")
	only := fs.String("only", "", "run the sections alone whose \"number title\" matches this `pattern`")
	results := fs.String("json", "", "`file` for the results, rewritten after each section; in a folder its name is date, card and commit")
	total := fs.Duration("total", 470*time.Second, "longest time for all; sections share it, and what they have no time for is listed")
	python := fs.String("python", "python3", "`interpreter` that may have torch to compare with")
	section := fs.String("section", "", "run this section in this process and print its records as JSON")
	within := fs.Duration("within", 0, "with --section: no task begins after this")
	scratch := fs.String("scratch", "", "`folder` for random weights, 16 GB of them, and machine code (default: one in memory, or the usual one)")
	_ = errors.Join(fs.MarkHidden("section"), fs.MarkHidden("within"))
	fs.Usage = func() {
		fmt.Fprintf(out, "weir gpu-check checks the CUDA backend on the GPU of this machine and measures it: against float64\nand the CPU, and as shares of what the GPU was measured to do. Exit status: 0 all well, 1 something is\nwrong, 2 there is no GPU that can be used.\n\n%s", fs.FlagUsages())
	}
	rest, err := parse(fs, args, env)
	if err != nil {
		return err
	}
	n, ok := ordinal(*device)
	if len(rest) > 0 || !ok {
		return usageError{errors.New("gpu-check takes no model, and --device cuda or cuda:N")}
	}
	o := check.Options{Config: cuda.Default(), Quick: *quick, JSON: *results, Out: out, Total: *total, Python: *python, Scratch: *scratch}
	o.Config.Driver, o.Config.Ordinal = *driver, n
	if *section != "" {
		lines := json.NewEncoder(out)
		return check.RunSection(o, *section, *within, func(r check.Record) { _ = lines.Encode(r) })
	}
	if *only != "" {
		if o.Only, err = regexp.Compile(*only); err != nil {
			return usageError{fmt.Errorf("--only: %w", err)}
		}
	}
	if list, err := cuda.Probe(*driver); err != nil {
		return usageError{err}
	} else if n >= len(list) || !list[n].Usable() {
		return usageError{fmt.Errorf("device %d of %v cannot be used", n, list)}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	o.Command = func(section string, within time.Duration, o *check.Options) *exec.Cmd {
		return exec.Command(self, "gpu-check", "--section", section, "--within", within.String(), "--scratch", o.Scratch, "--python", o.Python,
			"--device", fmt.Sprintf("cuda:%d", n), "--cuda-driver", *driver, fmt.Sprintf("--quick=%v", *quick))
	}
	return check.Run(o, version)
}
