package kvcache

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"weir/backend"
	"weir/internal/testkit"
)

// TestScripts runs the scripts in testdata. Their commands are
//
//	pool blocks=N [block=4] [states=N] [nocache] [copies] [windows=N,...] [chunk=N]  start over with an empty pool.
//	                                       windows are those of groups of layers, 0 for all positions; the
//	                                       blocks of a position in all groups stand next to each other. chunk
//	                                       adds a group
//	share t=NAME tokens=T [salt=N] [noread]
//	grow t=NAME [to=N]                     default: all its tokens
//	publish t=NAME [computed=N]            default: all its tokens
//	fork t=NAME from=NAME n=N [salt=N]
//	advance t=NAME from=N to=N [keep=return|checkpoint|rolling] [reserve=N]
//	slide t=NAME to=N
//	settle t=NAME computed=N [hold=N]
//	rewind t=NAME to=N
//	release t=NAME
//	copy [n=N]                             copy up to N, default 1, of what was published; pool with copies lists it
//	restore tokens=T [salt=N]              copy back what a sequence of these tokens can have of it
//	forget                                 empty the prefix cache
//	order                                  print the free list, and that of the state slots
//
// A command creates the table that it names. Tokens are written first:count, so
// that 10:3 is the tokens 10, 11 and 12; + joins several such runs.
func TestScripts(t *testing.T) {
	testkit.Scripts(t, "testdata", func(t *testing.T) func(testkit.Command) string {
		return (&script{t: t}).run
	})
}

// script is the state of a running script.
type script struct {
	t      *testing.T
	m      *Manager
	tables map[string]*Table
	tokens map[string][]int32 // by table
	copies map[Key]bool
}

// run executes a command, checks the books and returns the command's output.
func (s *script) run(c testkit.Command) string {
	name := c.Str("t")
	if name != "" && s.tables[name] == nil {
		s.tables[name] = &Table{}
	}
	out := s.execute(c, name, s.tables[name])
	if err := s.m.Check(slices.Collect(maps.Values(s.tables))...); err != nil {
		s.t.Fatal(err)
	}
	return out
}

func (s *script) execute(c testkit.Command, name string, table *Table) string {
	salt := Hash{byte(c.Int("salt", 0))}
	switch c.Verb {
	case "pool":
		s.m = New(c.Int("blocks", 0), c.Int("block", 4), c.Int("states", 0), !c.Has("nocache"), groups(c)...)
		s.tables, s.tokens, s.copies = map[string]*Table{}, map[string][]int32{}, map[Key]bool{}
		if c.Has("copies") {
			s.m.Copies()
		}
	case "share":
		s.tokens[name] = parseTokens(c.Str("tokens"))
		n := s.m.Share(table, s.tokens[name], salt, !c.Has("noread"))
		branch := ""
		if b := table.Branch(); b > 0 {
			branch = fmt.Sprintf(", branch at %d", b)
		}
		return fmt.Sprintf("%s: hit %d tokens, blocks %v%s\n", name, n, table.Blocks, branch)
	case "grow":
		ok := s.m.Grow(table, c.Int("to", len(s.tokens[name])))
		return fmt.Sprintf("%s: %v, blocks %v, free %d\n", name, ok, table.Blocks, s.m.Free())
	case "publish":
		s.m.Publish(table, s.tokens[name], c.Int("computed", len(s.tokens[name])))
	case "fork":
		from := c.Str("from")
		s.tokens[name] = s.tokens[from]
		n := s.m.Fork(table, s.tables[from], c.Int("n", 0), salt)
		return fmt.Sprintf("%s: %d tokens, blocks %v\n", name, n, table.Blocks)
	case "advance":
		keep := slices.Index([]string{"", "return", "checkpoint", "rolling"}, c.Str("keep"))
		in, out := s.m.Advance(table, c.Int("from", 0), c.Int("to", 0), Keep(keep), c.Int("reserve", 0))
		return fmt.Sprintf("%s: from state %d to %d, holds %d, free %d\n", name, in, out, table.States(), s.m.FreeStates())
	case "slide":
		s.m.Slide(table, c.Int("to", 0))
		return fmt.Sprintf("%s: blocks %v, holds %d, free %d\n", name, table.Blocks, s.m.Held(table), s.m.Free())
	case "settle":
		s.m.Settle(table, c.Int("computed", 0), c.Int("hold", 0))
	case "rewind":
		return fmt.Sprintf("%s: %v\n", name, s.m.Rewind(table, c.Int("to", 0)))
	case "release":
		s.m.Release(table)
		delete(s.tables, name)
	case "copy":
		return s.copy(c.Int("n", 1))
	case "restore":
		return s.restore(parseTokens(c.Str("tokens")), salt)
	case "forget":
		return fmt.Sprintf("%v\n", s.m.Forget())
	case "order":
		out := fmt.Sprintf("next to be handed out: %v\n", s.m.blocks.freeList())
		if s.m.Stateful() {
			out += fmt.Sprintf("next states to be handed out: %v\n", s.m.states.freeList())
		}
		return out
	default:
		s.t.Fatalf("unknown command %q", c.Verb)
	}
	return ""
}

// copy copies up to n blocks and states.
func (s *script) copy(n int) (out string) {
	for range n {
		c, ok := s.m.NextCopy()
		if !ok {
			break
		}
		out += fmt.Sprintf("copied: %s\n", named(c.Key.State, c.ID))
		s.copies[c.Key] = true
		s.m.Copied(c)
	}
	return out + fmt.Sprintf("lost: %d\n", s.m.Uncopied())
}

// restore copies back what a sequence of these tokens can have.
func (s *script) restore(tokens []int32, salt Hash) string {
	missing, gain := s.m.Missing(nil, tokens, salt, func(k Key) bool { return s.copies[k] })
	out := fmt.Sprintf("%d tokens more:", gain)
	for _, k := range missing {
		if id, ok := s.m.Restore(k); ok {
			s.m.Restored(k, id, true)
			out += " " + named(k.State, id)
		}
	}
	return out + "\n"
}

// named is the name of a block or a state slot.
func named(state bool, id int32) string {
	if state {
		return fmt.Sprintf("state %d", id)
	}
	return fmt.Sprintf("block %d", id)
}

// groups are the groups of layers of a pool.
func groups(c testkit.Command) (list []backend.KVGroup) {
	for _, w := range c.Ints("windows") {
		list = append(list, backend.KVGroup{Window: int(w)})
	}
	if n := c.Int("chunk", 0); n > 0 {
		list = append(list, backend.KVGroup{Chunk: n})
	}
	return list
}

// parseTokens expands 10:3+50:2 to 10 11 12 50 51.
func parseTokens(text string) (ids []int32) {
	for run := range strings.SplitSeq(text, "+") {
		var first, count int
		fmt.Sscanf(run, "%d:%d", &first, &count)
		for i := range count {
			ids = append(ids, int32(first+i))
		}
	}
	return ids
}

// freeList is the free list in the order in which it is handed out.
func (p *pool) freeList() (ids []int32) {
	for b := p.entries[0].next; b != 0; b = p.entries[b].next {
		ids = append(ids, b)
	}
	return ids
}
