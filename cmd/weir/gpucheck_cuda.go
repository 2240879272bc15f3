//go:build cuda && linux && amd64

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"time"

	"weir/device/cuda"
	"weir/device/cuda/check"
	"weir/internal/jsontext"
)

// setupGPUCheck runs the checks of the CUDA backend. Each section is a process of its
// own, which is this program with --section, so that a fault of the GPU ends no other.
func setupGPUCheck(f *flagSet, env *environment) action {
	o := &gpuCheckOptions{}
	o.bind(f)
	return func(args []string) error {
		n, ok := ordinal(o.device)
		if len(args) > 0 || !ok {
			return usageError{errors.New("gpu-check takes no model, and --device cuda or cuda:N")}
		}
		c := check.Options{Config: cuda.Default(), Quick: o.quick, JSON: o.results, Out: env.out, Total: o.total, Python: o.python, Scratch: o.scratch}
		c.Config.Driver, c.Config.Ordinal = o.driver, n
		if o.section != "" {
			return check.RunSection(c, o.section, o.within, func(r check.Record) {
				if line, err := jsontext.Encode(r); err == nil {
					_, _ = env.out.Write(append(line, '\n'))
				}
			})
		}
		return o.run(c)
	}
}

func (o *gpuCheckOptions) run(c check.Options) (err error) {
	if o.only != "" {
		if c.Only, err = regexp.Compile(o.only); err != nil {
			return usageError{fmt.Errorf("--only: %w", err)}
		}
	}
	n := c.Config.Ordinal
	if list, err := cuda.Probe(o.driver); err != nil {
		return usageError{err}
	} else if n >= len(list) || !list[n].Usable() {
		return usageError{fmt.Errorf("device %d of %v cannot be used", n, list)}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	c.Command = func(section string, within time.Duration, c *check.Options) *exec.Cmd {
		return exec.Command(self, "gpu-check", "--section", section, "--within", within.String(), "--scratch", c.Scratch, "--python", c.Python,
			"--device", fmt.Sprintf("cuda:%d", n), "--cuda-driver", o.driver, fmt.Sprintf("--quick=%v", o.quick))
	}
	return check.Run(c, version)
}
