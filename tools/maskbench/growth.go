package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"math"
	"strings"

	"weir/grammar"
	"weir/internal/growth"
	"weir/internal/jsontext"
)

// sizes are those of the constraints that growthTable measures.
var sizes = []int{1_000, 10_000}

// growthTable measures compiling with the first mask, as constraints grow.
func growthTable(ctx context.Context, out io.Writer, engines []engine, about string) error {
	if _, err := fmt.Fprintf(out, "%s\n\nCompile and first mask, in milliseconds, and the logarithm of how much longer the larger one takes, to base ten.\n\n| What grows |", about); err != nil {
		return err
	}
	rule := "|---|"
	for _, e := range engines {
		fmt.Fprintf(out, " %s: 1,000 | 10,000 | exponent |", e.name())
		rule += "--:|--:|--:|"
	}
	fmt.Fprintln(out, "\n"+rule)
	for _, c := range growth.Cases {
		if err := ctx.Err(); err != nil {
			return err
		}
		log.Print(c.Name)
		row := "| " + c.Name + " |"
		for _, e := range engines {
			cells, err := grown(e, c)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", e.name(), c.Name, err)
			}
			row += cells
		}
		if _, err := fmt.Fprintln(out, row); err != nil {
			return err
		}
	}
	return nil
}

// grown measures a family of constraints.
func grown(e engine, c growth.Case) (cells string, err error) {
	var last float64
	for i, n := range sizes {
		ms, why, err := compileGrown(e, c.Of(n))
		if err != nil {
			return "", err
		}
		exponent := ""
		if i > 0 {
			exponent = " – |"
			if why == "" && last > 0 {
				exponent = fmt.Sprintf(" %.2f |", math.Log10(ms/last))
			}
		}
		if last = ms; why != "" {
			last = 0
			first, _, _ := strings.Cut(why, "\n")
			log.Printf("%s, %d, %s: %s", c.Name, n, e.name(), first)
			cells += " " + map[bool]string{true: "–", false: "refused"}[why == noForm] + " |" + exponent
			continue
		}
		cells += fmt.Sprintf(" %.2f |%s", ms, exponent)
	}
	return cells, nil
}

// noForm is why a constraint is not measured.
const noForm = "the engine has no such kind of constraint"

// compileGrown compiles one constraint. why is why it is refused.
func compileGrown(e engine, c growth.Constraint) (ms float64, why string, err error) {
	if w, ok := e.(*weirEngine); ok {
		_, took, err := w.compile(specOf(c, w.options))
		if err != nil {
			return 0, err.Error(), nil
		}
		return float64(took) / 1e6, "", nil
	}
	question := peerForm(c)
	if question == nil {
		return 0, noForm, nil
	}
	r, err := e.(*worker).ask(question)
	if err != nil {
		return 0, "", err
	}
	return float64(r.First) / 1e6, r.Error, nil
}

// specOf is a constraint as package grammar takes it.
func specOf(c growth.Constraint, o grammar.Options) grammar.Spec {
	s := grammar.Spec{Options: o, Choices: c.Choices}
	switch c.Kind {
	case growth.Schema:
		s.Kind, s.Schema = grammar.JSONSchema, []byte(c.Text)
	case growth.Tag:
		s.Kind, s.Schema = grammar.Tag, []byte(c.Text)
	case growth.Regex:
		s.Kind, s.Text = grammar.Regex, c.Text
	case growth.Choice:
		s.Kind = grammar.Choice
	case growth.Grammar:
		s.Kind, s.Text = grammar.Notation, c.Text
	}
	return s
}

// peerForm is a constraint as worker.py takes it; nil if llguidance has nothing of the kind.
func peerForm(c growth.Constraint) []byte {
	text := []byte(`{"id":"","tests":[],`)
	switch c.Kind {
	case growth.Schema:
		text = append(append(text, `"schema":`...), c.Text...)
	case growth.Regex:
		text = jsontext.AppendString(append(text, `"regex":`...), c.Text)
	case growth.Choice:
		text = jsontext.AppendString(append(text, `"lark":`...), growth.LarkOfChoices(c.Choices))
	case growth.Grammar:
		text = jsontext.AppendString(append(text, `"lark":`...), growth.Lark(c.Text))
	default:
		return nil
	}
	return append(text, '}')
}
