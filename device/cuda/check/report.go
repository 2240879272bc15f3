//go:build cuda && linux && amd64

package check

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"weir/device/cuda/kernels"
	"weir/internal/jsontext"
)

// Report is the file of results.
type Report struct {
	Started     string       `json:"started"`
	Version     string       `json:"version"`
	Device      string       `json:"device"`
	Quick       bool         `json:"quick"`
	Kernels     []Kernel     `json:"kernels"`     // of the launch table
	Comparisons []Comparison `json:"comparisons"` // with torch
	Sections    []Section    `json:"sections"`
	hopper      bool
}

// Kernel is what was found about one kernel, as in STATUS.md.
type Kernel struct {
	Name   string  `json:"name"`
	State  string  `json:"state"`  // ok, wrong, skipped or not launched, with a reason if there is one
	Checks int     `json:"checks"` // records with a verdict
	Error  float64 `json:"error"`  // relative, of the check that was nearest to its limit
	Limit  float64 `json:"limit"`
	Share  float64 `json:"share"` // the greatest share of a ceiling; 0: not timed
	Of     string  `json:"of,omitempty"`
}

// Comparison is the same work by weir and by torch.
type Comparison struct {
	Name  string  `json:"name"`
	Us    float64 `json:"us"`
	Torch float64 `json:"torch_us"` // 0: not timed
	Why   string  `json:"why,omitempty"`
	Ratio float64 `json:"torch_over_ours"`
}

// notLaunched are the kernels that no section launches, and why.
var notLaunched = map[string]string{}

// unknown is the state of a kernel that should have been launched.
const unknown = "not launched"

// conclude sums up the records.
func (r *Report) conclude() {
	r.Kernels, r.Comparisons = r.Kernels[:0], r.Comparisons[:0]
	for _, e := range kernels.Entries {
		r.Kernels = append(r.Kernels, r.kernel(e))
	}
	times, reasons, why := map[string]float64{}, map[string]string{}, "" // torch's
	for _, s := range r.Sections {
		if s.Number != torchSection {
			continue
		}
		for _, v := range s.Records {
			if us, ok := v.number("us"); ok {
				times[v.Key] = us
			} else if text, ok := v.Values["why"].(string); ok && v.Key != "" {
				reasons[v.Key] = text
			} else if ok {
				why = text
			}
		}
		if why == "" && s.State != "done" {
			why = s.State
		}
	}
	for _, s := range r.Sections {
		for _, v := range s.Records {
			us, ok := v.number("us")
			if !ok || v.Key == "" || s.Number == torchSection {
				continue
			}
			c := Comparison{Name: v.Name, Us: us, Torch: times[v.Key]}
			if c.Ratio = c.Torch / us; c.Torch == 0 {
				c.Why = cmp.Or(reasons[v.Key], why, "not measured")
			}
			r.Comparisons = append(r.Comparisons, c)
		}
	}
}

func (r *Report) kernel(e kernels.Entry) Kernel {
	k := Kernel{Name: e.Name, State: unknown}
	launched := false
	for _, s := range r.Sections {
		for _, v := range s.Records {
			if !slices.Contains(v.Kernels, e.Name) {
				continue
			}
			launched = true
			if share, ok := v.number("share"); ok && share > k.Share {
				k.Share = share
				k.Of, _ = v.Values["of"].(string)
			}
			if v.Verdict != OK && v.Verdict != Wrong {
				continue
			}
			k.Checks++
			if k.State != Wrong {
				k.State = v.Verdict
			}
			rel, ok := v.number("rel")
			limit, _ := v.number("limit")
			if ok && k.Error >= 0 && (rel < 0 || rel*k.Limit >= k.Error*limit) { // -1 is NaN
				k.Error, k.Limit = rel, limit
			}
		}
	}
	reason, known := notLaunched[e.Name]
	switch {
	case k.Checks > 0:
	case launched:
		k.State = "launched, not checked"
	case e.Flavour == kernels.SM90a && !r.hopper:
		k.State = Skipped + ": needs sm_90"
	case known:
		k.State = unknown + ": " + reason
	}
	return k
}

// unexplained counts the kernels about which nothing was found, without a reason.
func (r *Report) unexplained() (n int) {
	for _, k := range r.Kernels {
		if k.State == unknown || k.State == "launched, not checked" {
			n++
		}
	}
	return n
}

// print writes the summary.
func (r *Report) print(out io.Writer) {
	fmt.Fprintf(out, "== kernels\n   %-18s %-24s %6s %10s %10s %8s\n", "kernel", "state", "checks", "error", "limit", "share")
	for _, k := range r.Kernels {
		share := "–"
		if k.Share > 0 {
			share = fmt.Sprintf("%.3f of %s", k.Share, k.Of)
		}
		fmt.Fprintf(out, "   %-18s %-24s %6d %10.2g %10.2g %8s\n", k.Name, k.State, k.Checks, k.Error, k.Limit, share)
	}
	fmt.Fprintf(out, "== weir and torch\n   %-52s %12s %12s %14s\n", "", "weir us", "torch us", "torch / weir")
	for _, c := range r.Comparisons {
		theirs, ratio := fmt.Sprintf("%.1f", c.Torch), fmt.Sprintf("%.2f", c.Ratio)
		if c.Torch == 0 {
			theirs, ratio = "–", c.Why
		}
		fmt.Fprintf(out, "   %-52s %12.1f %12s %14s\n", c.Name, c.Us, theirs, ratio)
	}
	fmt.Fprintln(out, "== sections")
	for _, s := range r.Sections {
		fmt.Fprintf(out, "   %s %-40s %6.1f s of %3.0f  %s\n", s.Number, s.Title, s.Seconds, s.Within, s.State)
		for _, v := range s.Records {
			if v.Verdict == Wrong || v.Verdict == Late || v.Verdict == Missed {
				fmt.Fprintln(out, "     ", v)
			}
		}
	}
}

// FileName names the file of results by date, card and commit.
func (r *Report) FileName(card string) string {
	word := func(s string) string {
		return strings.Trim(regexp.MustCompile(`[^a-z0-9.]+`).ReplaceAllString(strings.ToLower(s), "-"), "-")
	}
	return fmt.Sprintf("%.10s-%s-%s.json", r.Started, word(card), word(r.Version))
}

func (r *Report) write(path string) error {
	if path == "" {
		return nil
	}
	b, err := jsontext.EncodeIndent(r, " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", append(b, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
