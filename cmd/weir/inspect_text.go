package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
)

// write prints the inspection as a table.
func (x *inspection) write(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(cells ...string) { fmt.Fprintln(t, strings.TrimRight(strings.Join(cells, "\t"), "\t")) }
	row("model", x.Model)
	row("format", or(x.Format, "unknown"))
	row("architecture", or(x.Architecture, "unknown"))
	if s := x.Sizes; s != nil {
		head := "a head of its own"
		if s.TiedHead {
			head = "the embedding is the head"
		}
		if s.NoHead {
			head = "no head"
		}
		row("network", fmt.Sprintf("%d layers of %d, %d heads and %d KV heads of %d, inner size %d, vocabulary %s, %s",
			s.Layers, s.Hidden, s.Heads, s.KVHeads, s.HeadDim, s.Intermediate, grouped(int64(s.Vocabulary)), head))
	}
	if len(x.Layers) > 0 {
		parameters := grouped(x.Parameters)
		if x.ActiveParameters != x.Parameters {
			parameters += ", of which " + grouped(x.ActiveParameters) + " are active for a token"
		}
		row("parameters", parameters)
		row("stored in", inUnits(x.StoredBytes))
	}
	if x.Context > 0 {
		row("context", grouped(int64(x.Context))+" tokens")
	}
	x.writeTexts(row)
	if err := t.Flush(); err != nil {
		return err
	}
	x.writeLayers(w)
	x.writeMemory(w)
	writeList(w, "notes", x.Notes)
	writeList(w, "unsupported", x.Unsupported)
	return nil
}

// writeTexts prints what turns messages into tokens.
func (x *inspection) writeTexts(row func(cells ...string)) {
	if t := x.Tokenizer; t != nil {
		row("tokenizer", fmt.Sprintf("%s tokens, %d of them special", grouped(int64(t.Tokens)), t.Special))
	}
	for _, s := range x.SpecialTokens {
		text := s.Text
		switch {
		case s.ID >= 0:
			text += fmt.Sprintf(" (%d)", s.ID)
		case x.Tokenizer != nil:
			text += ", which the tokenizer does not have"
		}
		row(strings.ReplaceAll(s.Role, "_", " "), text)
	}
	if t := x.Template; t != nil {
		row("chat template", fmt.Sprintf("%s, %s bytes", t.From, grouped(int64(t.Bytes))))
		row("reasoning format", or(x.Reasoning, "none found"))
		row("tool format", or(x.Tools, "none found"))
	} else if x.Tokenizer != nil && (x.Sizes == nil || !x.Sizes.NoHead) {
		row("chat template", "none: only /v1/completions can be asked")
	}
}

func (x *inspection) writeLayers(w io.Writer) {
	if len(x.Layers) == 0 {
		return
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "LAYERS\tTENSORS\tPARAMETERS\tSTORED IN\tTYPES")
	for i := range x.Layers {
		k := &x.Layers[i]
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\n", k.Kind, k.Tensors, grouped(k.Parameters), inUnits(k.Bytes), k.types())
	}
	_ = t.Flush() // w has failed before, or fails when it is used next
}

func (x *inspection) writeMemory(w io.Writer) {
	m := x.Memory
	if m == nil {
		return
	}
	fmt.Fprintln(w, "\nMEMORY")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "weights, packed\t%s\n", inUnits(m.Weights))
	fmt.Fprintf(t, "embedding, mapped from its file\t%s\n", inUnits(m.Mapped))
	fmt.Fprintf(t, "activations of a step of %d tokens\t%s\n", stepTokens, inUnits(m.Activations))
	for _, name := range []string{"float32", "float16", "bfloat16", "int8"} {
		size := "not for heads of these sizes"
		if n, ok := m.KVPer1000[name]; ok {
			size = inUnits(n)
		}
		fmt.Fprintf(t, "keys and values of 1,000 tokens, %s\t%s\n", name, size)
	}
	if m.State > 0 {
		fmt.Fprintf(t, "state of a sequence\t%s\n", inUnits(m.State))
	}
	_ = t.Flush()
}

func writeList(w io.Writer, title string, list []string) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s\n", strings.ToUpper(title))
	for _, line := range list {
		fmt.Fprintf(w, "%s\n", line)
	}
}

// or is text, or another if that is empty.
func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// grouped prints a number with commas between groups of three digits.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
