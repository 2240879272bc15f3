package bench

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// Sonnet makes prompts of lines of poems, as vLLM's data set sonnet does, with sonnets that are made up
// or with the lines of a file. All prompts begin with the same lines.
type Sonnet struct {
	InputLen, OutputLen, PrefixLen int      // approximate tokens
	Lines                          []string // none: made up
}

// DefaultSonnet has the defaults of vLLM's benchmark.
func DefaultSonnet() Sonnet { return Sonnet{InputLen: 550, OutputLen: 150, PrefixLen: 200} }

const (
	sonnetTask  = "Pick as many lines as you can from these poem lines:\n"
	sonnetCount = 40 // sonnets that are made up
	sonnetLeast = 32 // tokens for the task and the chat template
)

func (s Sonnet) validate() error {
	if s.InputLen <= sonnetLeast || s.OutputLen < 1 || s.PrefixLen > s.InputLen {
		return fmt.Errorf("bench: sonnets of %d tokens, %d of them shared, with answers of %d; %d go to the task itself", s.InputLen, s.PrefixLen, s.OutputLen, sonnetLeast)
	}
	return checkLengths("sonnet's", s.InputLen, s.OutputLen, s.PrefixLen)
}

func (s Sonnet) draw(n int, d *drawing) ([]Prompt, error) {
	lines, rnd := s.Lines, d.words()
	if len(lines) == 0 {
		for range sonnetCount {
			lines = append(lines, sonnet(rnd)...)
		}
	}
	total := 0
	for _, line := range lines {
		total += lineTokens(line)
	}
	mean := float64(total) / float64(len(lines))
	count := func(tokens int) int { return max(0, int(float64(tokens-sonnetLeast)/mean+0.5)) }
	shared := min(count(s.PrefixLen), len(lines))
	prefix := sonnetTask + strings.Join(lines[:shared], "")
	list := make([]Prompt, n)
	for i := range list {
		var text strings.Builder
		text.WriteString(prefix)
		for range count(s.InputLen) - shared {
			text.WriteString(lines[rnd.IntN(len(lines))])
		}
		list[i] = Prompt{Text: text.String(), OutputLen: s.OutputLen}
	}
	return list, nil
}

// lineTokens estimates the tokens of a line: its words, its punctuation and its end.
func lineTokens(line string) int {
	return len(strings.Fields(line)) + strings.Count(line, ",") + strings.Count(line, ".") + 1
}

// What sonnets are made of. Endings of a row rhyme.
var (
	sonnetRhymes = [][]string{
		strings.Fields("day way say stay play away"), strings.Fields("night light sight bright might white"),
		strings.Fields("heart part art start apart"), strings.Fields("sea free me be see tree"),
		strings.Fields("time rhyme climb prime chime"), strings.Fields("rain again pain plain vain"),
		strings.Fields("sky high by die why fly"), strings.Fields("grow know slow show below snow"),
		strings.Fields("hand land sand stand"), strings.Fields("rose close goes those"),
	}
	sonnetOpenings = []string{"When winter", "If summer", "The river", "My lady", "No stranger", "Old sorrow", "A morning", "The shepherd", "Thy beauty", "Each season"}
	sonnetVerbs    = []string{"hath covered", "will whisper", "may follow", "did answer", "shall measure", "can carry", "would borrow", "must weather"}
	sonnetObjects  = []string{"the garden", "a promise", "my spirit", "the shadow", "the water", "a feather", "the silence", "our labour"}
	sonnetLinks    = []string{"and all the", "before the", "beyond the", "until the", "along the", "without the"}
)

// sonnet makes up fourteen lines with the rhymes of Shakespeare: abab cdcd efef gg.
func sonnet(rnd *rand.Rand) []string {
	const scheme = "ababcdcdefefgg"
	rows := rnd.Perm(len(sonnetRhymes))
	used, lines := map[byte]int{}, make([]string, len(scheme))
	for i := range scheme {
		row := sonnetRhymes[rows[scheme[i]-'a']]
		if _, begun := used[scheme[i]]; !begun {
			used[scheme[i]] = rnd.IntN(len(row))
		}
		ending := row[used[scheme[i]]%len(row)]
		used[scheme[i]]++
		end := ","
		if i%4 == 3 || i == len(scheme)-1 {
			end = "."
		}
		pick := func(from []string) string { return from[rnd.IntN(len(from))] }
		lines[i] = fmt.Sprintf("%s %s %s %s %s%s\n", pick(sonnetOpenings), pick(sonnetVerbs), pick(sonnetObjects), pick(sonnetLinks), ending, end)
	}
	return lines
}
