package export

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"weir/trajectory/archive"
)

// TestWriterFails checks that an export ends with the error of its writer, whatever the number
// of bytes: an incomplete export never looks complete.
func TestWriterFails(t *testing.T) {
	a := newArchive(t, first, other)
	for _, form := range Formats() {
		whole := len(export(t, a, &archive.Filter{}, Options{Format: form}))
		for _, n := range []int{0, 1, whole / 2, whole - 1} {
			err := a.View("t", func(v *archive.View) error {
				return Write(&failing{n}, v, "a/m", &archive.Filter{}, Options{Format: form, TempDir: t.TempDir()})
			})
			if !errors.Is(err, errFull) {
				t.Errorf("%s, full after %d of %d bytes: %v", form, n, whole, err)
			}
		}
	}
	err := a.View("t", func(v *archive.View) error {
		return Write(io.Discard, v, "a/m", &archive.Filter{}, Options{Format: "csv"})
	})
	if !errors.Is(err, ErrFormat) {
		t.Error(err)
	}
	err = a.View("t", func(v *archive.View) error {
		return Write(io.Discard, v, "a/m", &archive.Filter{}, Options{Format: ART, TempDir: filepath.Join(os.DevNull, "no")})
	})
	if err == nil {
		t.Error("no folder for temporary files, and no error")
	}
}
