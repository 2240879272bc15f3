package model_test

import (
	"context"
	"testing"

	"weir/model"
	"weir/models"
)

// BenchmarkOpenBundled is the part of a start that this package answers for,
// but for what the device makes of the weights.
func BenchmarkOpenBundled(b *testing.B) {
	for b.Loop() {
		m, err := model.OpenFS(models.Bundled())
		if err != nil {
			b.Fatal(err)
		}
		r, err := model.NewRunner(context.Background(), &recorder{}, m, model.Options{})
		if err != nil {
			b.Fatal(err)
		}
		r.Close()
		m.Close()
	}
}
