package trajectoryapi

import (
	"fmt"
	"time"

	"weir/trajectory"
	"weir/trajectory/archive"
)

// Config has the settings of the functions.
type Config struct {
	// Archive keeps what is logged; nil: the functions are not there. Whoever opened it
	// closes it after the server has stopped.
	Archive *archive.Archive
	Limits  trajectory.Limits
	// MaxBody bounds the body of a log request in bytes, both as it is sent and as it
	// is decoded. MaxRatio bounds the decoded bytes for each that was sent.
	MaxBody  int64
	MaxRatio int
	// MaxUploads is how many log requests are read at a time, MaxUploads/2 of one tenant
	// alone; more are 429.
	MaxUploads int
	// Idle is how long the client may send nothing. There is no limit on the time of a
	// body as a whole.
	Idle time.Duration
	// Registered refuses models for which nothing was logged.
	Registered bool
	// Quota bounds the bytes that a tenant may have logged, as they were sent; 0: no bound.
	Quota int64
	// Spool is a folder for temporary files; "": the system's.
	Spool string
}

// DefaultConfig returns the settings of docs/interface/trajectories.md, section 6,
// without an archive.
func DefaultConfig() Config {
	return Config{Limits: trajectory.DefaultLimits(), MaxBody: 8 << 30, MaxRatio: 200, MaxUploads: 32, Idle: time.Minute}
}

// Validate returns an error for the first value that makes no sense.
func (c *Config) Validate() error {
	if c.MaxBody <= 0 || c.MaxRatio <= 0 || c.MaxUploads <= 0 || c.Idle <= 0 {
		return fmt.Errorf("trajectoryapi: MaxBody %d, MaxRatio %d, MaxUploads %d and Idle %v have to be more than 0", c.MaxBody, c.MaxRatio, c.MaxUploads, c.Idle)
	}
	return c.Limits.Validate()
}
