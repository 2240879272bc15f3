package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/term"

	"weir/chat/reasoning"
)

// printer prints the model's reasoning so that it can be told from the answer: dimmed
// on a terminal, elsewhere between the tags that models use.
type printer struct {
	out       io.Writer
	dim       bool
	reasoning bool // reasoning is being printed
}

func isTerminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func (p *printer) printReasoning(text string) {
	if text == "" {
		return
	}
	if !p.reasoning {
		p.reasoning = true
		if p.dim {
			fmt.Fprint(p.out, "\x1b[2m")
		} else {
			fmt.Fprint(p.out, reasoning.Open)
		}
	}
	fmt.Fprint(p.out, text)
}

func (p *printer) printContent(text string) {
	if text != "" {
		p.endReasoning()
		fmt.Fprint(p.out, text)
	}
}

// endReasoning closes the reasoning if it is being printed.
func (p *printer) endReasoning() {
	switch {
	case p.reasoning && p.dim:
		fmt.Fprint(p.out, "\x1b[0m")
	case p.reasoning:
		fmt.Fprint(p.out, reasoning.Close)
	}
	p.reasoning = false
}

// lineReader returns a function that prints a prompt and reads a line. On a terminal
// it has editing and history; elsewhere it reads plain lines and prints no prompt.
func lineReader(in io.Reader, out io.Writer) (read func(prompt string) (string, error), interactive bool) {
	tty, ok := in.(*os.File)
	if !ok || !term.IsTerminal(int(tty.Fd())) {
		return plainReader(in), false
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

func plainReader(in io.Reader) func(string) (string, error) {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	return func(string) (string, error) {
		if lines.Scan() {
			return lines.Text(), nil
		}
		if err := lines.Err(); err != nil {
			return "", err
		}
		return "", io.EOF
	}
}
