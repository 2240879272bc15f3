package recording

import (
	"log/slog"
	"strings"
	"time"

	"weir/server/failure"
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

// Quota reports whether a tenant may have so many bytes more in an archive; most is its
// bound, 0 for none. Two uploads at a time may both be the last one.
func Quota(a *archive.Archive, most int64, tenant string, more int64) error {
	if most <= 0 {
		return nil
	}
	used, err := a.Used(tenant)
	if err == nil && used+more > most {
		err = failure.ErrQuota
	}
	return err
}
