package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"weir/bench"
	"weir/internal/jsontext"
)

// benchChatOptions are the flags of weir bench chat. Those of the server are called as in bench serve.
type benchChatOptions struct {
	bench.ChatConfig
	binary      string // server to start; "": one is running
	headers     []string
	temperature float64
	extraBody   string
	wait        int // seconds
	file        string
	serverArgs  []string // the arguments after --
}

func (o *benchChatOptions) bind(f *flagSet) {
	o.ChatConfig = bench.DefaultChatConfig()
	f.group("Server")
	f.StringVar(&o.BaseURL, "base-url", o.BaseURL, "`URL` of the server")
	f.StringVar(&o.binary, "binary", "", "server `program` to start for the run on a free port, with the arguments after --; self is this program")
	f.StringVar(&o.Model, "model", "", "`name` of the model (default: the server's first)")
	f.StringVar(&o.APIKey, "api-key", "", "`key` for the server (default: $OPENAI_API_KEY)")
	f.StringSliceVar(&o.headers, "header", nil, "further `header` of each request: name=value")
	f.BoolVar(&o.Insecure, "insecure", false, "do not check the certificate of an https URL")
	f.IntVar(&o.wait, "ready-check-timeout-sec", 0, "`seconds` to wait for a server that does not answer yet")

	f.group("Conversations")
	f.IntVar(&o.Conversations, "conversations", o.Conversations, "`number` of conversations at once")
	f.IntVar(&o.Turns, "turns", o.Turns, "`number` of messages of the user in each")
	f.IntVar(&o.SystemLen, "system-len", o.SystemLen, "approximate length in `tokens` of a system message that all conversations begin with")
	f.IntVar(&o.FirstLen, "first-len", o.FirstLen, "the same of the first message of the user")
	f.IntVar(&o.MessageLen, "message-len", o.MessageLen, "the same of each further one")
	f.IntVar(&o.OutputLen, "output-len", o.OutputLen, "length in `tokens` of each answer, its thoughts included")
	f.IntVar(&o.AnswerLen, "answer-len", o.AnswerLen, "approximate length in `tokens` of what stands in the history for an answer that was all thought")
	f.Uint64Var(&o.Seed, "seed", 0, "`seed` of the messages")
	f.Float64Var(&o.temperature, "temperature", 0, "sampling `temperature` (default: the server's)")
	f.StringVar(&o.extraBody, "extra-body", "", "`JSON` object whose fields are added to every request")

	f.group("Results")
	f.StringVar(&o.file, "json", "", "`file` for the numbers")
}

func setupBenchChat(f *flagSet, env *environment) action {
	o := &benchChatOptions{}
	o.bind(f)
	return func(args []string) error {
		if err := o.settle(f, args, env.getenv); err != nil {
			return usageError{err}
		}
		return measure(func(ctx context.Context) error { return o.run(ctx, env.out) })
	}
}

// settle completes the configuration after the flags have been parsed.
func (o *benchChatOptions) settle(f *flagSet, args []string, getenv func(string) string) error {
	if n := f.ArgsLenAtDash(); n >= 0 {
		args, o.serverArgs = args[:n], args[n:]
	}
	if len(args) > 0 {
		return fmt.Errorf("bench chat takes no arguments: %q", args)
	}
	if o.binary == "" && len(o.serverArgs) > 0 {
		return fmt.Errorf("arguments after -- are for a server that --binary starts: %q", o.serverArgs)
	}
	var err error
	if o.Header, err = headerOf(o.headers); err != nil {
		return err
	}
	if f.Changed("temperature") {
		o.Temperature = &o.temperature
	}
	if o.APIKey == "" {
		o.APIKey = getenv("OPENAI_API_KEY")
	}
	o.ExtraBody, o.ReadyTimeout = jsontext.RawMessage(o.extraBody), time.Duration(o.wait)*time.Second
	return o.Validate()
}

// run measures, on a server that it starts if it was asked to.
func (o *benchChatOptions) run(ctx context.Context, out io.Writer) (failure error) {
	stop, err := startIfAsked(ctx, o.binary, o.serverArgs, &o.BaseURL)
	if err != nil {
		return err
	}
	defer func() { failure = errors.Join(failure, stop()) }()
	r, err := bench.RunChat(ctx, o.ChatConfig)
	switch {
	case err != nil && ctx.Err() != nil:
		return errInterrupted
	case err != nil:
		return err
	case r.Interrupted:
		err = errInterrupted
	case len(r.Turns) == 0:
		err = fmt.Errorf("every request failed, %d of them with: %s", r.Errors[0].Count, r.Errors[0].Text)
	}
	return errors.Join(err, r.WriteText(out), r.WriteBenchmark(out), writeFile(o.file, r.WriteJSON))
}
