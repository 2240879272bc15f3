package recording

import (
	"log/slog"
	"strings"
	"time"

	"weir/calls"
	"weir/internal/memory"
	"weir/trajectory/archive"
)

// Config configures what is recorded, and where.
type Config struct {
	Archive *archive.Archive
	// Calls is where completions of projects are written as calls; nil: they are not.
	Calls *calls.Store
	// Projects lists the projects whose chat completions are all recorded, as
	// "team/project", "team/*" or "*". Other completions are recorded if their request
	// asks for it.
	Projects []string
	Quota    int64 // bound of the bytes that a tenant may have in the archive; 0: no bound
	Depth    int   // bound of the nesting of a request's JSON
	// Every is how long completions, and rewards from feedback, are gathered before they
	// are written.
	Every time.Duration
	// RewardWait is the age at which a reward is dropped if its completion has not been
	// recorded.
	RewardWait time.Duration
	// Memory is the account in which recordings that wait, and the work on them, are reserved;
	// nil: nothing is.
	Memory *memory.Account
	Clock  func() time.Time
	Log    *slog.Logger
}

// covers reports whether all completions of a project are recorded.
func (c *Config) covers(project string) bool {
	for _, p := range c.Projects {
		if start, all := strings.CutSuffix(p, "*"); p == project || all && strings.HasPrefix(project, start) {
			return true
		}
	}
	return false
}
