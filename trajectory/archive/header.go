package archive

import (
	"errors"
	"fmt"
	"time"

	"weir/internal/jsontext"
	"weir/trajectory"
)

// Receipt describes a batch to whoever logged it (docs/interface/trajectories.md, T-21).
type Receipt struct {
	ID       ID
	Split    string
	Received time.Time // of the commit, to the microsecond; no two batches have the same
	trajectory.Counts
	Bytes     int64 // of the body
	Duplicate bool  // an earlier request had the same Idempotency-Key and logged the batch
}

// Batch is what one log request brought.
type Batch struct {
	Receipt
	Model string
	Step  trajectory.Int

	// The bounds of the trajectories that have such a value.
	Versions Span        // policy versions
	Starts   Span        // start times in Unix microseconds
	Rewards  *[2]float64 // nil: no trajectory has a reward

	upload uploadID
	size   [streams]int64
}

// Span is a closed interval of integers.
type Span struct {
	Min, Max int64
	Given    bool
}

func (s *Span) add(n int64) {
	if !s.Given {
		*s = Span{n, n, true}
	}
	s.Min, s.Max = min(s.Min, n), max(s.Max, n)
}

// header is a Batch as JSON. JSON is fast enough, because there is only one header for each
// batch.
type header struct {
	Split    string          `json:"split"`
	Step     *int64          `json:"step,omitempty"`
	Received int64           `json:"received"` // Unix microseconds
	Counts   [3]int          `json:"counts"`
	Bytes    int64           `json:"bytes"`
	Versions *[2]int64       `json:"versions,omitempty"`
	Starts   *[2]int64       `json:"starts,omitempty"`
	Rewards  *[2]float64     `json:"rewards,omitempty"`
	Upload   []byte          `json:"upload,omitempty"`
	Size     *[streams]int64 `json:"size,omitempty"`
}

func (s Span) pair() *[2]int64 {
	if !s.Given {
		return nil
	}
	return &[2]int64{s.Min, s.Max}
}

func spanOf(p *[2]int64) Span {
	if p == nil {
		return Span{}
	}
	return Span{p[0], p[1], true}
}

func (r *Receipt) header() header {
	return header{Split: r.Split, Received: r.Received.UnixMicro(), Counts: [3]int{r.Groups, r.Trajectories, r.Exceptions}, Bytes: r.Bytes}
}

func (b *Batch) encode() []byte {
	h := b.Receipt.header()
	if b.Step.Given {
		h.Step = &b.Step.N
	}
	h.Versions, h.Starts, h.Rewards = b.Versions.pair(), b.Starts.pair(), b.Rewards
	h.Upload, h.Size = b.upload[:], &b.size
	out, err := jsontext.Encode(h)
	if err != nil {
		panic("archive: " + err.Error()) // every field of it can be encoded
	}
	return out
}

// keptReceipt is what is stored of a request with an Idempotency-Key.
type keptReceipt struct {
	Digest []byte `json:"digest"`
	ID     []byte `json:"id"`
	header
}

func (r *Receipt) encode(digest []byte) []byte {
	out, err := jsontext.Encode(keptReceipt{Digest: digest, ID: r.ID[:], header: r.header()})
	if err != nil {
		panic("archive: " + err.Error())
	}
	return out
}

func (h *header) receipt(id ID) Receipt {
	return Receipt{
		ID: id, Split: h.Split, Received: time.UnixMicro(h.Received).UTC(), Bytes: h.Bytes,
		Counts: trajectory.Counts{Groups: h.Counts[0], Trajectories: h.Counts[1], Exceptions: h.Counts[2]},
	}
}

func decodeBatch(model string, id ID, value []byte) (*Batch, error) {
	var h header
	if err := jsontext.Decode(value, &h); err != nil {
		return nil, &Damaged{id, -1, 0, fmt.Errorf("its header: %w", err)}
	}
	b := &Batch{Receipt: h.receipt(id), Model: model, Versions: spanOf(h.Versions), Starts: spanOf(h.Starts), Rewards: h.Rewards}
	if h.Step != nil {
		b.Step = trajectory.Some(*h.Step)
	}
	if copy(b.upload[:], h.Upload) != len(b.upload) || h.Size == nil {
		return nil, &Damaged{id, -1, 0, errors.New("its header")}
	}
	b.size = *h.Size
	return b, nil
}
