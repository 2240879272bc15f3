package hostside

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/prometheus/procfs"
)

// resident is the resident memory of a process in bytes.
func resident(pid int) (float64, bool) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return 0, false
	}
	stat, err := p.Stat()
	return float64(stat.ResidentMemory()), err == nil
}

// idleStep is how long a step takes while streams stand idle, in microseconds. All of them come while
// the first step is computed, so that they wait for their first token.
const idleStep = 20_000_000

// idle measures the memory of streams that wait for a token. Where the system does not tell memory, this is left
// out.
func (m *measurement) idle(ctx context.Context) (err error) {
	if m.c.Idle == 0 {
		return nil
	}
	profile, err := m.profile(idleStep)
	if err != nil {
		return err
	}
	n := strconv.Itoa(m.c.Idle)
	p, err := m.server(ctx, "--sim-profile", profile, "--max-num-queued", strconv.Itoa(2*m.c.Idle))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	m.c.Progress(n + " idle streams")
	value, ok, err := grown(ctx, p.PID, p.Address, m.c.Idle, post(chatPath, m.chatBody(1, true)))
	if err != nil || !ok {
		return err
	}
	m.c.Progress(n + " idle streams of fasthttp")
	beside, _, err := grown(ctx, m.refPID, m.web, m.c.Idle, post(holdPath, m.chatBody(1, true)))
	if err != nil {
		return err
	}
	m.report.Rows = append(m.report.Rows, Row{n + " open idle streams, each", "kB", value / 1000, beside / 1000, "a bare handler of fasthttp with as many streams", "growth of resident memory; the streams wait for their first token"})
	return nil
}

// Memory has settled when it has grown by less than this share in this time, so often in a row.
const (
	settledShare = 0.002
	settledPause = 100 * time.Millisecond
	settledTimes = 5
	settledLimit = 15 * time.Second
)

// grown is by how much the memory of a process grows for each of n streams.
func grown(ctx context.Context, pid int, address string, n int, request []byte) (each float64, ok bool, err error) {
	before, ok := resident(pid)
	if !ok {
		return 0, false, nil
	}
	closeAll, err := hold(ctx, address, n, request)
	defer closeAll()
	if err != nil {
		return 0, false, err
	}
	last, calm := before, 0
	for begin := time.Now(); calm < settledTimes && time.Since(begin) < settledLimit && ctx.Err() == nil; {
		time.Sleep(settledPause)
		now, _ := resident(pid)
		if calm++; now > last*(1+settledShare) {
			calm = 0
		}
		last = now
	}
	return (last - before) / float64(n), ok, ctx.Err()
}
