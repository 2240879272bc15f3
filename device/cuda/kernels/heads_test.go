package kernels

import "testing"

// TestShared: the kernels for every GPU fit the shared memory of those that have the least, 99 KiB a
// block (compute capability 8.6, 8.9 and 12.0), with 1 KiB for what is declared in the kernel.
func TestShared(t *testing.T) {
	for _, e := range Entries {
		if e.Flavour == SM80 && e.Shared > 98<<10 {
			t.Errorf("%s needs %d bytes", e.Name, e.Shared)
		}
	}
}

// TestSizeOf: heads have the smallest kernels that they fit, in both sizes.
func TestSizeOf(t *testing.T) {
	for heads, want := range map[[2]int]int{{2, 2}: 64, {64, 64}: 64, {64, 66}: 128, {80, 80}: 128, {192, 128}: 192, {192, 130}: 256, {256, 256}: 256, {512, 512}: 576, {576, 512}: 576, {576, 514}: 0, {578, 64}: 0} {
		got := 0
		if s := SizeOf(heads[0], heads[1]); s != nil {
			got = s.KeyDim
		}
		if got != want {
			t.Errorf("heads of %v: kernels for %d, not %d", heads, got, want)
		}
	}
	for size, want := range map[[3]int]int{{64, 64, 1}: 64, {128, 128, 5}: 12, {256, 256, 65}: 1, {576, 512, 16}: 1, {512, 512, 2}: 8, {600, 64, 1}: 0} {
		if got := TileTokens(size[0], size[1], size[2]); got != want {
			t.Errorf("%v: tiles of %d tokens, not %d", size, got, want)
		}
	}
}
