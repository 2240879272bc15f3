package chat

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"weir/chat/jinja"
)

// TestTemplateCache: templates are compiled once, the one whose last use is longest ago is
// dropped first, and the cache is bounded in number and bytes.
func TestTemplateCache(t *testing.T) {
	var c templateCache
	get := func(src string) *compiled {
		t.Helper()
		got, err := c.get(src)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	source := func(i int) string { return fmt.Sprint("template ", i) }
	first := get(source(0))
	if get(source(0)) != first {
		t.Error("compiled twice")
	}
	for i := 1; i < maxCached; i++ {
		get(source(i))
	}
	second := get(source(1))
	if get(source(0)) != first { // used again: 2 is now the one used longest ago
		t.Error("forgotten too early")
	}
	third := get(source(2))
	get(source(1))
	get(source(0))
	get(source(maxCached)) // makes room by forgetting 3
	if c.mu.order.Len() != maxCached || len(c.mu.entries) != maxCached {
		t.Errorf("%d entries", c.mu.order.Len())
	}
	if get(source(2)) != third || get(source(1)) != second || get(source(0)) != first {
		t.Error("forgot one that was used")
	}
	before := get(source(4))
	for i := range maxCached {
		get(source(1000 + i))
	}
	if get(source(4)) == before {
		t.Error("not forgotten")
	}

	big := strings.Repeat("x", maxCachedBytes/3)
	for i := range 5 {
		get(big + source(i))
		sum := 0
		for e := c.mu.order.Front(); e != nil; e = e.Next() {
			sum += e.Value.(*cached).size
		}
		if sum != c.mu.bytes || sum > maxCachedBytes {
			t.Errorf("%d bytes, counted %d", sum, c.mu.bytes)
		}
	}
	if _, err := c.get("{% if %}"); !errors.Is(err, jinja.ErrSyntax) {
		t.Errorf("error %v", err)
	}
}
