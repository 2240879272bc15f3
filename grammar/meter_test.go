package grammar

import (
	"errors"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// TestMeterIsLookedAt: compiling a large constraint asks every few milliseconds of work whether
// anybody still waits. (A unit takes less than 0.1 µs where so many are spent at once.)
func TestMeterIsLookedAt(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(hostileSpecs)) {
		cfg := DefaultConfig()
		cfg.MaxWork = 600_000
		work := &meter{left: cfg.MaxWork}
		last, most := work.left, int64(0)
		work.abandoned = func() bool {
			most, last = max(most, last-work.left), work.left
			return false
		}
		_, _ = compileMetered(hostileSpecs[name](6_000), testVocabulary, cfg, work, nil)
		if most > 50_000 {
			t.Errorf("%s: %d units without a look", name, most)
		}
	}
}

// TestTextsAreReadWithTheMeter: reading the text of a large regular expression or grammar ends
// soon after everybody who waits for it has left. The texts are such that nothing but reading
// looks at the meter before it would be over.
func TestTextsAreReadWithTheMeter(t *testing.T) {
	long := func(s string) string { return strings.Repeat(s, 200_000) }
	for name, spec := range map[string]Spec{
		"regular expression": re(long("a")),
		"class":              re("[" + long("ab") + "]"),
		"properties":         re(long(`\p{L}`)),
		"pattern":            schema(`{"type":"string","pattern":"` + long("a") + `"}`),
		"EBNF":               notation("root ::= " + long(`"a" `)),
		"EBNF's class":       notation("root ::= [" + long("ab") + "]"),
		"Lark":               notation("start: " + long(`"a" `)),
		"Lark's pattern":     notation("start: /" + long("a") + "/"),
	} {
		work := &meter{left: 1 << 40}
		looks := 0
		work.abandoned = func() bool {
			if looks++; looks == 2 && !callers("(*rxParser)", "(*ebnf)", "(*lark)") {
				t.Errorf("%s: the second look is not while the text is read", name)
			}
			return looks == 2
		}
		if _, err := compileMetered(spec, testVocabulary, DefaultConfig(), work, nil); looks != 2 || !errors.Is(err, ErrAbandoned) {
			t.Errorf("%s: %d looks, %v", name, looks, err)
		}
	}
}

// callers reports whether one of the functions that are being called has one of the names in its own.
func callers(names ...string) bool {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs[:])])
	for {
		f, more := frames.Next()
		if slices.ContainsFunc(names, func(n string) bool { return strings.Contains(f.Function, n) }) {
			return true
		}
		if !more {
			return false
		}
	}
}

// TestPropertiesAreShared: a property of Unicode that is repeated takes its ranges once, and
// those of a class are joined before they are many.
func TestPropertiesAreShared(t *testing.T) {
	for name, text := range map[string]string{"apart": strings.Repeat(`\p{L}`, 20_000), "class": "[" + strings.Repeat(`\p{L}`, 20_000) + "]"} {
		work := unmetered()
		before, most, looks := heapNow(), int64(0), 0
		work.abandoned = func() bool {
			if looks++; looks%2000 == 0 {
				most = max(most, heapNow()-before)
			}
			return false
		}
		n := parseRegex(text, work)
		if most = max(most, heapNow()-before); most > 16<<20 {
			t.Errorf("%s: %d bytes", name, most)
		}
		runtime.KeepAlive(n)
	}
}
