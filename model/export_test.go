package model

import (
	"io/fs"

	"weir/weights/gguf"
)

// GGUFShapes are the shapes that the network of a GGUF file wants its tensors to have, by their names there. The
// tensors of the file only say which there are.
func GGUFShapes(fsys fs.FS, name string) (map[string][]int, error) {
	f, err := gguf.OpenFS(fsys, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m := &Model{}
	if _, err := m.interpretGGUF(name, f); err != nil {
		return nil, err
	}
	shapes := map[string][]int{}
	for _, p := range newDecoder(&m.Config).params {
		for _, list := range [][]stored{p.rows, p.bias} {
			for _, s := range list {
				shapes[m.storedName(s.name)] = s.shape
			}
		}
	}
	return shapes, nil
}

// CutAfter makes the network end behind so many of its layers, without its last norm.
func (r *Runner) CutAfter(layers int) { r.net.layers, r.net.norm = r.net.layers[:layers], nil }

// DistanceBuckets is for tests.
var DistanceBuckets = distanceBuckets
