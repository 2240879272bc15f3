package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"

	"github.com/valyala/fasthttp/fasthttputil"

	"weir/internal/jsontext"
	"weir/server"
)

// chatOptions are the flags of weir chat.
type chatOptions struct {
	url         string
	name        string // of the server's model
	key         string
	system      string
	temperature float64 // less than 0: the model's default
	maxTokens   int
	logLevel    string
	model       modelOptions
	engine      engineOptions
}

func (o *chatOptions) bind(f *flagSet) {
	f.group("Chat")
	f.StringVar(&o.url, "url", "", "chat with the server at this `URL`, such as http://127.0.0.1:8000, instead of loading a model")
	f.StringVar(&o.name, "model", "", "`name` of the server's model (default: its first)")
	f.StringVar(&o.key, "api-key", "", "`key` for the server")
	f.StringVar(&o.system, "system", "", "system `prompt`")
	f.Float64Var(&o.temperature, "temperature", -1, "sampling `temperature`; 0 always takes the most likely token (default: the model's)")
	f.IntVar(&o.maxTokens, "max-tokens", 0, "longest answer in `tokens` (default: as long as fits)")
	f.oneOf(&o.logLevel, "log-level", "least level of the messages that are logged to standard error", "warn", "info", "debug", "error")
	o.model.bind(f)
	o.engine.bind(f)
}

func setupChat(f *flagSet, env *environment) action {
	o := &chatOptions{}
	o.bind(f)
	return func(args []string) error {
		if len(args) > 1 || len(args) == 1 && o.url != "" {
			return usageError{errors.New("chat takes one model, or --url")}
		}
		c := &conversation{client: http.DefaultClient, base: strings.TrimSuffix(strings.TrimSuffix(o.url, "/"), "/v1"), key: o.key, out: env.out}
		c.request.Model, c.request.Stream = o.name, true
		if o.temperature >= 0 {
			c.request.Temperature = &o.temperature
		}
		if o.maxTokens > 0 {
			c.request.MaxTokens = &o.maxTokens
		}
		if o.system != "" {
			c.add("system", o.system)
		}
		if o.url == "" {
			log, err := newLog(env.errOut, o.logLevel)
			if err != nil {
				return usageError{err}
			}
			dir, err := o.model.locate(append(args, "")[0], env, log)
			if err != nil {
				return err
			}
			cfg := server.DefaultConfig()
			cfg.Version, cfg.Log = version, log
			stop, err := c.startServer(dir, o, cfg)
			if err != nil {
				return err
			}
			defer stop()
		}
		return c.run(env.in)
	}
}

// startServer starts a server in this process and makes c its client, so that a chat
// with a local model works in the same way as one over the network.
func (c *conversation) startServer(dir string, o *chatOptions, cfg server.Config) (stop func(), err error) {
	p, err := startInProcess(dir, &o.model, &o.engine, cfg)
	if err != nil {
		return nil, err
	}
	ln := fasthttputil.NewInmemoryListener()
	p.running.Go(func() { _ = p.server.Serve(ln) })
	c.base = "http://weir"
	c.client = &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return ln.Dial() }}}
	return func() {
		_ = ln.Close()
		p.stop()
	}, nil
}

// conversation is a chat with a server.
type conversation struct {
	client    *http.Client
	base, key string
	request   struct {
		Model       string    `json:"model,omitempty"`
		Messages    []message `json:"messages"`
		Stream      bool      `json:"stream"`
		Temperature *float64  `json:"temperature,omitempty"`
		MaxTokens   *int      `json:"max_tokens,omitempty"`
	}
	out io.Writer
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

func (c *conversation) add(role, content string) {
	c.request.Messages = append(c.request.Messages, message{role, content})
}

const chatHelp = `/reset         forget the conversation, but not the system prompt
/system TEXT   set the system prompt and forget the conversation
/quit          leave (or Ctrl-D)
Ctrl-C stops an answer. """ begins and ends a message of several lines.
`

// run reads messages and answers them until the input ends.
func (c *conversation) run(in io.Reader) error {
	read, interactive := lineReader(in, c.out)
	if interactive {
		fmt.Fprint(c.out, "/help lists what else you can do.\n")
	}
	for {
		text, err := readMessage(read)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		quit, err := c.handle(text)
		switch {
		case quit:
			return nil
		case err != nil && !interactive:
			return err
		case err != nil:
			fmt.Fprintf(c.out, "weir: %v\n", err)
		}
	}
}

// readMessage reads a line, or several lines between triple quotation marks.
func readMessage(read func(prompt string) (string, error)) (string, error) {
	const quotes = `"""`
	text, err := read("> ")
	if err != nil || !strings.HasPrefix(text, quotes) {
		return text, err
	}
	for len(text) < 2*len(quotes) || !strings.HasSuffix(text, quotes) {
		more, err := read(". ")
		if err != nil {
			break
		}
		text += "\n" + more
	}
	if len(text) < 2*len(quotes) {
		return text, nil
	}
	return strings.Trim(strings.TrimSuffix(text[len(quotes):], quotes), "\n"), nil
}

// handle does what a message asks for: one of the commands, or an answer.
func (c *conversation) handle(text string) (quit bool, err error) {
	switch verb, rest, _ := strings.Cut(text, " "); {
	case strings.TrimSpace(text) == "":
	case verb == "/quit", verb == "/exit", verb == "/bye":
		return true, nil
	case verb == "/help":
		fmt.Fprint(c.out, chatHelp)
	case verb == "/reset":
		c.reset()
	case verb == "/system":
		c.request.Messages = nil
		if rest != "" {
			c.add("system", rest)
		}
	default:
		return false, c.turn(text)
	}
	return false, nil
}

// reset forgets everything but the system prompt.
func (c *conversation) reset() {
	kept := c.request.Messages[:0]
	for _, m := range c.request.Messages {
		if m.Role == "system" {
			kept = append(kept, m)
		}
	}
	c.request.Messages = kept
}

// turn sends a message and prints the answer as it arrives. If the answer fails, or
// is stopped before its first word, the message is removed from the conversation.
func (c *conversation) turn(text string) error {
	before := len(c.request.Messages)
	c.add("user", text)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	answer, err := c.stream(ctx)
	fmt.Fprintln(c.out)
	switch {
	case ctx.Err() != nil && answer != "": // the user stopped it, and has read a part of it
	case err != nil && ctx.Err() == nil:
		c.request.Messages = c.request.Messages[:before]
		return err
	case answer == "":
		c.request.Messages = c.request.Messages[:before]
		return nil
	}
	c.add("assistant", answer)
	return nil
}

// stream asks for the next message and prints it as it arrives.
func (c *conversation) stream(ctx context.Context) (string, error) {
	resp, err := c.post(ctx)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var answer strings.Builder
	show := printer{out: c.out, dim: isTerminal(c.out)}
	defer show.endReasoning()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		if data == "[DONE]" {
			return answer.String(), nil
		}
		if err := show.chunk(data, &answer); err != nil {
			return answer.String(), err
		}
	}
	if err := lines.Err(); err != nil {
		return answer.String(), err
	}
	return answer.String(), errors.New("the answer was cut off")
}

// post sends the conversation. A response that is not 200 is an error.
func (c *conversation) post(ctx context.Context) (*http.Response, error) {
	body, err := jsontext.Encode(c.request)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	resp, err := c.client.Do(req)
	if err != nil || resp.StatusCode == http.StatusOK {
		return resp, err
	}
	defer resp.Body.Close()
	reply, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	var e struct{ Error struct{ Message string } }
	if jsontext.Decode(reply, &e) == nil && e.Error.Message != "" {
		return nil, fmt.Errorf("%s: %s", resp.Status, e.Error.Message)
	}
	return nil, fmt.Errorf("%s: %s", resp.Status, reply)
}

// chunk prints one event of the stream and adds its content to the answer.
func (p *printer) chunk(data string, answer *strings.Builder) error {
	var chunk struct {
		Choices []struct {
			Delta struct {
				Content, Reasoning string
				ReasoningContent   string `json:"reasoning_content"`
			}
		}
		Error *struct{ Message string }
	}
	if err := jsontext.Decode([]byte(data), &chunk); err != nil {
		return fmt.Errorf("the server sent something other than JSON: %w", err)
	}
	if chunk.Error != nil {
		return errors.New(chunk.Error.Message)
	}
	for _, choice := range chunk.Choices {
		d := &choice.Delta
		p.printReasoning(cmp.Or(d.Reasoning, d.ReasoningContent)) // some servers send both
		p.printContent(d.Content)
		answer.WriteString(d.Content)
	}
	return nil
}
