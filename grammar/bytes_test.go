package grammar

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
)

// manySpecs are kinds of constraints of which there are as many different ones as wanted.
func manySpecs() map[string]func(i int) Spec {
	records := newRecordGenerator(11)
	kinds := map[string]func(i int) Spec{
		"records": func(i int) Spec { s, _ := records.record(i % 4); return schema(dumpJSON(plain(s))) },
		"two properties": func(i int) Spec {
			return schema(fmt.Sprintf(`{"type":"object","properties":{"name%d":{"type":"string"},"n":{"type":"integer"}},"required":["n"]}`, i))
		},
		"patterns": func(i int) Spec {
			return schema(fmt.Sprintf(`{"type":"object","properties":{"a%d":{"type":"string","pattern":"^[a-zA-Z0-9_%d-]{1,%d}$"}}}`, i, i%9, 40+i))
		},
		"regular expressions": func(i int) Spec { return re(fmt.Sprintf(`[a-z ]{3,%d}(foo|bar)\d+.*x%d`, 10+i, i)) },
		"ambiguous rules":     func(i int) Spec { return ambiguousRules(size(4 + i)) },
	}
	for _, name := range []string{"counted properties", "enum", "enum of objects", "properties", "rules in a row", "choices", "groups", "definitions", "structures"} {
		kinds[name] = func(i int) Spec { return hostileSpecs[name](size(200 + i)) }
	}
	return kinds
}

// heapNow returns the bytes of the heap that are in use.
func heapNow() int64 {
	runtime.GC()
	runtime.GC() // sync.Pool keeps what it has until the second collection
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}

// TestBytesAreTrue: what grammars say that they hold is at least what the heap has grown by,
// but for a quarter, and at most the double of it. So it is when they are compiled, when
// texts have walked through them, and when the vocabulary has dropped the shapes that they
// use.
func TestBytesAreTrue(t *testing.T) {
	v := syntheticVocabulary(t, 32_000, false)
	mustCompile(t, schema(`{}`), v) // makes what all vocabularies share
	for name, spec := range manySpecs() {
		t.Run(name, func(t *testing.T) { compareBytes(t, v, spec) })
	}
}

func compareBytes(t *testing.T, v *Vocabulary, spec func(i int) Spec) {
	const count, noise = 4, 16 << 10
	var specs []Spec
	for i := range count {
		specs = append(specs, spec(i))
	}
	before, cached := heapNow(), v.shapeBytes()
	var all []*Grammar
	for _, s := range specs {
		all = append(all, mustCompile(t, s, v))
	}
	compare := func(when string, cached int64) {
		t.Helper()
		heap, said := heapNow()-before, v.shapeBytes()-cached
		for _, g := range all {
			said += g.Bytes()
		}
		if heap > said/4*5+noise || said > 2*max(heap, 0)+8*noise {
			t.Errorf("%s: %d KiB of heap, and the grammars say %d", when, heap>>10, said>>10)
		}
	}
	compare("compiled", cached)
	for _, g := range all {
		walkAtRandom(g)
	}
	compare("in use", cached)
	v.dropShapes()
	before -= cached // they are not on the heap any more, and were before
	compare("after the vocabulary has dropped its shapes", 0)
	runtime.KeepAlive(all)
}

// walkAtRandom fills the masks of some random texts of g.
func walkAtRandom(g *Grammar) {
	rng := rand.New(rand.NewPCG(5, 5))
	mask := make([]uint32, g.Vocabulary().words())
	for range 3 {
		m := g.NewMatcher()
		for range 40 {
			if m.Fill(mask) != nil || !m.Accept(randomLegal(rng, mask, g.Vocabulary().size)) || m.Ended() {
				break
			}
		}
	}
}

// shapeBytes returns what v counts for the shapes that it keeps.
func (v *Vocabulary) shapeBytes() int64 { return v.commonShapes.bytes + v.outlinedShapes.bytes }

func (v *Vocabulary) dropShapes() {
	v.commonShapes.drop()
	v.outlinedShapes.drop()
}
