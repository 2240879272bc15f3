package jinja

import (
	"strconv"
	"strings"
	"time"
)

// strftime is datetime.strftime with glibc's C locale, for a datetime without a time
// zone: %z and %Z are empty.
func (m *machine) strftime(t time.Time, format string) string {
	m.spend(int64(len(format) >> 5)) // beside the conversions
	m.alloc(len(format))
	var b strings.Builder
	for format != "" {
		i := strings.IndexByte(format, '%')
		if i < 0 || i+1 == len(format) {
			b.WriteString(format)
			break
		}
		b.WriteString(format[:i])
		spec, size := parseTimeSpec(format[i:])
		text := m.timeText(t, spec, format[i:i+size])
		m.spend(3)
		m.alloc(len(text))
		b.WriteString(text)
		format = format[i+size:]
	}
	return b.String()
}

// timeSpec is %[flag][width][E|O]conversion, as glibc extends it.
type timeSpec struct {
	flag       byte // 0: none
	width      int
	conversion byte // 0: the format ends before it
}

// parseTimeSpec reads the specification at the start of s and returns its length.
func parseTimeSpec(s string) (spec timeSpec, size int) {
	i := 1
	for i < len(s) && strings.IndexByte("-_0^#", s[i]) >= 0 {
		spec.flag = s[i]
		i++
	}
	for i < len(s) && isDigitByte(s[i]) && spec.width < maxField {
		spec.width = spec.width*10 + int(s[i]-'0')
		i++
	}
	if i < len(s) && (s[i] == 'E' || s[i] == 'O') {
		i++
	}
	if i == len(s) {
		return spec, i
	}
	spec.conversion = s[i]
	return spec, i + 1
}

// timeText returns the text of a specification, which is spelled source. One that glibc
// does not know stays as it is.
func (m *machine) timeText(t time.Time, spec timeSpec, source string) string {
	if spec.conversion == 0 {
		return m.padTime(source, ' ', spec.width)
	}
	text, pad, digits, ok := timeField(t, spec.conversion)
	if !ok {
		return source
	}
	switch spec.flag {
	case '-':
		pad = 0
	case '_':
		pad = ' '
	case '0':
		pad = '0'
	case '^':
		text = strings.ToUpper(text)
	case '#':
		text = swapTimeCase(text, spec.conversion)
	}
	if spec.width > 0 {
		digits = spec.width
	}
	return m.padTime(text, pad, digits)
}

// padTime fills text up to width bytes in front, with nothing if pad is 0.
func (m *machine) padTime(text string, pad byte, width int) string {
	n := width - len(text)
	if n <= 0 || pad == 0 {
		return text
	}
	m.alloc(n)
	return strings.Repeat(string(pad), n) + text
}

func swapTimeCase(s string, conversion byte) string {
	if conversion == 'p' || conversion == 'Z' {
		return strings.ToLower(s)
	}
	return strings.ToUpper(s)
}

// timeField returns the text of a conversion without padding, the character that glibc
// pads it with, and the width that it is padded to by default.
func timeField(t time.Time, c byte) (text string, pad byte, digits int, ok bool) {
	num := func(n int, pad byte, digits int) (string, byte, int, bool) { return strconv.Itoa(n), pad, digits, true }
	plain := func(s string) (string, byte, int, bool) { return s, ' ', 0, true }
	isoYear, isoWeek := t.ISOWeek()
	hour12 := (t.Hour()+11)%12 + 1
	switch c {
	case 'Y':
		return num(t.Year(), '0', 0)
	case 'C':
		return num(t.Year()/100, '0', 2)
	case 'y':
		return num(t.Year()%100, '0', 2)
	case 'G':
		return num(isoYear, '0', 0)
	case 'g':
		return num(isoYear%100, '0', 2)
	case 'V':
		return num(isoWeek, '0', 2)
	case 'U':
		return num((t.YearDay()+6-int(t.Weekday()))/7, '0', 2)
	case 'W':
		return num((t.YearDay()+6-(int(t.Weekday())+6)%7)/7, '0', 2)
	case 'm':
		return num(int(t.Month()), '0', 2)
	case 'd':
		return num(t.Day(), '0', 2)
	case 'e':
		return num(t.Day(), ' ', 2)
	case 'j':
		return num(t.YearDay(), '0', 3)
	case 'H':
		return num(t.Hour(), '0', 2)
	case 'k':
		return num(t.Hour(), ' ', 2)
	case 'I':
		return num(hour12, '0', 2)
	case 'l':
		return num(hour12, ' ', 2)
	case 'M':
		return num(t.Minute(), '0', 2)
	case 'S':
		return num(t.Second(), '0', 2)
	case 'f':
		return num(t.Nanosecond()/1000, '0', 6)
	case 'u':
		return num((int(t.Weekday())+6)%7+1, '0', 0)
	case 'w':
		return num(int(t.Weekday()), '0', 0)
	case 's':
		return strconv.FormatInt(t.Unix(), 10), '0', 0, true
	case 'B':
		return plain(t.Month().String())
	case 'b', 'h':
		return plain(t.Month().String()[:3])
	case 'A':
		return plain(t.Weekday().String())
	case 'a':
		return plain(t.Weekday().String()[:3])
	case 'p':
		return plain(t.Format("PM"))
	case 'P':
		return plain(t.Format("pm"))
	case 'D', 'x':
		return plain(t.Format("01/02/06"))
	case 'F':
		return plain(t.Format("2006-01-02"))
	case 'T', 'X':
		return plain(t.Format("15:04:05"))
	case 'R':
		return plain(t.Format("15:04"))
	case 'r':
		return plain(t.Format("03:04:05 PM"))
	case 'c':
		return plain(t.Format("Mon Jan _2 15:04:05 2006"))
	case 'z', 'Z':
		return plain("")
	case 'n':
		return plain("\n")
	case 't':
		return plain("\t")
	case '%':
		return plain("%")
	}
	return "", 0, 0, false
}
