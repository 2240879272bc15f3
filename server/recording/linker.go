package recording

import (
	"context"
	"slices"
	"sync"
	"time"

	"weir/feedback"
	"weir/trajectory/archive"
)

// Linker sets rewards, once a second for all that have come.
type Linker struct {
	cfg  Config
	book *feedback.Store
	wake chan struct{} // there is something to do
	quit chan struct{}
	done chan struct{}

	turn  sync.Mutex // of who sets rewards
	quiet bool       // the log knows that they cannot be set; whose turn it is has it

	mu struct {
		sync.Mutex
		calls  map[answered]bool
		all    bool // look at everything that waits
		closed bool
	}
}

// answered names a chat completion of a tenant.
type answered struct{ tenant, call string }

const (
	// linkAgain is how often everything that waits is looked at.
	linkAgain = time.Hour
	// linkPiece bounds the rewards that are held in memory.
	linkPiece = 10_000
)

// NewLinker returns a linker that runs until Close.
func NewLinker(cfg Config, book *feedback.Store) *Linker {
	l := &Linker{cfg: cfg, book: book, wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})}
	l.mu.calls, l.mu.all = make(map[answered]bool), true
	go l.run()
	return l
}

// Add says that there is a reward for a completion, or a record of it. A nil linker
// ignores it.
func (l *Linker) Add(tenant string, calls ...string) {
	if l == nil {
		return
	}
	l.mu.Lock()
	for _, c := range calls {
		if len(l.mu.calls) >= linkPiece {
			l.mu.all = true // it is among them
			break
		}
		l.mu.calls[answered{tenant, c}] = true
	}
	l.mu.Unlock()
	l.nudge()
}

func (l *Linker) nudge() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Close sets what can be set and ends the linker.
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
	select { // whoever opens either database may see what a crash has left
	case <-l.book.Ready():
	case <-l.cfg.Archive.Ready():
	case <-l.quit:
		return
	}
	l.nudge()
	tick := time.NewTicker(linkAgain)
	defer tick.Stop()
	for {
		select {
		case <-l.wake:
			select {
			case <-time.After(l.cfg.Every): // more will come
			case <-l.quit:
			}
		case <-tick.C:
			l.mu.Lock()
			l.mu.all = true
			l.mu.Unlock()
		case <-l.quit:
			_ = l.Pass(context.Background()) // what it does not set the next start will
			return
		}
		if l.Pass(context.Background()) != nil {
			l.nudge()
		}
	}
}

// Pass sets all rewards that have come. After an error they wait for the next one.
func (l *Linker) Pass(ctx context.Context) error {
	l.turn.Lock()
	defer l.turn.Unlock()
	l.mu.Lock()
	calls, all := l.mu.calls, l.mu.all
	l.mu.calls, l.mu.all = make(map[answered]bool), false
	l.mu.Unlock()
	err := l.set(ctx, calls, all)
	if err == nil {
		l.quiet = false
		return nil
	}
	if !l.quiet {
		l.cfg.Log.Warn("rewards from feedback are not set yet", "error", err)
		l.quiet = true
	}
	l.mu.Lock()
	l.mu.all = l.mu.all || all
	for c := range calls {
		l.mu.calls[c] = true
	}
	l.mu.Unlock()
	return err
}

func (l *Linker) set(ctx context.Context, calls map[answered]bool, all bool) error {
	book := l.book
	if all {
		last := feedback.Reward{}
		for {
			list, err := book.MoreRewards(last, linkPiece)
			if err != nil || len(list) == 0 {
				return err
			}
			if err := l.judge(ctx, list); err != nil {
				return err
			}
			last = list[len(list)-1]
		}
	}
	var list []feedback.Reward
	for c := range calls {
		some, err := book.Rewards(c.tenant, c.call)
		if err != nil {
			return err
		}
		list = append(list, some...)
	}
	return l.judge(ctx, list)
}

// judge sets rewards, and settles those that are set or too old to be.
func (l *Linker) judge(ctx context.Context, list []feedback.Reward) error {
	old := time.Now().Add(-l.cfg.RewardWait).UnixMilli()
	var over []feedback.Reward
	tenants := make(map[string][]feedback.Reward)
	for _, w := range list {
		if w.Gone {
			over = append(over, w)
			continue
		}
		tenants[w.Tenant] = append(tenants[w.Tenant], w)
	}
	for tenant, rewards := range tenants {
		// Of two on one completion the later counts.
		slices.SortStableFunc(rewards, func(a, b feedback.Reward) int { return int(a.CreatedAt - b.CreatedAt) })
		verdicts := make([]archive.CallReward, len(rewards))
		for i, w := range rewards {
			verdicts[i] = archive.CallReward{Call: w.Call, Project: w.Project, Choice: w.Choice, Reward: w.Value}
		}
		known, err := l.cfg.Archive.RewardCalls(ctx, tenant, verdicts)
		if err != nil {
			return err
		}
		for i, w := range rewards {
			if known[i] || w.CreatedAt < old {
				over = append(over, w)
			}
		}
	}
	if len(over) == 0 {
		return nil
	}
	return l.book.Settle(ctx, over)
}
