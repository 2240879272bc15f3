package bench

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"weir/internal/testkit"
)

// TestVariation compares with R: mean, sd and t.test of these numbers.
func TestVariation(t *testing.T) {
	v := newVariation([]float64{10, 12, 11, 15})
	if v.Mean != 12 || math.Abs(v.Std-2.1602469) > 1e-6 || math.Abs(v.Within-3.4374) > 2e-3 || math.Abs(v.CV()-0.18002057) > 1e-6 {
		t.Errorf("%+v %v", v, v.CV())
	}
	if v := newVariation([]float64{7}); v != (Variation{Mean: 7}) {
		t.Errorf("%+v", v)
	}
	if (Variation{}).CV() != 0 {
		t.Error("nothing varies")
	}
	for freedom, want := range map[int]float64{1: 12.706, 10: 2.228, 30: 2.042, 40: 2.0211, 100: 1.9840, 1000000: 1.95996} {
		if got := student95(freedom); math.Abs(got-want) > 2e-4 {
			t.Errorf("t of %d: %v, want %v", freedom, got, want)
		}
	}
}

// threeRuns is a series of three runs whose answers take 10, 20 and 30 ms longer.
func threeRuns(t *testing.T) *Series {
	s := &Series{}
	for i := range 3 {
		p := steady(7, 3, 50*msec, 20*msec)
		p.steps[0].after += []step{{10 * msec, ""}, {20 * msec, ""}, {30 * msec, ""}}[i].after
		f, prompts := plansInTurn(p, p, plan{status: 400, refusal: `{"error":"no <b>"}`}, p)
		s.Reports = append(s.Reports, mustMeasure(t, f, prompts, func(c *ServeConfig) {
			evenly(10)(c)
			c.Seed, c.Label, c.Metadata, c.MaxConcurrency = uint64(i), "three", [][2]string{{"machine", "A"}}, 2
			c.Goodput = Goodput{TTFT: 75}
		}))
	}
	return s
}

// TestSeriesGolden: the text, table, JSON and data of the page of three runs.
func TestSeriesGolden(t *testing.T) {
	s := threeRuns(t)
	var text, object, table, pretty bytes.Buffer
	for _, err := range []error{s.WriteText(&text), s.WriteJSON(&object, false), s.WriteCSV(&table)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := json.Indent(&pretty, object.Bytes(), "", "  "); err != nil {
		t.Fatal(err)
	}
	_, end, _ := strings.Cut(text.String(), " Variation over")
	testkit.Golden(t, "testdata/series.txt", []byte(end))
	testkit.Golden(t, "testdata/series.json", pretty.Bytes())
	testkit.Golden(t, "testdata/series.csv", table.Bytes())
	page, err := json.MarshalIndent(s.page(), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	testkit.Golden(t, "testdata/series.page.json", page)
	rows, err := csv.NewReader(bytes.NewReader(table.Bytes())).ReadAll()
	if err != nil || len(rows) != 1+3*4 || len(rows[0]) != len(csvColumns) {
		t.Errorf("%d rows, %v", len(rows), err)
	}
	if single := (&Series{Reports: s.Reports[:1]}); single.Completed() != 3 || s.Completed() != 9 {
		t.Errorf("%d and %d completed", single.Completed(), s.Completed())
	}
}

// TestPage: a page has all that it needs inside, and no text of a server ends its script.
func TestPage(t *testing.T) {
	p := page{Title: `</script><script>alert(1)`, Notes: []string{"</script>"}, Plots: []pagePlot{{Title: "p", Curves: []pageCurve{{"c", []float64{1}, []float64{2}}}}}}
	var b bytes.Buffer
	if err := p.write(&b); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	if strings.Count(text, "</script>") != 3 || strings.Contains(text, "src=") || strings.Contains(text, "<link") || strings.Contains(text, "@import") {
		t.Errorf("%d scripts end, or something is loaded", strings.Count(text, "</script>"))
	}
	if !strings.Contains(text, "MIT License") || !strings.Contains(text, "<title>&lt;/script&gt;") {
		t.Error("the licence or the title is missing")
	}
	_, data, _ := strings.Cut(text, `<script type="application/json" id="data">`)
	data, _, _ = strings.Cut(data, "</script>")
	var back page
	if err := json.Unmarshal([]byte(data), &back); err != nil || fmt.Sprint(back) != fmt.Sprint(p) {
		t.Errorf("%v: %+v", err, back)
	}
}

// TestRunSeries: every run has a seed of its own, and the first failure to reach the server ends the series.
func TestRunSeries(t *testing.T) {
	c := DefaultServeConfig()
	c.BaseURL = "http://127.0.0.1:1"
	begun := 0
	if s, err := RunSeries(t.Context(), c, 3, func(int) { begun++ }); err == nil || begun != 1 {
		t.Errorf("%v %v, %d begun", s, err, begun)
	}
	for _, n := range []int{0, maxRuns + 1} {
		if _, err := RunSeries(t.Context(), c, n, func(int) {}); err == nil {
			t.Errorf("%d runs", n)
		}
	}
}
