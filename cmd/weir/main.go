// Command weir serves language models.
//
//	weir serve [MODEL]   the HTTP server
//	weir chat [MODEL]    a chat in the terminal
//	weir bench start     how fast a server starts
//	weir bench serve     how a server bears a load
//	weir bench engine    how fast the backend computes
//	weir store COMMAND   backup, restore, verify, export of records
//	weir gpu-check       the CUDA backend checked and measured on this machine
//	weir version
//
// MODEL is a folder as Hugging Face lays it out. Without one, the model inside
// the binary is used.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"github.com/spf13/pflag"

	"weir/device/cpu"
)

// version is set by the linker.
var version = "devel"

func main() {
	os.Exit(run(os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr))
}

const overview = `weir serves language models.

  weir serve [MODEL] [flags]   serve MODEL over HTTP, by default on http://127.0.0.1:8000
  weir chat  [MODEL] [flags]   chat with MODEL, or with a server (--url), in the terminal
  weir bench start [flags]     measure how fast a server starts, and what it takes when idle
  weir bench serve [flags]     put a load on a server and measure its answers
  weir bench engine [flags]    measure prefill and decode beside what the machine can do
  weir store COMMAND [flags]   back up, restore, verify or export the records
  weir gpu-check [flags]       check and measure the CUDA backend on this machine's GPU
  weir version                 print the version
  weir help                    print this

MODEL is a folder with config.json, *.safetensors and tokenizer.json, as on the
Hugging Face Hub. Without one, the small model inside the binary is used.

weir COMMAND --help lists a command's flags. Every flag can also be set in a
YAML file (--config FILE, the flag names as keys) and in the environment
(--max-model-len as WEIR_MAX_MODEL_LEN). The command line wins over the
environment, and the environment over the file.
`

// run is main with its surroundings passed in. It returns the exit status: 0,
// 1 for what failed, 2 for what was asked wrongly.
func run(args []string, env func(string) string, in io.Reader, out, errOut io.Writer) int {
	cmd := ""
	if len(args) > 0 {
		cmd, args = args[0], args[1:]
	}
	var err error
	switch cmd {
	case "serve":
		err = serveMain(args, env, out, errOut)
	case "chat":
		err = chatMain(args, env, in, out, errOut)
	case "bench":
		err = benchMain(args, env, out, errOut)
	case "gpu-check":
		err = gpuCheckMain(args, env, out, errOut)
	case "store":
		err = storeMain(args, env, in, out, errOut)
	case "version", "--version", "-v":
		err = printVersion(out, env)
	case "help", "--help", "-h":
		fmt.Fprint(out, overview)
	case "":
		fmt.Fprint(errOut, overview)
		return 2
	default:
		err = usageError{fmt.Errorf("unknown command %q; weir help lists them", cmd)}
	}
	switch {
	case err == nil, errors.Is(err, pflag.ErrHelp):
		return 0
	}
	fmt.Fprintf(errOut, "weir: %v\n", err)
	if errors.As(err, new(usageError)) {
		return 2
	}
	return 1
}

// printVersion says what this is, and what it would compute with.
func printVersion(out io.Writer, env func(string) string) error {
	fmt.Fprintf(out, "weir %s %s %s/%s\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	tier, err := cpu.Tier(env(envName("cpu")))
	if err != nil {
		return usageError{fmt.Errorf("environment variable %s: %w", envName("cpu"), err)}
	}
	fmt.Fprintf(out, "instructions: %s (of %s), %d cores\n", tier, strings.Join(cpu.Impls(), ", "), cpu.Cores())
	return nil
}

// usageError is a mistake in how weir was called.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }
