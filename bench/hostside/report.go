package hostside

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"weir/internal/jsontext"
)

// Report is what Run measured.
type Report struct {
	Date    time.Time `json:"date"`
	Machine string    `json:"machine"` // and version, for the heading
	Rows    []Row     `json:"rows"`
}

// WriteText writes a table in Markdown.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s\n\n| | | reference | ratio | the reference is | |\n|--|--:|--:|--:|--|--|\n", r.Date.UTC().Format("2006-01-02 15:04 UTC"), r.Machine)
	for _, row := range r.Rows {
		ratio := "–"
		if row.Reference > 0 {
			ratio = strconv.FormatFloat(row.Value/row.Reference, 'f', 2, 64)
		}
		fmt.Fprintf(&b, "| %s | %s %s | %s | %s | %s | %s |\n", row.Name, number(row.Value), row.Unit, number(row.Reference), ratio, row.Beside, row.Note)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// number has three digits or more.
func number(v float64) string {
	if v >= 100 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// WriteBenchmark writes a line for each figure, as a Go benchmark that benchstat reads.
func (r *Report) WriteBenchmark(w io.Writer) error {
	var b strings.Builder
	b.WriteByte('\n')
	for _, row := range r.Rows {
		name := strings.NewReplacer(",", "", " ", "-").Replace(row.Name)
		fmt.Fprintf(&b, "BenchmarkSim/%s 1 %.4f %s %.4f reference-%s\n", name, row.Value, row.Unit, row.Reference, row.Unit)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteJSON writes all that was measured.
func (r *Report) WriteJSON(w io.Writer) error {
	text, err := jsontext.EncodeIndent(r, "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(text, '\n'))
	return err
}
