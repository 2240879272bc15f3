package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"

	"weir/bench/hostside"
	"weir/device/cpu"
)

// A command is one of the things that weir does. This table is the only source of
// the command line: weir help, every --help, the manual page and shell completion
// are made from it.
type command struct {
	name    string // its words, such as "bench serve"
	args    string // what follows them, as usage shows it
	summary string // one line, for weir help
	about   string // paragraphs for --help and the manual page
	words   []string
	model   bool // the argument is a model

	// setup adds the command's flags and returns what runs once they have their
	// values. It has no other effect, because documentation calls it too.
	setup func(f *flagSet, env *environment) action
}

// An action runs a command with the arguments that are not flags.
type action func(args []string) error

const modelArgument = `MODEL is a GGUF file, or a folder with config.json, *.safetensors and a tokenizer, as on the Hugging Face Hub, or the name of a model there: org/name, org/name@revision, org/name:QUANT for one type of GGUF files, and the same after hf://. A path that exists wins. What is missing is downloaded into the cache that the Python library huggingface_hub uses too. Without MODEL, the small model inside the binary is used.`

// commands returns the table in the order of weir help.
func commands() []*command {
	return []*command{
		{name: "serve", args: "[MODEL] [flags]", model: true, setup: setupServe,
			summary: "serve MODEL over HTTP, by default on http://127.0.0.1:8000",
			about:   "Serves a model over HTTP with the OpenAI interface.\n\n" + modelArgument},
		{name: "chat", args: "[MODEL] [flags]", model: true, setup: setupChat,
			summary: "chat with MODEL, or with a server (--url), in the terminal",
			about:   "Chats in the terminal with a model, or with a server that --url names.\n\n" + modelArgument},
		{name: "batch", args: "[MODEL] -i FILE -o FILE [flags]", model: true, setup: setupBatch,
			summary: "answer the requests in a file, without a server", about: batchAbout + "\n\n" + modelArgument},
		{name: "inspect", args: "[MODEL] [flags]", model: true, setup: setupInspect,
			summary: "print what MODEL is and needs, without reading its weights",
			about:   inspectAbout + "\n\n" + modelArgument},
		{name: "pull", args: "MODEL [flags]", setup: setupPull,
			summary: "download MODEL from the Hugging Face Hub, and print its path", about: pullAbout},
		{name: "list", args: "[flags]", setup: setupList,
			summary: "list the models of the hub that are on this machine",
			about:   "Lists the models in the cache of the Hugging Face Hub: revisions, bytes, numbers of files, and when a file was read last, as far as the file system notes that."},
		{name: "rm", args: "MODEL... [flags]", setup: setupRemove,
			summary: "delete models of the hub from this machine",
			about:   "Deletes models from the cache of the Hugging Face Hub, after a question. MODEL is " + nameOnHub + ". Files that other revisions need stay."},
		{name: "bench start", args: "[flags] [-- FLAGS OF SERVE]", setup: setupBenchStart,
			summary: "measure how fast a server starts, and what it uses when idle",
			about:   "Starts a server again and again, and measures the time from the start of the process to its first answers, its memory, and its processor time when idle. Flags after -- are passed to the server."},
		{name: "bench serve", args: "[flags] [-- FLAGS OF SERVE]", setup: setupBenchServe,
			summary: "put a load on a server and measure its answers",
			about:   "Puts a load on a server with the OpenAI interface and measures its answers. Flags, labels and JSON keys are those of vllm bench serve. Flags after -- are passed to the server that --binary starts."},
		{name: "bench sweep", args: "[flags] [-- FLAGS OF SERVE]", setup: setupBenchSweep,
			summary: "measure latency and throughput over loads, and compare servers", about: benchSweepAbout},
		{name: "bench chat", args: "[flags] [-- FLAGS OF SERVE]", setup: setupBenchChat,
			summary: "hold conversations with a server and measure each turn",
			about:   "Holds conversations of many turns with a server with the OpenAI interface, all at once, and measures how long each turn waits for its first token. Every request has the whole history, without thoughts. Flags after -- are passed to the server that --binary starts."},
		{name: "bench engine", args: "[flags]", setup: setupBenchEngine,
			summary: "measure prefill and decode, and compare them with the limits of the machine",
			about:   "Measures prefill and decode on the CPU without a server, and compares them with what the machine can do at most, which is measured in the same run."},
		{name: "bench sim", args: "[flags] [-- FLAGS OF SERVE]", setup: setupBenchSim,
			summary: "measure what a server does besides computing", about: benchSimAbout},
		{name: "bench store", args: "[flags]", setup: setupBenchStore,
			summary: "measure how fast feedback and trajectories are stored",
			about:   "Measures how fast feedback is written and found, and how fast trajectories are logged. Each measurement starts a server on an empty folder."},
		{name: "store", args: "backup|restore|verify|repair|export [FILE] [flags]", words: storeCommands, setup: setupStore,
			summary: "back up, restore, verify, repair or export stored records", about: storeAbout},
		{name: "health", args: "[flags]", setup: setupHealth,
			summary: "ask the server on this machine whether it works, for health checks of containers",
			about:   "Asks GET /health of a server on this machine. The exit status is 0 if the answer is 200, and 1 otherwise. While a model loads, and when the engine has failed for good, the server answers 503."},
		{name: "gpu-check", args: "[flags]", setup: setupGPUCheck,
			summary: "check and measure the CUDA backend on this machine's GPU",
			about: "Checks the CUDA backend on the GPU of this machine against float64 and against the CPU, and measures it as shares of what the GPU was measured to do. " +
				"The exit status is 0 if all is well, 1 if something is wrong, and 2 if there is no usable GPU."},
		{name: "completion", args: "bash|zsh|fish", words: []string{"bash", "zsh", "fish"}, setup: setupCompletion,
			summary: "print a script that completes weir's commands and flags in a shell", about: completionAbout},
		{name: "man", args: "", setup: setupMan,
			summary: "print the manual page in roff",
			about:   "Prints the manual page. To read it: weir man | man -l -"},
		{name: "version", args: "", setup: setupVersion,
			summary: "print the version, and the instructions that the CPU device uses",
			about:   "Prints the version of weir, and the tier of instructions that the CPU device would use on this machine."},
		{name: "help", args: "[COMMAND]", setup: setupHelp,
			summary: "print this text, or the help of a command",
			about:   "Prints an overview, or the help of a command, as COMMAND --help does."},
	}
}

// otherNames are the flags that name commands.
var otherNames = map[string]string{"--version": "version", "-v": "version", "--help": "help", "-h": "help"}

// runCommand finds the command that args begin with and runs it.
func runCommand(args []string, env *environment) error {
	if name, ok := otherNames[args[0]]; ok {
		args = append([]string{name}, args[1:]...)
	}
	if args[0] == completeCommand { // called by the completion scripts
		return complete(args[1:], env)
	}
	if args[0] == referenceCommand { // called by weir bench sim
		return hostside.ServeReferences(os.Stdin, env.out)
	}
	c, rest := findCommand(args)
	if c == nil {
		return unknownCommand(args, env)
	}
	f, act := c.flags(env)
	f.Usage = func() { c.writeHelp(env.out) }
	rest, err := f.parse(rest, env.getenv)
	if err != nil {
		return err
	}
	return act(rest)
}

// flags returns the command's flags, and what runs once they have been parsed.
func (c *command) flags(env *environment) (*flagSet, action) {
	f := newFlagSet("weir " + c.name)
	act := c.setup(f, env)
	if f.HasFlags() {
		f.addCommon()
	}
	return f, act
}

// findCommand finds the command that args begin with, and returns the rest. It
// returns nil if there is none.
func findCommand(args []string) (c *command, rest []string) {
	for _, c := range commands() {
		n := len(strings.Fields(c.name))
		if len(args) >= n && strings.Join(args[:n], " ") == c.name {
			return c, args[n:]
		}
	}
	return nil, nil
}

// unknownCommand explains args that begin with no command.
func unknownCommand(args []string, env *environment) error {
	if args[0] != "bench" {
		return usageError{fmt.Errorf("unknown command %q; weir help lists them", args[0])}
	}
	what := ""
	if len(args) > 1 {
		what = args[1]
	}
	if what == "--help" || what == "-h" {
		writeCommands(env.out, "bench ")
		return nil
	}
	return usageError{fmt.Errorf("bench measures start, serve, sweep, chat, sim, store or engine, not %q", what)}
}

func setupVersion(_ *flagSet, env *environment) action {
	return func(args []string) error {
		if err := noArguments("version", args); err != nil {
			return err
		}
		fmt.Fprintf(env.out, "weir %s %s %s/%s\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
		tier, err := cpu.Tier(env.getenv(envName("cpu")))
		if err != nil {
			return usageError{fmt.Errorf("environment variable %s: %w", envName("cpu"), err)}
		}
		fmt.Fprintf(env.out, "instructions: %s (of %s), %d cores\n", tier, strings.Join(cpu.Impls(), ", "), cpu.Cores())
		return nil
	}
}

func setupHelp(_ *flagSet, env *environment) action {
	return func(args []string) error {
		switch c, rest := findCommand(args); {
		case len(args) == 0:
			writeOverview(env.out)
		case c != nil && len(rest) == 0:
			c.writeHelp(env.out)
		case len(args) == 1 && args[0] == "bench":
			writeCommands(env.out, "bench ")
		default:
			return usageError{fmt.Errorf("help: there is no command %q", strings.Join(args, " "))}
		}
		return nil
	}
}
