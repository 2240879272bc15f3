package chat

import (
	"errors"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"weir/api"
	"weir/chat/jinja"
	"weir/internal/memory"
	"weir/internal/testkit"
)

// A compiled template takes no more than what is counted for each byte of its source.
func TestCompiledSizes(t *testing.T) {
	const size, slack = 256 << 10, 256 << 10
	for _, piece := range []string{"{{a}}", "{{a+a+a+a+a+a+a+a+a}}", "{{[a,a,a,a,a,a,a,a]}}", "{{a()()()()()}}", "{{{a:a,a:a}}}", "{%for a in a%}{%endfor%}", "{%macro a()%}{%endmacro%}", "{{[" + strings.Repeat("a,", 100_000) + "]}}"} {
		source := strings.Repeat(piece, max(1, size/len(piece)))
		before := testkit.Heap()
		var c *compiled
		var err error
		most := testkit.Highest(func() { c, err = compile(source) })
		most = max(most, testkit.Heap()-before)
		if err != nil {
			t.Fatal(err)
		}
		if t.Logf("%.30s: %.1f for each byte", piece, float64(most)/float64(len(source))); most > compiledByte*int64(len(source))+slack {
			t.Errorf("%.30s: %d bytes for a source of %d", piece, most, len(source))
		}
		runtime.KeepAlive(c)
	}
}

// What the cache keeps is counted, and given back when others need it; a request reserves
// its template although it is kept already.
func TestTemplatesReserve(t *testing.T) {
	const limit = 4 << 20
	r, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	account := memory.New(limit, 0)
	r.SetMemory(account)
	asked, allowed := int64(0), int64(limit)
	render := func(source string) error {
		_, err := r.Render(Input{
			Messages: []api.Message{{Role: "user", Content: api.Content{Kind: api.ContentText, Text: "hello"}}}, ChatTemplate: &source,
			Reserve: func(n int64) bool { asked = max(asked, n); return n <= allowed },
		})
		return err
	}
	source := func(i int) string { return strings.Repeat("x", 10_000) + strconv.Itoa(i) }
	for range 2 {
		asked = 0
		if err := render(source(0)); err != nil || asked < compiledByte*10_000 {
			t.Errorf("%d bytes are reserved for a template: %v", asked, err)
		}
		if n := account.Stats().Cached; n < compiledByte*10_000 {
			t.Errorf("%d bytes are counted in the cache", n)
		}
	}
	for i := range 10 {
		if err := render(source(i)); err != nil {
			t.Error(err)
		}
	}
	if n := account.Stats(); n.Cached != n.Used || n.Used > limit {
		t.Errorf("%+v", n)
	}
	all, err := account.Reserve(t.Context(), limit)
	if err != nil {
		t.Fatalf("the cache does not give its memory back: %v", err)
	}
	all.Release()
	allowed = 0
	if err := render(source(0)); !errors.Is(err, jinja.ErrStopped) {
		t.Errorf("a template without memory: %v", err)
	}
}
