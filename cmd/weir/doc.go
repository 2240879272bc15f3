// Command weir serves language models, chats with them in the terminal, and measures how
// fast all of that is. weir help lists its commands; cmd/weir is the only package that
// reads flags, listens for signals and knows every other package.
//
// # Where to read
//
//	main.go, commands.go          what main does, and the table of all commands
//	flags.go, flagvalues.go       one flag set per command; flags, environment and YAML file
//	help.go, man.go, completion.go   what is generated from the table: --help, weir man, and
//	                              completion in bash, zsh and fish
//	options.go, options_serve.go  the flags that say what runs, and how it is served
//	serve.go, listen.go           weir serve: putting a server together, running it, stopping it
//	options_tls.go, options_life.go, drain.go, operator.go, steps.go, systemd.go
//	                              what surrounds it: TLS, sockets, draining, the operator's listener, systemd
//	chat.go, terminal.go          weir chat, which is a client of a server in the same process
//	hub.go, pull.go, progress.go  models of the hub, and the commands of its cache
//	source.go                     a model's files: config, tokenizer, templates, defaults
//	engine.go, gpu*.go            choosing the device and sizing the engine
//	sizing.go, machine.go         how large the KV cache may be, and what the machine allows
//	records.go, retention.go      databases of feedback and trajectories, and their upkeep
//	store.go, stores.go, admin.go weir store, and the socket on which a server answers it
//	health.go                     weir health, for health checks of containers
//	bench*.go, gpucheck*.go       measurements and checks
//
// # The table of commands
//
// A command has a setup function that defines its flags and returns the function that runs
// it. Setup has no other effect, so --help, the manual page and shell completion call it as
// well and always agree with what the command accepts. A flag is set by the command line,
// by the environment (--max-model-len as WEIR_MAX_MODEL_LEN) or by the YAML file of
// --config, in this order. Names and meanings of flags are those of vLLM where vLLM has
// them. The exit status is 0 for success, 1 for a failure and 2 if weir was called wrongly.
//
// # Start
//
// Starting a server goes from what is cheap to check to what takes long:
//
//  1. A model that is named by its name on the hub is looked for in the cache, and what is
//     missing is downloaded.
//  2. config.json, tensor headers, vocabulary and templates are read and checked, and so are
//     all options. A mistake is one sentence on standard error and a non-zero exit status,
//     and no port has been opened.
//  3. The port opens. Requests are answered with 503 and the progress of loading, so that a
//     supervisor can tell a server that loads from one that is gone.
//  4. The engine opens its device, which loads the weights, and becomes ready.
//
// The databases of feedback and trajectories are opened beside this, on first use; their
// requests get 503 until then. SIGTERM or SIGINT lets requests in flight finish within
// --shutdown-timeout; a second signal stops at once. If the engine fails for good, /health
// turns to 503 and the process ends with status 1, for a supervisor to start it again.
//
// # Memory and threads
//
// The KV cache gets --kv-cache-memory, or a quarter of the memory that the machine and its
// control groups allow, but no more than --max-num-seqs sequences of full length need. A
// cache that cannot hold one full sequence is refused, with the flags that would help. On a
// GPU the cache gets what is left after the largest step has run once, within
// --gpu-memory-utilization. Weights that do not fit into the memory that is free now are
// refused before any is read.
//
// There are as many computing threads as physical cores that affinity and control groups
// leave. A quota of processor time is rounded down: with more threads, the system would stop
// one after the other, and every step would wait for the one that is stopped. This package
// alone sets GOMAXPROCS: to one more than the computing threads, so that connections and the
// preparation of requests do not wait for the end of a step; on a GPU to at least two, because
// the engine's loop polls the device and must find a processor.
//
// # Records
//
// Feedback and trajectories have a database each, because compacting gigabytes of rollouts
// must not delay feedback. badger locks a directory, so weir store cannot open the databases
// of a running server. It asks the server instead, through a Unix socket in the data
// directory that only the directory's owner can use, and opens the databases itself if
// there is no server.
package main
