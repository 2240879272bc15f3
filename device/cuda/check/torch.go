//go:build cuda && linux && amd64

package check

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"weir/internal/jsontext"
)

//go:embed torch.py
var torchScript string

const torchSection = "8"

// torch times the same work as the sections of steps and rates of this report do, with
// torch, if the machine has it. That
// runs in a process of its own and at the end, so that nothing else depends on it.
func torch(c *checker) ([]task, error) {
	items := c.torchItems()
	p, why := c.startTorch(items)
	if p == nil {
		return []task{{"torch", func(c *checker) error {
			c.record("torch", Skipped, "why", why)
			return nil
		}}}, nil
	}
	var list []task
	for _, item := range items {
		list = append(list, task{item[0].(string), func(c *checker) error { return p.item(c, item[0].(string)) }})
	}
	return append(list, task{"end of torch", func(*checker) error {
		p.stop()
		return nil
	}}), nil
}

// torchItems are what is timed, by key, kind and sizes, as torch.py takes it.
func (c *checker) torchItems() (items [][]any) {
	for _, a := range c.attentionCases() {
		if a.key() == "" {
			continue
		}
		if a.prefill {
			items = append(items, []any{a.key(), "prefill", a.heads, a.kvHeads, a.dim, a.n})
		} else {
			items = append(items, []any{a.key(), "decode", a.heads, a.kvHeads, a.dim, a.seqs, a.n})
		}
	}
	name := c.torchModel().name
	for _, n := range pick(c, []int{30}, []int{512, 2048}) {
		items = append(items, []any{fmt.Sprintf("%s prefill %d", name, n), "forward", "prefill", 1, n})
	}
	for _, s := range pick(c, [][2]int{{1, 40}, {3, 40}}, [][2]int{{1, 128}, {64, 128}, {1, 2048}, {64, 2048}}) {
		items = append(items, []any{fmt.Sprintf("%s decode %d at %d", name, s[0], s[1]), "forward", "decode", s[0], s[1]})
	}
	for _, s := range c.productShapes() {
		for _, m := range c.productRows() {
			items = append(items, []any{fmt.Sprintf("linear %dx%dx%d", m, s[0], s[1]), "linear", m, s[0], s[1]})
		}
	}
	return items
}

// torchModel is the network that is also timed with torch.
func (c *checker) torchModel() shape {
	if c.o.Quick {
		return tiny
	}
	return shapes[1] // Llama-3.2-1B
}

// torchRun is a running process of torch.py.
type torchRun struct {
	cmd    *exec.Cmd
	stop   func()
	lines  *bufio.Scanner
	errors bytes.Buffer
}

// torchLine is a line that torch.py writes.
type torchLine struct {
	Torch, Device string  // the first line
	Key           string  // the others
	Us            float64 `json:"us"`
	How, Why      string
}

// startTorch starts torch.py and waits for its first line, or returns the reason why there
// is none.
func (c *checker) startTorch(items [][]any) (*torchRun, string) {
	python, device, m := c.o.Python, fmt.Sprintf("cuda:%d", c.o.Config.Ordinal), c.torchModel()
	if python == "" {
		python = "python3"
	}
	if c.o.Quick {
		device = "cpu" // there is none for torch where one is emulated
	}
	job, err := jsontext.Encode(map[string]any{"device": device, "items": items,
		"model": map[string]int{"hidden": m.hidden, "layers": m.layers, "heads": m.heads, "kv": m.kvHeads, "dim": m.dim, "mlp": m.mlp, "vocab": m.vocab}})
	if err != nil {
		return nil, err.Error()
	}
	ctx, cancel := context.WithCancel(context.Background())
	if !c.end.IsZero() {
		ctx, cancel = context.WithDeadline(context.Background(), c.end)
	}
	p := &torchRun{cmd: exec.CommandContext(ctx, python, "-c", torchScript, string(job))}
	p.cmd.Stderr = &p.errors
	p.cmd.WaitDelay = time.Second
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // when this process is killed
	p.stop = func() {
		cancel()
		_ = p.cmd.Wait() // its error is known already
	}
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		cancel()
		return nil, "no " + python + ": " + err.Error()
	}
	p.lines = bufio.NewScanner(out)
	first, ok := p.next()
	if !ok {
		p.stop()
		return nil, "no torch: " + p.complaint()
	}
	c.record("torch", "", "version", first.Torch, "device", first.Device)
	return p, ""
}

// next is the next line that torch.py itself wrote.
func (p *torchRun) next() (l torchLine, ok bool) {
	for p.lines.Scan() {
		if jsontext.Decode(p.lines.Bytes(), &l) == nil && (l.Torch != "" || l.Key != "") {
			return l, true
		}
	}
	return l, false
}

// complaint is the last line of an error of python.
func (p *torchRun) complaint() string {
	text := strings.TrimSpace(p.errors.String())
	text = text[strings.LastIndexByte(text, '\n')+1:]
	return text[:min(len(text), 300)]
}

// item waits for the time of one item.
func (p *torchRun) item(c *checker, key string) error {
	l, ok := p.next()
	switch {
	case !ok && !c.end.IsZero() && time.Now().Add(time.Second).After(c.end):
		p.stop()
		c.record("torch: "+key, Late)
		c.end = time.Now().Add(-time.Second) // and none of the others
	case !ok:
		p.stop()
		return fmt.Errorf("torch ended: %s", p.complaint())
	case l.Key != key:
		p.stop()
		return fmt.Errorf("torch speaks of %q", l.Key)
	case l.Why != "":
		c.record("torch: "+key, "", "key", key, "why", l.Why)
	default:
		c.record("torch: "+key, "", "key", key, "us", l.Us, "how", l.How)
	}
	return nil
}
