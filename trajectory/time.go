package trajectory

import (
	"strings"
	"time"
)

// ParseTime reads a date and time as docs/interface/trajectories.md, section 2.6, has it: RFC 3339 with any
// length of fraction, a space for the T, no zone (then it is UTC), or a date
// alone (midnight UTC). What is finer than a nanosecond is cut off.
func ParseTime(s string) (time.Time, bool) {
	if t, err := time.Parse(time.DateOnly, s); err == nil {
		return t, true
	}
	const date = len("2006-01-02")
	if len(s) <= date || !strings.ContainsRune("Tt ", rune(s[date])) {
		return time.Time{}, false
	}
	s = s[:date] + "T" + s[date+1:]
	if n := len(s); s[n-1] == 'z' {
		s = s[:n-1] + "Z"
	}
	// time.Parse takes a comma for the point of a fraction, RFC 3339 does not.
	if strings.ContainsRune(s, ',') {
		return time.Time{}, false
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}
