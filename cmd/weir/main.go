package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"
)

// version is set by the linker.
var version = "devel"

func main() {
	os.Exit(run(os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr))
}

// environment is what a command has of its process.
type environment struct {
	getenv      func(string) string
	in          io.Reader
	out, errOut io.Writer
}

// run is main with its environment passed in. It returns the exit status: 0 for
// success, 1 for a failure, 2 if weir was called wrongly.
func run(args []string, getenv func(string) string, in io.Reader, out, errOut io.Writer) int {
	env := &environment{getenv, in, out, errOut}
	if len(args) == 0 {
		writeOverview(errOut)
		return 2
	}
	err := runCommand(args, env)
	if err == nil || errors.Is(err, pflag.ErrHelp) {
		return 0
	}
	fmt.Fprintf(errOut, "weir: %v\n", err)
	if isUsageError(err) {
		return 2
	}
	return 1
}
