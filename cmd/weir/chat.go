package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"

	"github.com/spf13/pflag"
	"github.com/valyala/fasthttp/fasthttputil"
	"golang.org/x/term"

	"weir/chat/reasoning"
	"weir/server"
)

func chatMain(args []string, env func(string) string, in io.Reader, out, errOut io.Writer) error {
	fs := pflag.NewFlagSet("weir chat", pflag.ContinueOnError)
	fs.SetOutput(errOut)
	url := fs.String("url", "", "chat with the server at `URL`, such as http://127.0.0.1:8000, in place of a model of our own")
	name := fs.String("model", "", "`name` of the server's model (default: its first)")
	key := fs.String("api-key", "", "`key` for the server")
	system := fs.String("system", "", "system `prompt`")
	temperature := fs.Float64("temperature", -1, "sampling temperature; 0 is greedy (default: the model's)")
	maxTokens := fs.Int("max-tokens", 0, "most `tokens` of an answer (default: what fits)")
	level := oneOf(fs, "log-level", "what is logged to standard error", "warn", "info", "debug", "error")
	m, e := bindModel(fs), bindEngine(fs)
	fs.Usage = func() {
		fmt.Fprintf(out, "weir chat [MODEL] chats in the terminal with MODEL, or the model inside the binary, or a server.\n\n%s", fs.FlagUsages())
	}
	rest, err := parse(fs, args, env)
	if err != nil {
		return err
	}
	if len(rest) > 1 || len(rest) == 1 && *url != "" {
		return usageError{errors.New("chat takes one model, or --url")}
	}
	c := &conversation{client: http.DefaultClient, base: strings.TrimSuffix(strings.TrimSuffix(*url, "/"), "/v1"), key: *key, out: out}
	c.request.Model, c.request.Stream = *name, true
	if *temperature >= 0 {
		c.request.Temperature = temperature
	}
	if *maxTokens > 0 {
		c.request.MaxTokens = maxTokens
	}
	if *system != "" {
		c.say("system", *system)
	}
	if *url == "" {
		log, err := newLog(errOut, *level)
		if err != nil {
			return usageError{err}
		}
		cfg := server.DefaultConfig()
		cfg.Version, cfg.Log = version, log
		stop, err := c.host(append(rest, "")[0], m, e, cfg)
		if err != nil {
			return err
		}
		defer stop()
	}
	return c.run(in)
}

// host starts a server of our own and makes c its client, so that a chat here
// is no other than one over the network.
func (c *conversation) host(dir string, m modelOptions, e *engineOptions, cfg server.Config) (stop func(), err error) {
	src, err := openSource(dir, m)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	ln := fasthttputil.NewInmemoryListener()
	stop = func() {
		_ = ln.Close()
		cancel()
		running.Wait()
		_ = src.network.Close()
	}
	comp, err := newComputer(ctx, src, m, e, nil)
	if err != nil {
		stop()
		return nil, err
	}
	srv, err := server.New(cfg)
	if err != nil {
		stop()
		return nil, err
	}
	failed := make(chan error, 1)
	running.Go(func() { failed <- comp.engine.Run(ctx) })
	select {
	case err = <-failed:
	case <-comp.engine.Ready():
		err = srv.SetModel(comp.served(src, *e.policy == "priority"))
	}
	if err != nil {
		stop()
		return nil, err
	}
	running.Go(func() { _ = srv.Serve(ln) })
	c.base = "http://weir"
	c.client = &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return ln.Dial() }}}
	return stop, nil
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

func (c *conversation) say(role, content string) {
	c.request.Messages = append(c.request.Messages, message{role, content})
}

const chatHelp = `/reset         forget the conversation, but not the system prompt
/system TEXT   set the system prompt and forget the conversation
/quit          leave (or Ctrl-D)
Ctrl-C stops an answer. """ begins and ends a message of several lines.
`

// run reads messages and answers them until the input ends.
func (c *conversation) run(in io.Reader) error {
	read, interactive := reader(in, c.out)
	if interactive {
		fmt.Fprint(c.out, "/help lists what else you can do.\n")
	}
	for {
		text, err := read("> ")
		if err != nil {
			if err == io.EOF {
				return nil
			}
			return err
		}
		for strings.HasPrefix(text, `"""`) && (len(text) < 6 || !strings.HasSuffix(text, `"""`)) {
			more, err := read(". ")
			if err != nil {
				break
			}
			text += "\n" + more
		}
		if len(text) >= 6 && strings.HasPrefix(text, `"""`) {
			text = strings.Trim(strings.TrimSuffix(text[3:], `"""`), "\n")
		}
		switch verb, rest, _ := strings.Cut(text, " "); {
		case strings.TrimSpace(text) == "":
		case verb == "/quit", verb == "/exit", verb == "/bye":
			return nil
		case verb == "/help":
			fmt.Fprint(c.out, chatHelp)
		case verb == "/reset":
			c.reset()
		case verb == "/system":
			c.request.Messages = nil
			if rest != "" {
				c.say("system", rest)
			}
		default:
			if err := c.turn(text); err != nil {
				if !interactive {
					return err
				}
				fmt.Fprintf(c.out, "weir: %v\n", err)
			}
		}
	}
}

func (c *conversation) reset() {
	kept := c.request.Messages[:0]
	for _, m := range c.request.Messages {
		if m.Role == "system" {
			kept = append(kept, m)
		}
	}
	c.request.Messages = kept
}

// turn sends a message and streams the answer. What does not come to an end is
// taken back.
func (c *conversation) turn(text string) error {
	before := len(c.request.Messages)
	c.say("user", text)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	answer, err := c.stream(ctx)
	fmt.Fprintln(c.out)
	switch {
	case ctx.Err() != nil && answer != "": // what was read stands
	case err != nil && ctx.Err() == nil:
		c.request.Messages = c.request.Messages[:before]
		return err
	case answer == "":
		c.request.Messages = c.request.Messages[:before]
		return nil
	}
	c.say("assistant", answer)
	return nil
}

// stream asks for the next message and prints it as it comes.
func (c *conversation) stream(ctx context.Context) (string, error) {
	body, err := json.Marshal(c.request)
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		reply, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
		var e struct{ Error struct{ Message string } }
		if json.Unmarshal(reply, &e) == nil && e.Error.Message != "" {
			return "", fmt.Errorf("%s: %s", resp.Status, e.Error.Message)
		}
		return "", fmt.Errorf("%s: %s", resp.Status, reply)
	}
	var answer strings.Builder
	show := printer{out: c.out, dim: terminal(c.out)}
	defer show.answering()
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
		var chunk struct {
			Choices []struct {
				Delta struct {
					Content, Reasoning string
					ReasoningContent   string `json:"reasoning_content"`
				}
			}
			Error *struct{ Message string }
		}
		if err := json.Unmarshal([]byte(data), &chunk); err != nil {
			return answer.String(), fmt.Errorf("the server sent something else than JSON: %w", err)
		}
		if chunk.Error != nil {
			return answer.String(), errors.New(chunk.Error.Message)
		}
		for _, choice := range chunk.Choices {
			d := &choice.Delta
			show.thought(cmp.Or(d.Reasoning, d.ReasoningContent)) // some servers send both
			show.content(d.Content)
			answer.WriteString(d.Content)
		}
	}
	if err := lines.Err(); err != nil {
		return answer.String(), err
	}
	return answer.String(), errors.New("the answer was cut off")
}

// printer prints thoughts apart from the answer: dimmed on a terminal, elsewhere
// between the tags that models use.
type printer struct {
	out      io.Writer
	dim      bool
	thinking bool
}

func terminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func (p *printer) thought(text string) {
	if text == "" {
		return
	}
	if !p.thinking {
		p.thinking = true
		if p.dim {
			fmt.Fprint(p.out, "\x1b[2m")
		} else {
			fmt.Fprint(p.out, reasoning.Open)
		}
	}
	fmt.Fprint(p.out, text)
}

func (p *printer) content(text string) {
	if text != "" {
		p.answering()
		fmt.Fprint(p.out, text)
	}
}

// answering ends the thoughts, if any.
func (p *printer) answering() {
	switch {
	case p.thinking && p.dim:
		fmt.Fprint(p.out, "\x1b[0m")
	case p.thinking:
		fmt.Fprint(p.out, reasoning.Close)
	}
	p.thinking = false
}

// reader returns what reads a line behind a prompt: with editing and history on
// a terminal, plainly and without the prompt elsewhere.
func reader(in io.Reader, out io.Writer) (read func(prompt string) (string, error), interactive bool) {
	tty, ok := in.(*os.File)
	if !ok || !term.IsTerminal(int(tty.Fd())) {
		lines := bufio.NewScanner(in)
		lines.Buffer(nil, 16<<20)
		return func(string) (string, error) {
			if !lines.Scan() {
				if err := lines.Err(); err != nil {
					return "", err
				}
				return "", io.EOF
			}
			return lines.Text(), nil
		}, false
	}
	t := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{tty, out}, "")
	return func(prompt string) (string, error) {
		cooked, err := term.MakeRaw(int(tty.Fd()))
		if err != nil {
			return "", err
		}
		defer func() { _ = term.Restore(int(tty.Fd()), cooked) }()
		if w, h, err := term.GetSize(int(tty.Fd())); err == nil {
			_ = t.SetSize(w, h)
		}
		t.SetPrompt(prompt)
		line, err := t.ReadLine()
		if errors.Is(err, term.ErrPasteIndicator) {
			err = nil
		}
		return line, err
	}, true
}
