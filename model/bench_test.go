package model_test

import (
	"context"
	"testing"

	"weir/device/cpu"
	"weir/model"
	"weir/models"
)

// BenchmarkOpenBundled is the model's part of a server's start, with a device that
// keeps nothing and with the one for this machine.
func BenchmarkOpenBundled(b *testing.B) {
	b.Run("model", func(b *testing.B) { openBundled(b, func() model.Device { return &recorder{} }) })
	b.Run("cpu", func(b *testing.B) {
		openBundled(b, func() model.Device {
			d, err := cpu.Open(cpu.Default())
			if err != nil {
				b.Fatal(err)
			}
			return d
		})
	})
}

func openBundled(b *testing.B, open func() model.Device) {
	for b.Loop() {
		m, err := model.OpenFS(models.Bundled())
		if err != nil {
			b.Fatal(err)
		}
		r, err := model.NewRunner(context.Background(), open(), m, model.Options{})
		if err != nil {
			b.Fatal(err)
		}
		r.Close()
		m.Close()
	}
}
