package api

import (
	"errors"
	"fmt"
)

// Limits bounds what one request may make the server hold and do. They are far
// above what clients send; the size of the body itself is the server's limit.
// Each violation is a 400 that names the field and the limit.
type Limits struct {
	Depth        int // nested arrays and objects, in the body and in JSON texts inside it
	Messages     int
	Parts        int // content parts and tool calls, over all messages
	ToolBytes    int // bytes of tools, and of a developer message's tools
	Choices      int // n
	Prompts      int // prompts of /v1/completions, times n
	Stop         int // stop strings
	StopBytes    int // of all stop strings together
	StopTokenIDs int
	LogitBias    int // entries
	AllowedIDs   int // allowed_token_ids
	BadWords     int
	Alternatives int // structured_outputs.choice
	Repetition   int // sizes and count of repetition_detection, in tokens and copies

	// Done ends the decoding of long lists soon after it was closed, with an error that
	// nobody reads; nil: nothing ends it.
	Done <-chan struct{}
}

// stopped reports whether Done was closed, if it is the turn of element i to look.
func (l *Limits) stopped(i int) bool {
	if i&0xfff != 0xfff {
		return false
	}
	select {
	case <-l.Done:
		return true
	default:
		return false
	}
}

// DefaultLimits returns the limits of a server without configuration.
func DefaultLimits() Limits {
	return Limits{
		Depth:        200,
		Messages:     16_384,
		Parts:        65_536,
		ToolBytes:    4 << 20,
		Choices:      16_384,
		Prompts:      2_048,
		Stop:         256,
		StopBytes:    16 << 10,
		StopTokenIDs: 4_096,
		LogitBias:    16_384,
		AllowedIDs:   1 << 20,
		BadWords:     4_096,
		Alternatives: 65_536,
		Repetition:   2_048,
	}
}

// maxDepth keeps the recursion of scan within a few megabytes of stack.
const maxDepth = 10_000

// Validate reports the first limit that makes no sense.
func (l *Limits) Validate() error {
	for _, f := range []struct {
		name  string
		value int
	}{
		{"Depth", l.Depth}, {"Messages", l.Messages}, {"Parts", l.Parts}, {"ToolBytes", l.ToolBytes},
		{"Choices", l.Choices}, {"Prompts", l.Prompts}, {"Stop", l.Stop}, {"StopBytes", l.StopBytes}, {"StopTokenIDs", l.StopTokenIDs}, {"LogitBias", l.LogitBias},
		{"AllowedIDs", l.AllowedIDs}, {"BadWords", l.BadWords}, {"Alternatives", l.Alternatives}, {"Repetition", l.Repetition},
	} {
		if f.value < 1 {
			return fmt.Errorf("api: Limits.%s is %d, want at least 1", f.name, f.value)
		}
	}
	if l.Depth > maxDepth {
		return fmt.Errorf("api: Limits.Depth is %d, want at most %d", l.Depth, maxDepth)
	}
	if l.Repetition < 2 {
		return errors.New("api: Limits.Repetition is 1, want at least 2: a repetition has two copies")
	}
	return nil
}
