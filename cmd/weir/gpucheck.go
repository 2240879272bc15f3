package main

import (
	"errors"
	"time"
)

// gpuCheckOptions are the flags of weir gpu-check.
type gpuCheckOptions struct {
	device, driver  string
	quick           bool
	only            string
	results         string
	total           time.Duration
	python, scratch string

	section string // run this section in this process
	within  time.Duration
}

func (o *gpuCheckOptions) bind(f *flagSet) {
	f.deviceFlag(&o.device)
	f.StringVar(&o.driver, "cuda-driver", "", "`file` of the CUDA driver's library (default: libcuda.so.1)")
	f.BoolVar(&o.quick, "quick", false, "use small shapes")
	f.StringVar(&o.only, "only", "", "run only the sections whose \"number title\" matches this regular `expression`")
	f.StringVar(&o.results, "json", "", "`file` for the results, rewritten after each section; in a folder, its name is made of date, card and commit")
	f.DurationVar(&o.total, "total", 470*time.Second, "longest time for everything; sections share it, and what they have no time for is listed")
	f.StringVar(&o.python, "python", "python3", "Python `interpreter`, which may have torch to compare with")
	f.StringVar(&o.scratch, "scratch", "", "`folder` for 16 GB of random weights and for machine code (default: a folder in memory, and the user's cache)")
	f.StringVar(&o.section, "section", "", "run this section in this process and print its records as JSON")
	f.DurationVar(&o.within, "within", 0, "with --section: no task begins after this")
	_ = errors.Join(f.MarkHidden("section"), f.MarkHidden("within"))
}
