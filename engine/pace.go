package engine

import (
	"time"

	"weir/scheduler"
)

// pacer decides how many prompt tokens a step computes beside running answers, so that it takes
// about as long as Config.ITLTarget. It measures two things: how long a step takes that computes
// no prompt, and how much longer one takes for each prompt token. A token costs the more the more
// tokens come before it, and the measure follows within a few steps, in which a prompt has not
// grown by much. What is wrong in the first measure the second one makes up for, because it is
// what is left of the time of the last steps: their lengths approach the target.
//
// However short the target is, a step with prompts may take nine tenths longer than one without.
// Prompts so keep nearly half of the time, and take at most three times as long as alone, also where
// small chunks cost more for each token; and streams are never slowed down to less than half.
type pacer struct {
	target time.Duration // 0: the number does not change
	most   int           // tokens of a step
	base   float64       // seconds of a step without prompts; 0: unknown
	token  float64       // seconds more for each prompt token; 0: unknown
}

// A measure moves by one part in these numbers from one step to the next, so that a step that
// the system has held up does not decide, and the number of tokens does not swing.
const (
	baseInertia  = 8
	tokenInertia = 4
)

// leastTime is how much longer a step may be because of prompts, as a part of one without.
const leastTime = 0.9

// leastPrompt is the fewest prompt tokens of a step.
const leastPrompt = 16

// observe takes in a step that has computed so many single tokens of answers and tokens of
// prompts.
func (p *pacer) observe(took time.Duration, answers, prompt int) {
	if p.target <= 0 || took <= 0 {
		return
	}
	s := took.Seconds()
	switch {
	case prompt == 0 && answers > 0:
		p.base = moved(p.base, s, baseInertia)
	case prompt > 0 && answers == 0:
		if p.token == 0 {
			p.token = s / float64(prompt) // a first guess, which is too much
		}
	case prompt > 0:
		if p.base == 0 {
			p.base = s * float64(answers) / float64(answers+prompt)
		}
		p.token = moved(p.token, max(s-p.base, s/1000)/float64(prompt), tokenInertia)
	}
}

// moved is an average that has taken in a value.
func moved(average, value, inertia float64) float64 {
	if average == 0 {
		return value
	}
	return average + (value-average)/inertia
}

// budget is the most prompt tokens of the next step; 0: it is not known yet.
func (p *pacer) budget() int {
	if p.target <= 0 || p.base == 0 || p.token == 0 {
		return 0
	}
	n := max(p.target.Seconds()-p.base, leastTime*p.base) / p.token
	return int(min(max(n, leastPrompt), float64(p.most)))
}

// parts counts the tokens of a step: single ones, of answers, and those of prompts.
func parts(chunks []scheduler.Chunk) (answers, prompt int) {
	for i := range chunks {
		if n := chunks[i].N; n > 1 {
			prompt += n
		} else {
			answers++
		}
	}
	return answers, prompt
}
