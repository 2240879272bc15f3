package bench

import (
	"bytes"
	_ "embed"
	"fmt"
	"html"
	"io"

	"weir/internal/jsontext"
)

// A page is a report with plots for a browser: one file that needs nothing else. The plots are drawn by
// uPlot (uplot/LICENSE), which is inside it.
type page struct {
	Title  string      `json:"title"`
	Notes  []string    `json:"notes"`
	Warns  []string    `json:"warnings"`
	Tables []pageTable `json:"tables"`
	Plots  []pagePlot  `json:"plots"`
}

// pageTable has a title, the names of its columns, and rows of texts.
type pageTable struct {
	Title string     `json:"title"`
	Head  []string   `json:"head"`
	Rows  [][]string `json:"rows"`
}

// pagePlot is a plot of some curves.
type pagePlot struct {
	Title  string      `json:"title"`
	X      string      `json:"x"` // what the axes show
	Y      string      `json:"y"`
	LogX   bool        `json:"log_x"`
	Points bool        `json:"points"` // points that nothing joins
	Curves []pageCurve `json:"curves"`
}

// pageCurve is a curve through points in the order of x.
type pageCurve struct {
	Name string    `json:"name"`
	X    []float64 `json:"x"`
	Y    []float64 `json:"y"`
}

// What the page is made of.
var (
	//go:embed uplot/uPlot.iife.min.js
	uplotScript []byte
	//go:embed uplot/uPlot.min.css
	uplotStyle []byte
	//go:embed uplot/LICENSE
	uplotLicense []byte
	//go:embed page.css
	pageStyle []byte
	//go:embed page.js
	pageScript []byte
)

// write writes the page.
func (p *page) write(w io.Writer) error {
	data, err := jsontext.Encode(p)
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	data = bytes.ReplaceAll(data, []byte("<"), []byte(`\u003c`)) // so that no text can end the script
	var b bytes.Buffer
	b.WriteString("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>")
	b.WriteString(html.EscapeString(p.Title))
	b.WriteString("</title>\n<style>\n")
	b.Write(uplotStyle)
	b.WriteByte('\n')
	b.Write(pageStyle)
	b.WriteString("</style>\n</head>\n<body>\n<main id=\"report\"></main>\n<!-- uPlot:\n")
	b.Write(uplotLicense)
	b.WriteString("-->\n<script>\n")
	b.Write(uplotScript)
	b.WriteString("\n</script>\n<script type=\"application/json\" id=\"data\">")
	b.Write(data)
	b.WriteString("</script>\n<script>\n")
	b.Write(pageScript)
	b.WriteString("</script>\n</body>\n</html>\n")
	_, err = w.Write(b.Bytes())
	return err
}
