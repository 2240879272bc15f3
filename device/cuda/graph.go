//go:build cuda && linux && amd64

package cuda

import (
	"math/bits"

	"gorgonia.org/cu"

	"weir/backend"
	"weir/internal/cudrv"
)

// graphKey is everything that the launches of a forward pass depend on if every
// sequence has one token.
type graphKey struct {
	rows  int  // tokens, with padding
	items int  // partial results of attention, rounded up
	long  bool // a context is long enough for attn_merge
}

// graphs holds the forward passes that were captured.
type graphs struct {
	enabled   bool
	ready     map[graphKey]cu.ExecGraph
	capturing bool
	key       graphKey
	replaying bool // operations of this step are in the graph that was launched
	replays   int
	others    []cu.ExecGraph
}

// buckets are the numbers of rows that graphs are made for.
var buckets = []int{1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024}

// bucket reports whether the forward pass of a batch is a graph, and which one. It is a
// graph if every sequence has one token and is drawn: then all batches of a bucket
// launch the same kernels.
func (d *Device) bucket(b *backend.Batch) (graphKey, bool) {
	n := len(b.Tokens)
	if !d.graphs.enabled || n != len(b.QueryEnd) || n != len(b.At) {
		return graphKey{}, false
	}
	for _, rows := range buckets {
		if rows < n {
			continue
		}
		if rows > d.shape.Spec.MaxTokens {
			break
		}
		items := max(rows, 1<<bits.Len(uint(d.items(b)-1)))
		return graphKey{rows, items, d.long(b)}, d.items(b) <= d.work.slots
	}
	return graphKey{}, false
}

// start launches the key's graph, or begins to capture it.
func (g *graphs) start(d *Device, key graphKey) error {
	if e, ok := g.ready[key]; ok {
		g.replaying = true
		g.replays++
		if err := cudrv.Replay(e, d.run.stream); err != nil {
			return deviceError("launch a graph", err)
		}
		return nil
	}
	if err := cudrv.BeginCapture(d.run.stream); err != nil {
		return deviceError("capture a graph", err)
	}
	g.capturing, g.key = true, key
	return nil
}

// EndForward implements model.Device. A forward pass that was captured becomes a
// graph, which runs.
func (d *Device) EndForward() {
	g := &d.graphs
	g.replaying = false
	if !g.capturing {
		return
	}
	if err := g.finish(d); err != nil {
		d.fail(err)
	}
}

// finish ends the capture, and runs the graph unless an operation has failed.
func (g *graphs) finish(d *Device) error {
	g.capturing = false
	graph, err := cudrv.EndCapture(d.run.stream)
	if err != nil {
		return deviceError("capture a graph", err)
	}
	defer graph.Destroy()
	if d.err != nil {
		return nil
	}
	e, err := cudrv.Instantiate(graph)
	if err != nil {
		return deviceError("make a graph", err)
	}
	if g.ready == nil {
		g.ready = map[graphKey]cu.ExecGraph{}
	}
	g.ready[g.key] = e
	if err := cudrv.Replay(e, d.run.stream); err != nil {
		return deviceError("launch a graph", err)
	}
	return nil
}

// abandon ends a capture that will not be finished. Nothing can be freed before.
func (g *graphs) abandon(s cu.Stream) {
	if !g.capturing {
		return
	}
	g.capturing = false
	if graph, err := cudrv.EndCapture(s); err == nil {
		_ = graph.Destroy()
	}
}

// keep adds a graph that does not belong to a step.
func (g *graphs) keep(e cu.ExecGraph) { g.others = append(g.others, e) }

// close frees the graphs.
func (g *graphs) close() {
	for _, e := range g.ready {
		_ = e.Destroy() // after a device error this fails, and the context frees the memory
	}
	for _, e := range g.others {
		_ = e.Destroy()
	}
	g.ready, g.others = nil, nil
}
