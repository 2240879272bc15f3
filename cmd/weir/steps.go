package main

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"time"

	"weir/engine"
	"weir/internal/jsontext"
)

// stepLine is a step of the flight recorder as JSON. Times are in microseconds.
type stepLine struct {
	Step        uint64           `json:"step"`
	Time        string           `json:"time"`
	Kind        string           `json:"kind"`
	State       engine.StepState `json:"state"`
	Sequences   int              `json:"sequences"`
	Prefill     int              `json:"prefill_tokens"`
	Decode      int              `json:"decode_tokens"`
	Rows        int              `json:"draws"`
	Masked      int              `json:"masked_draws"`
	Plan        int64            `json:"plan_us"`
	Draw        int64            `json:"draw_us"`
	Wait        int64            `json:"wait_us"`
	Book        int64            `json:"book_us"`
	Waiting     int              `json:"waiting"`
	Running     int              `json:"running"`
	BlocksUsed  int              `json:"kv_blocks_used"`
	BlocksTotal int              `json:"kv_blocks_total"`
	Preemptions int              `json:"preemptions"`
}

// writeSteps writes steps, each as a line of JSON.
func writeSteps(w io.Writer, steps []engine.StepRecord) error {
	var text []byte
	for i := range steps {
		r := &steps[i]
		line, err := jsontext.Encode(stepLine{
			r.Step, r.Planned.UTC().Format(time.RFC3339Nano), r.Kind, r.State, r.Sequences, r.Prefill, r.Decode, r.Rows, r.MaskedDraws,
			r.Plan.Microseconds(), r.Draw.Microseconds(), r.Wait.Microseconds(), r.Book.Microseconds(), r.Waiting, r.Running, r.BlocksUsed, r.BlocksTotal, r.Preemptions,
		})
		if err != nil {
			return err
		}
		text = append(append(text, line...), '\n')
	}
	_, err := w.Write(text)
	return err
}

// dumpSteps writes what the engine did last to standard error, below a line of the log that says so. Both
// are written at once and not by the log, whose lines wait for their turn, because the process may be ending.
func (s *service) dumpSteps(why string) {
	steps := s.engine.engine.Steps(nil)
	var text bytes.Buffer
	slog.New(logHandler(&text, slog.LevelInfo, s.options.logs.format)).Info("the newest steps follow", "reason", why, "steps", len(steps))
	err := writeSteps(&text, steps)
	if err == nil {
		w := s.options.life.dump
		if w == nil {
			w = os.Stderr
		}
		_, err = w.Write(text.Bytes())
	}
	if err != nil {
		s.log.Error("the newest steps cannot be written", "error", err)
	}
}
