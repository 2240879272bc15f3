package jinja

import (
	"math"
	"sync"
	"time"
	"unicode/utf8"
)

// MaxSource is the size of the largest template that Compile accepts, in bytes. The largest
// chat templates in use have some 20,000. A compiled template takes up to about a hundred
// times the size of its source.
const MaxSource = 512 << 10

// Limits bound one render. A zero field takes the default.
type Limits struct {
	// Steps is the number of statements, rounds of loops, calls and items that may be
	// executed or read; every operation counts in proportion to the bytes and items that it
	// touches. Default 5,000,000, which takes about half a second.
	Steps int64
	// Memory is the number of bytes of all strings, lists and other values that the
	// template makes, whether they are still needed or not. Default 256 MiB.
	Memory int64
	// Output is the length of the text, in bytes, including parts that the template
	// captures and has not used yet. Default 16 MiB.
	Output int
	// Depth is how deeply calls of macros, blocks and recursive loops may nest. Default
	// 120.
	Depth int
}

func (l Limits) withDefaults() Limits {
	if l.Steps == 0 {
		l.Steps = 5_000_000
	}
	if l.Memory == 0 {
		l.Memory = 256 << 20
	}
	if l.Output == 0 {
		l.Output = 16 << 20
	}
	if l.Depth == 0 {
		l.Depth = 120
	}
	return l
}

// Options change one render. The zero value has the defaults.
type Options struct {
	Limits Limits
	// Now is the clock of strftime_now. Default time.Now.
	Now func() time.Time
	// Done stops the render soon after it was closed, usually because the client has left;
	// nil: nothing stops it. It is the channel of a context.
	Done <-chan struct{}
	// Reserve is asked, from time to time, whether the render may take so many bytes in all:
	// those that count for Limits.Memory, and the buffer of its output. If it says no, the
	// error is the same as if Done was closed. nil: it may.
	Reserve func(bytes int64) bool
}

// Template is a compiled template. It does not change, so it can be rendered by any number
// of goroutines at the same time.
type Template struct {
	body   []stmt
	root   *function
	frame  frame
	blocks map[string]*blockDef
	self   int // slot of the variable self, -1 if nothing reads it
	// globals has the names that the template reads and does not define. base has the
	// values that the environment has under these names.
	globals []string
	base    []Value
	// iterates is the answer of IteratesContent.
	iterates bool
}

// Compile compiles a template. The error is an *Error that wraps ErrSyntax.
func Compile(src string) (t *Template, err error) {
	var p *parser
	defer catch(&err, ErrSyntax, func() int {
		if p == nil {
			return 1
		}
		return p.cur.line
	})
	if len(src) > MaxSource {
		throwSyntax(1, "template has %d bytes, more than %d", len(src), MaxSource)
	}
	if !utf8.ValidString(src) {
		throwSyntax(1, "template is not valid UTF-8")
	}
	p = newParser(src)
	t = &Template{body: p.statements(), blocks: p.blocks}
	r := &resolver{t: t, globals: map[string]int{}}
	r.template(t.body, p.order)
	t.base = make([]Value, len(t.globals))
	for i, name := range t.globals {
		v, ok := globals[name]
		if !ok {
			v = missing
		}
		t.base[i] = v
	}
	t.iterates = iteratesContent(t.body)
	return t, nil
}

// machines keeps the buffers of finished renders.
var machines = sync.Pool{New: func() any { return new(machine) }}

// maxKept bounds the output buffer that a pooled machine keeps, in bytes.
const maxKept = 1 << 20

// Render renders the template with the given variables (nil: none). The error
// is an *Error that wraps ErrRaised, ErrLimit, ErrStopped or ErrRender.
func (t *Template) Render(vars *Dict, opt Options) (text string, err error) {
	m := machines.Get().(*machine)
	m.start(t, vars, opt)
	defer func() {
		m.finish()
		machines.Put(m)
	}()
	defer catch(&err, ErrRender, func() int { return m.line })
	m.enterFrame(&t.frame)
	m.run(t.body)
	return string(m.out), nil
}

func (m *machine) start(t *Template, vars *Dict, opt Options) {
	lim := opt.Limits.withDefaults()
	*m = machine{t: t, lim: lim, rest: lim.Steps, done: opt.Done, reserve: opt.Reserve, reserved: math.MaxInt64, now: opt.Now, line: 1,
		out: m.out[:0], stack: m.stack[:0], keywords: m.keywords[:0], globals: append(m.globals[:0], t.base...)}
	if m.now == nil {
		m.now = time.Now
	}
	if m.reserve != nil {
		m.reserved, m.kept = 0, cap(m.out)
	}
	if vars != nil {
		for i, name := range t.globals {
			if v, ok := vars.Get(name); ok {
				m.globals[i] = v
			}
		}
	}
	if len(t.blocks) > 0 {
		m.exported = map[string]Value{}
	}
	m.act = &activation{slots: make([]Value, t.root.size)}
	for i := range m.act.slots {
		m.act.slots[i] = missing
	}
	if t.self >= 0 {
		m.act.slots[t.self] = &selfReference{}
	}
}

// finish drops all references to values of the render.
func (m *machine) finish() {
	if cap(m.out) > maxKept {
		m.out = nil
	}
	clear(m.stack[:cap(m.stack)])
	clear(m.keywords[:cap(m.keywords)])
	clear(m.globals)
	*m = machine{out: m.out, stack: m.stack, keywords: m.keywords, globals: m.globals}
}

// Variables returns the names of the variables that can have an effect on the template, in
// no particular order (jinja2.meta.find_undeclared_variables). Functions of the environment
// are left out.
func (t *Template) Variables() []string {
	var names []string
	for i, name := range t.globals {
		if isMissing(t.base[i]) && name != "lipsum" {
			names = append(names, name)
		}
	}
	return names
}

// IteratesContent reports whether a for loop of the template iterates over the content of
// a message, so that the template expects the content as a list of parts.
func (t *Template) IteratesContent() bool { return t.iterates }
