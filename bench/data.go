package bench

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"weir/internal/jsontext"
)

// Prompt is one request of a data set.
type Prompt struct {
	Text      string
	Messages  []jsontext.RawMessage          // messages of a chat, in place of Text
	OutputLen int                            // largest number of tokens in the answer
	Fields    map[string]jsontext.RawMessage // further fields of the request, such as tools

	At time.Duration // when it is due, if the data set has times of its own

	// Follows says that this is the next message of the user in the conversation of the prompt before it
	// in the list. It is due Think after the end of the answer to that, and is sent with the whole history.
	Follows bool
	Think   time.Duration
}

// Data makes prompts. They depend on the seed alone.
type Data interface {
	validate() error
	draw(n int, d *drawing) ([]Prompt, error)
}

// drawing is what a data set makes prompts from.
type drawing struct {
	seed, variant uint64
	count         func(text string) int // number of tokens of a text
}

// The seed gives independent streams of random numbers, so that a change of one does not change
// the others.
const (
	scheduleStream = 1
	promptStream   = 2
	leaveStream    = 3
	wordStream     = 1 << 32 // and the numbers after it, one for each variant
)

// lengths draws what all variants have in common.
func (d *drawing) lengths() *rand.Rand { return rand.New(rand.NewPCG(d.seed, promptStream)) }

// words draws the words of prompts that are made up.
func (d *drawing) words() *rand.Rand { return rand.New(rand.NewPCG(d.seed, wordStream+d.variant)) }

// List is a data set whose prompts are known, such as those of a file. They are used in turn.
type List struct {
	Prompts []Prompt
	Shuffle bool // in an order that the seed decides, and that each conversation keeps
}

// InTurn is a data set of these prompts.
func InTurn(prompts []Prompt) List { return List{Prompts: prompts} }

func (l List) validate() error {
	if len(l.Prompts) == 0 {
		return errNoPrompts
	}
	return nil
}

var errNoPrompts = errors.New("bench: no prompts")

func (l List) draw(n int, d *drawing) ([]Prompt, error) {
	order := l.conversations()
	if l.Shuffle {
		d.lengths().Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	}
	list := make([]Prompt, 0, n)
	for i := 0; len(list) < n; i++ {
		list = append(list, order[i%len(order)]...)
	}
	return list[:n], nil
}

// conversations cuts the list into conversations, most of which are a single prompt.
func (l List) conversations() (list [][]Prompt) {
	begin := 0
	for i := range l.Prompts {
		if i > begin && !l.Prompts[i].Follows {
			list, begin = append(list, l.Prompts[begin:i]), i
		}
	}
	return append(list, l.Prompts[begin:])
}

// Random describes prompts that are made of random words.
type Random struct {
	InputLen  int // words of a prompt, not counting the prefix
	OutputLen int // tokens of an answer
	PrefixLen int // words that all prompts begin with
	// RangeRatio r, in [0, 1), draws both lengths evenly from [len*(1-r), len*(1+r)].
	RangeRatio float64
}

// DefaultRandom has the defaults of vLLM's benchmark.
func DefaultRandom() Random { return Random{InputLen: 1024, OutputLen: 128} }

func (r Random) validate() error {
	if err := checkLengths("random", r.InputLen, r.OutputLen, r.PrefixLen); err != nil {
		return err
	}
	if !(r.RangeRatio >= 0 && r.RangeRatio < 1) {
		return fmt.Errorf("bench: a range ratio of %v, not in [0, 1)", r.RangeRatio)
	}
	return nil
}

// checkLengths refuses lengths that are negative or beyond reason.
func checkLengths(what string, lengths ...int) error {
	for _, n := range lengths {
		if n < 0 || n > maxPrompts {
			return fmt.Errorf("bench: a %s length of %d", what, n)
		}
	}
	return nil
}

// words are so common that each, with the space before it, is one token in vocabularies of
// every size. The exact length of a prompt is in the usage of its answer, because the chat
// template adds to it.
var words = strings.Fields(`the of and to in is that for it as was with be by on not he but at are this have from or
	an they one you were there would their we has when who will no more if out so up said what its about into them can
	only other time new some these two may first then do any like my over me even most after did many before well back
	years much where your down long each too little good make year still own work day get old under three never know
	same last another us great come right came take few house use high without again home small found part school
	every does left number course until always something water far set nothing night end why called find look later`)

func (r Random) draw(n int, d *drawing) ([]Prompt, error) {
	lengths, rnd := d.lengths(), d.words()
	prefix := appendWords(nil, r.PrefixLen, rnd)
	list := make([]Prompt, n)
	for i := range list {
		in, out := r.length(r.InputLen, lengths), r.length(r.OutputLen, lengths)
		text := appendWords(append([]byte(nil), prefix...), max(in, 1-r.PrefixLen), rnd)
		list[i] = Prompt{Text: string(text), OutputLen: max(out, 1)}
	}
	return list, nil
}

func (r *Random) length(n int, rnd *rand.Rand) int {
	low, high := math.Floor(float64(n)*(1-r.RangeRatio)), math.Ceil(float64(n)*(1+r.RangeRatio))
	return int(low) + rnd.IntN(int(high-low)+1)
}

func appendWords(dst []byte, n int, rnd *rand.Rand) []byte {
	for range n {
		if len(dst) > 0 {
			dst = append(dst, ' ')
		}
		dst = append(dst, words[rnd.IntN(len(words))]...)
	}
	return dst
}

// PrefixRepetition makes prompts that share prefixes: each prefix begins the same number of prompts,
// as in vLLM's data set prefix_repetition, and the prompts of all prefixes are mixed.
type PrefixRepetition struct {
	PrefixLen, SuffixLen, OutputLen int
	Prefixes                        int
}

// DefaultPrefixRepetition has the defaults of vLLM's benchmark.
func DefaultPrefixRepetition() PrefixRepetition {
	return PrefixRepetition{PrefixLen: 256, SuffixLen: 256, OutputLen: 128, Prefixes: 10}
}

func (p PrefixRepetition) validate() error {
	if p.Prefixes < 1 || p.Prefixes > maxPrompts || p.OutputLen < 1 || p.PrefixLen+p.SuffixLen < 1 {
		return fmt.Errorf("bench: %d prefixes of %d words with %d words after them, and answers of %d tokens", p.Prefixes, p.PrefixLen, p.SuffixLen, p.OutputLen)
	}
	return checkLengths("prefix or suffix", p.PrefixLen, p.SuffixLen, p.OutputLen)
}

func (p PrefixRepetition) draw(n int, d *drawing) ([]Prompt, error) {
	rnd := d.words()
	prefixes := make([][]byte, p.Prefixes)
	for i := range prefixes {
		prefixes[i] = appendWords(nil, p.PrefixLen, rnd)
	}
	list := make([]Prompt, n)
	for i := range list {
		prefix := prefixes[i%p.Prefixes]
		list[i] = Prompt{Text: string(appendWords(append([]byte(nil), prefix...), p.SuffixLen, rnd)), OutputLen: p.OutputLen}
	}
	d.lengths().Shuffle(n, func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list, nil
}

// Conversations are conversations of several turns. The first turn of each is due by the schedule, and
// each further one a while after the answer to the one before, because people read and think.
type Conversations struct {
	Turns     int
	SystemLen int // words that all conversations begin with
	FirstLen  int // words of the first message
	TurnLen   int // words of each further one
	OutputLen int // tokens of each answer
	Think     time.Duration
	// Even makes all times of thinking equal; otherwise they follow an exponential distribution of this mean.
	Even bool
}

// DefaultConversations are conversations of five turns.
func DefaultConversations() Conversations {
	return Conversations{Turns: 5, SystemLen: 200, FirstLen: 200, TurnLen: 50, OutputLen: 128, Think: time.Second}
}

func (c Conversations) validate() error {
	if c.Turns < 1 || c.Turns > maxTurns || c.FirstLen < 1 || c.TurnLen < 1 || c.OutputLen < 1 || c.Think < 0 || c.Think > maxSchedule {
		return fmt.Errorf("bench: conversations of %d turns, of %d and then %d words, answers of %d tokens and %v between them", c.Turns, c.FirstLen, c.TurnLen, c.OutputLen, c.Think)
	}
	return checkLengths("message's", c.SystemLen, c.FirstLen, c.TurnLen, c.OutputLen)
}

func (c Conversations) draw(n int, d *drawing) ([]Prompt, error) {
	rnd, times := d.words(), d.lengths()
	system := appendWords(nil, c.SystemLen, rnd)
	list := make([]Prompt, n)
	for i := range list {
		p := Prompt{OutputLen: c.OutputLen}
		if i%c.Turns == 0 {
			p.Text = string(appendWords(append([]byte(nil), system...), c.FirstLen, rnd))
		} else {
			p.Text, p.Follows, p.Think = string(appendWords(nil, c.TurnLen, rnd)), true, c.Think
			if !c.Even {
				p.Think = time.Duration(float64(c.Think) * times.ExpFloat64())
			}
		}
		list[i] = p
	}
	return list, nil
}

// fields are those that all requests have, in the shape that vLLM's benchmark sends. Fields of
// a prompt come after them, and those of ExtraBody win.
func (c *ServeConfig) fields() (map[string]any, error) {
	fields := map[string]any{"stream": true}
	if !c.NoUsage {
		fields["stream_options"] = map[string]bool{"include_usage": true}
	}
	if c.Model != "" {
		fields["model"] = c.Model
	}
	if c.Temperature != nil {
		fields["temperature"] = *c.Temperature
	}
	if c.IgnoreEOS {
		fields["ignore_eos"] = true
	}
	extra, err := c.extra()
	for k, v := range extra {
		fields[k] = v
	}
	return fields, err
}

// extra are the fields of ExtraBody.
func (c *ServeConfig) extra() (fields map[string]jsontext.RawMessage, err error) {
	if len(c.ExtraBody) == 0 {
		return nil, nil
	}
	if err := jsontext.Decode(c.ExtraBody, &fields); err != nil || fields == nil {
		return nil, fmt.Errorf("bench: the extra body is not a JSON object: %s", clip(string(c.ExtraBody)))
	}
	return fields, nil
}
