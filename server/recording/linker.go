package recording

import (
	"context"
	"slices"
	"sync"
	"time"

	"weir/feedback"
	"weir/internal/memory"
	"weir/metrics"
	"weir/trajectory/archive"
)

// Linker sets rewards from feedback in the archive, once every Config.Every for all that have
// come.
type Linker struct {
	cfg    Config
	store  *feedback.Store
	counts *metrics.Metrics
	wake   chan struct{} // has an element while there is something to do
	quit   chan struct{}
	done   chan struct{}

	pass   sync.Mutex // held during a pass
	warned bool       // the log has a warning that rewards cannot be set; guarded by pass

	mu struct {
		sync.Mutex
		calls  map[completion]bool // the completions for the next pass
		all    bool                // the next pass looks at all rewards that wait
		closed bool
	}
}

// completion names a chat completion of a tenant.
type completion struct{ tenant, call string }

const (
	// scanEvery is the time after which a pass looks at all rewards that wait.
	scanEvery = time.Hour
	// maxHeld bounds the completions and the rewards that are held in memory.
	maxHeld = 10_000
)

// NewLinker returns a linker that runs until Close.
func NewLinker(cfg Config, store *feedback.Store, counts *metrics.Metrics) *Linker {
	l := &Linker{cfg: cfg, store: store, counts: counts, wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})}
	l.mu.calls, l.mu.all = make(map[completion]bool), true
	go l.run()
	return l
}

// Reward is called for a new reward from feedback. If the completion is recorded and cannot
// have it, why says so. A nil linker ignores it.
func (l *Linker) Reward(tenant string, w feedback.Reward) (why string) {
	if l == nil {
		return ""
	}
	l.Add(tenant, w.Call)
	return l.cfg.Archive.Contradicts(tenant, callReward(w))
}

func callReward(w feedback.Reward) archive.CallReward {
	return archive.CallReward{Call: w.Call, Project: w.Project, Choice: w.Choice, Reward: w.Value}
}

// Add is called when there are new rewards for completions of a tenant, or when completions
// have been recorded. A nil linker ignores it.
func (l *Linker) Add(tenant string, calls ...string) {
	if l == nil {
		return
	}
	l.mu.Lock()
	for _, c := range calls {
		if len(l.mu.calls) >= maxHeld {
			l.mu.all = true // which includes the remaining calls
			break
		}
		l.mu.calls[completion{tenant, c}] = true
	}
	l.mu.Unlock()
	l.signal()
}

// signal makes run begin a pass.
func (l *Linker) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Close runs a last pass and ends the linker.
func (l *Linker) Close() {
	l.mu.Lock()
	closed := l.mu.closed
	l.mu.closed = true
	l.mu.Unlock()
	if !closed {
		close(l.quit)
	}
	<-l.done
}

func (l *Linker) run() {
	defer close(l.done)
	select { // after a crash, rewards may be waiting as soon as a database is open
	case <-l.store.Ready():
	case <-l.cfg.Archive.Ready():
	case <-l.quit:
		return
	}
	l.signal()
	tick := time.NewTicker(scanEvery)
	defer tick.Stop()
	for {
		select {
		case <-l.wake:
			select {
			case <-time.After(l.cfg.Every): // others may come in this time
			case <-l.quit:
			}
		case <-tick.C:
			l.mu.Lock()
			l.mu.all = true
			l.mu.Unlock()
		case <-l.quit:
			_ = l.Pass(context.Background()) // rewards that it cannot set wait for the next start
			return
		}
		if l.Pass(context.Background()) != nil {
			l.signal()
		}
	}
}

// Pass sets all rewards that have come. After an error they wait for the next pass.
func (l *Linker) Pass(ctx context.Context) error {
	l.pass.Lock()
	defer l.pass.Unlock()
	l.mu.Lock()
	calls, all := l.mu.calls, l.mu.all
	l.mu.calls, l.mu.all = make(map[completion]bool), false
	l.mu.Unlock()
	err := l.setWithin(ctx, calls, all)
	if err == nil {
		l.warned = false
		return nil
	}
	if !l.warned {
		l.cfg.Log.Warn("rewards from feedback are not set yet", "error", err)
		l.warned = true
	}
	l.mu.Lock()
	l.mu.all = l.mu.all || all
	for c := range calls {
		l.mu.calls[c] = true
	}
	l.mu.Unlock()
	return err
}

// rewardBytes is about what a reward takes that waits to be set.
const rewardBytes = 1 << 10

// setWithin is set with the memory for it.
func (l *Linker) setWithin(ctx context.Context, calls map[completion]bool, all bool) error {
	ctx, release := reserving(ctx, l.cfg.Memory)
	defer release()
	n := len(calls)
	if all {
		n = maxHeld
	}
	if err := memory.Take(ctx, rewardBytes*int64(n)); err != nil {
		return err
	}
	return l.set(ctx, calls, all)
}

// set sets the rewards of some completions, or all rewards that wait.
func (l *Linker) set(ctx context.Context, calls map[completion]bool, all bool) error {
	if all {
		last := feedback.Reward{}
		for {
			list, err := l.store.MoreRewards(last, maxHeld)
			if err != nil || len(list) == 0 {
				return err
			}
			if err := l.setList(ctx, list); err != nil {
				return err
			}
			last = list[len(list)-1]
		}
	}
	var list []feedback.Reward
	for c := range calls {
		some, err := l.store.Rewards(c.tenant, c.call)
		if err != nil {
			return err
		}
		list = append(list, some...)
	}
	return l.setList(ctx, list)
}

// setList sets the rewards of a list in the archive. Those that have been set, are too old or
// have been withdrawn do not wait any more.
func (l *Linker) setList(ctx context.Context, list []feedback.Reward) error {
	old := time.Now().Add(-l.cfg.RewardWait).UnixMilli()
	var settled []feedback.Reward
	tenants := make(map[string][]feedback.Reward)
	for _, w := range list {
		if w.Gone {
			settled = append(settled, w)
			continue
		}
		tenants[w.Tenant] = append(tenants[w.Tenant], w)
	}
	for tenant, rewards := range tenants {
		// If a completion has two rewards the later one counts, so it has to be last.
		slices.SortStableFunc(rewards, func(a, b feedback.Reward) int { return int(a.CreatedAt - b.CreatedAt) })
		calls := make([]archive.CallReward, len(rewards))
		for i, w := range rewards {
			calls[i] = callReward(w)
		}
		known, err := l.cfg.Archive.RewardCalls(ctx, tenant, calls)
		if err != nil {
			return err
		}
		for i, w := range rewards {
			if known[i] || w.CreatedAt < old {
				settled = append(settled, w)
			}
			if !known[i] && w.CreatedAt < old || known[i] && l.cfg.Archive.Contradicts(tenant, calls[i]) != "" {
				l.counts.RewardUnset()
			}
		}
	}
	if len(settled) == 0 {
		return nil
	}
	return l.store.Settle(ctx, settled)
}
