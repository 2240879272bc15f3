package calls

import (
	"time"

	"weir/internal/jsontext"
)

// parseTime reads a time as a request has it: RFC 3339 with a T or a space, with or without
// a zone (then it is UTC) and a fraction, of which six digits count; or a number of seconds
// of Unix time, or of milliseconds if it is beyond 2e10, as pydantic does. The result is in
// microseconds of Unix time.
func parseTime(v jsontext.Value) (us int64, ok bool) {
	switch v.Kind() {
	case jsontext.String:
		return timeOfText(v.SharedText())
	case jsontext.Number:
		x, ok := v.Float()
		if !ok {
			return 0, false
		}
		if x > 2e10 || x < -2e10 {
			x /= 1000
		}
		if x < minSeconds || x > maxSeconds {
			return 0, false
		}
		return int64(x * 1e6), true
	}
	return 0, false
}

// The years 1 to 9999, which Python's datetime has.
const (
	minSeconds = -62135596800
	maxSeconds = 253402300799
)

// timeOfText reads a time that is written as text.
func timeOfText(s string) (us int64, ok bool) {
	year, month, day, ok := date(s)
	if !ok {
		return 0, false
	}
	var hour, minute, second, micro, zone int
	if rest := s[10:]; rest != "" {
		if rest[0] != 'T' && rest[0] != 't' && rest[0] != ' ' && rest[0] != '_' {
			return 0, false
		}
		if hour, minute, rest, ok = clock(rest[1:]); !ok {
			return 0, false
		}
		if len(rest) >= 3 && rest[0] == ':' {
			if second, ok = digits(rest[1:3]); !ok {
				return 0, false
			}
			rest = rest[3:]
		}
		if micro, rest, ok = fraction(rest); !ok {
			return 0, false
		}
		if zone, ok = offset(rest); !ok {
			return 0, false
		}
	}
	if hour > 23 || minute > 59 || second > 59 {
		return 0, false
	}
	t := time.Date(year, time.Month(month), day, hour, minute, second, 0, time.UTC)
	if t.Day() != day || year < 1 {
		return 0, false // such as the 30th of February
	}
	sec := t.Unix() - int64(zone)*60
	if sec < minSeconds || sec > maxSeconds {
		return 0, false
	}
	return sec*1e6 + int64(micro), true
}

// date reads YYYY-MM-DD at the beginning of s.
func date(s string) (year, month, day int, ok bool) {
	if len(s) < 10 || s[4] != '-' || s[7] != '-' {
		return 0, 0, 0, false
	}
	year, ok = digits(s[:4])
	month, ok2 := digits(s[5:7])
	day, ok3 := digits(s[8:10])
	return year, month, day, ok && ok2 && ok3 && month >= 1 && month <= 12 && day >= 1
}

// clock reads HH:MM at the beginning of s.
func clock(s string) (hour, minute int, rest string, ok bool) {
	if len(s) < 5 || s[2] != ':' {
		return 0, 0, "", false
	}
	hour, ok = digits(s[:2])
	minute, ok2 := digits(s[3:5])
	return hour, minute, s[5:], ok && ok2
}

// fraction reads the fraction of a second, if there is one.
func fraction(s string) (micro int, rest string, ok bool) {
	if s == "" || s[0] != '.' && s[0] != ',' {
		return 0, s, true
	}
	n := 0
	for s = s[1:]; n < len(s) && s[n] >= '0' && s[n] <= '9'; n++ {
		if n < 6 {
			micro = micro*10 + int(s[n]-'0')
		}
	}
	for i := n; i < 6; i++ {
		micro *= 10
	}
	return micro, s[n:], n > 0
}

// offset reads a time zone, as minutes east of Greenwich.
func offset(s string) (minutes int, ok bool) {
	if s == "" || s == "Z" || s == "z" {
		return 0, true
	}
	if s[0] != '+' && s[0] != '-' {
		return 0, false
	}
	sign, s := s[0], s[1:]
	if len(s) == 5 && s[2] == ':' {
		s = s[:2] + s[3:]
	}
	if len(s) == 2 {
		s += "00"
	}
	if len(s) != 4 {
		return 0, false
	}
	hours, ok := digits(s[:2])
	rest, ok2 := digits(s[2:])
	if !ok || !ok2 || hours > 23 || rest > 59 {
		return 0, false
	}
	if minutes = hours*60 + rest; sign == '-' {
		minutes = -minutes
	}
	return minutes, true
}

// digits reads a number of decimal digits only.
func digits(s string) (n int, ok bool) {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + int(s[i]-'0')
	}
	return n, true
}

// AppendTime appends a time as answers have it: RFC 3339 in UTC with six digits of the
// second's fraction.
func AppendTime(dst []byte, us int64) []byte {
	return time.UnixMicro(us).UTC().AppendFormat(dst, "2006-01-02T15:04:05.000000Z")
}
