package main

import (
	"fmt"
	"testing"
	"time"
)

// TestLoadReport: how long the rest of the weights takes follows from how fast those before came,
// and the log has a line every few seconds and none for what is loaded before.
func TestLoadReport(t *testing.T) {
	const mb = 1 << 20
	var l loadReport
	now := time.Unix(0, 0)
	for i, c := range []struct {
		after, left time.Duration
		done        int64
		text, line  string
	}{
		{time.Hour, 0, 0, "0 of 1000 MB", ""}, // it begins only now
		{2 * time.Second, 8 * time.Second, 200, "200 of 1000 MB at 100 MB/s, about 9s left", ""},
		{0, 7 * time.Second, 300, "300 of 1000 MB at 100 MB/s, about 8s left", ""}, // in no time: the speed is not known any better
		{2 * time.Second, 3929 * time.Millisecond, 500, "500 of 1000 MB at 127 MB/s, about 4s left", "[megabytes 500 of 1000 megabytes_per_second 127 left 4s]"},
		{2 * time.Second, 0, 600, "", ""},
		{2 * time.Second, 0, 900, "", "line"},
		{5 * time.Second, 1, 1000, "1000 of 1000 MB", ""}, // the log line about the end is another one
		{time.Hour, 0, 0, "0 of 1000 MB", ""},             // weights are loaded again
		{time.Second, 9 * time.Second, 100, "100 of 1000 MB at 100 MB/s, about 10s left", ""},
	} {
		now = now.Add(c.after)
		text, left, due := l.add(now, c.done*mb, 1000*mb)
		if c.text != "" && text != c.text {
			t.Errorf("call %d: %q, want %q", i, text, c.text)
		}
		if c.left != 0 && left.Round(time.Millisecond) != c.left.Round(time.Millisecond) {
			t.Errorf("call %d: %v left with %d of 1000 loaded, want %v", i, left, c.done, c.left)
		}
		if due != (c.line != "") {
			t.Errorf("call %d: a line is due: %v", i, due)
		}
		if line := fmt.Sprint(l.attributes()); len(c.line) > 4 && line != c.line {
			t.Errorf("call %d: the log says %s, want %s", i, line, c.line)
		}
	}
	var slow loadReport
	slow.add(now, 0, 1<<50)
	if text, _, _ := slow.add(now.Add(time.Hour), 1, 1<<50); text != "0 of 1073741824 MB at 0 MB/s, about 277h46m41s left" {
		t.Error(text)
	}
}
