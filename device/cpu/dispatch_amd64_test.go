//go:build !purego

package cpu

import (
	"slices"
	"testing"

	"golang.org/x/sys/cpu"
)

// TestImpls: a processor that can do more gets it, and says so in the log; so a
// machine of the newest kind cannot pass by testing plain Go alone.
func TestImpls(t *testing.T) {
	t.Log(Impls())
	x := cpu.X86
	for name, has := range map[string]bool{
		"avx512bf16": x.HasAVX512F && x.HasAVX512BW && x.HasAVX512VL && x.HasAVX512VNNI && x.HasAVX512BF16,
		"avx512vnni": x.HasAVX512F && x.HasAVX512BW && x.HasAVX512VL && x.HasAVX512VNNI,
		"avx512":     x.HasAVX512F && x.HasAVX512BW && x.HasAVX512VL,
		"avxvnni":    x.HasAVX2 && x.HasFMA && x.HasF16C && x.HasAVXVNNI,
		"avx2":       x.HasAVX2 && x.HasFMA && x.HasF16C,
		"generic":    true,
	} {
		if slices.Contains(Impls(), name) != has {
			t.Errorf("%s: the processor has it: %t; offered: %v", name, has, Impls())
		}
	}
	if x.HasAVX2 && find("").name == "generic" {
		t.Error("the best implementation is plain Go")
	}
}
