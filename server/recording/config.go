package recording

import (
	"log/slog"
	"strings"
	"time"

	"weir/trajectory/archive"
)

// Config says what is recorded, and where.
type Config struct {
	Archive *archive.Archive
	// Projects lists projects, "team/project", "team/*" or "*", whose chat completions
	// are recorded. Others are if they ask for it.
	Projects []string
	Quota    int64 // bounds the bytes that a tenant may have in the archive; 0: no bound
	Depth    int   // bounds the nesting of a request
	// Every is how long completions, and rewards from feedback, are gathered before they
	// are written.
	Every time.Duration
	// RewardWait is how long a reward waits for its completion to be recorded.
	RewardWait time.Duration
	Clock      func() time.Time
	Log        *slog.Logger
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
