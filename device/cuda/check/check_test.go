//go:build cuda && linux && amd64

package check

import (
	"testing"
	"time"

	"weir/device/cuda/kernels"
)

// TestDeadlines: sections end one after the other, within the total, which is less than
// eight minutes by default. Time that a section does not use goes to the next.
func TestDeadlines(t *testing.T) {
	var sum time.Duration
	for _, s := range sections {
		sum += s.budget
	}
	if sum > 470*time.Second {
		t.Errorf("budgets of %v", sum)
	}
	for _, total := range []time.Duration{470 * time.Second, time.Minute} {
		ends := deadlines(sections, total)
		before := time.Duration(0)
		for i, e := range ends {
			if least := time.Duration(float64(sections[i].budget) / float64(sum) * float64(total)); e-before < least-time.Millisecond {
				t.Errorf("section %s has %v of %v", sections[i].number, e-before, least)
			}
			before = e
		}
		if before > total {
			t.Errorf("%v in all, %v are allowed", before, total)
		}
	}
	if ends := deadlines(sections[1:2], time.Minute); ends[0] != time.Minute {
		t.Errorf("a section alone has %v", ends[0])
	}
}

// TestGPUCheckReasons: kernels that nothing launches are in the launch table.
func TestGPUCheckReasons(t *testing.T) {
	for name, why := range notLaunched {
		if kernels.Find(name) == nil || why == "" {
			t.Errorf("%s: %q", name, why)
		}
	}
}
