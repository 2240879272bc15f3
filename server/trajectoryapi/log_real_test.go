package trajectoryapi_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/server/servertest"
)

// Log requests over real sockets: cut, slow, many, large. The rules and cases that
// comments name are those of docs/interface/trajectories.md.

func postLog(length int, headers ...string) string {
	return strings.Replace(servertest.Post(length, headers...), servertest.ChatPath, servertest.AgentPath+"/log", 1)
}

// tokens is a trajectory as a trainer sends it, about size bytes long.
func tokens(size int) string {
	var b strings.Builder
	b.WriteString(`{"messages_and_choices":[{"role":"user","content":"board"},{"finish_reason":"stop","logprobs":{"content":[`)
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, `{"token":"token_id:%d","bytes":[%d,%d],"logprob":-0.%06d,"top_logprobs":[]},`, i*7919%151_000, i%256, i*31%256, i*104_729%1_000_000)
	}
	b.WriteString(`{}]},"message":{"role":"assistant","content":"up"}}],"reward":1}`)
	return b.String()
}

// TestLogCut: whatever a client does in the middle of a body, nothing of the body becomes
// visible, what was staged is removed, and the server still works
// (docs/interface/trajectories.md, T#19).
func TestLogCut(t *testing.T) {
	h, l := servertest.NewTrajectories(t, func(s *servertest.Setup) { s.TCP = true; s.Config.Trajectories.Idle = 150 * time.Millisecond })
	var many []string
	for range 24 {
		many = append(many, tokens(400_000))
	}
	body := servertest.Group(many...)
	part := len(body) * 9 / 10
	var z bytes.Buffer
	zw := gzip.NewWriter(&z)
	_, _ = io.WriteString(zw, body)
	_ = zw.Close()
	zipped := z.String()
	chunk := func(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }
	for name, c := range map[string]struct {
		send   string
		end    func(*servertest.Raw)
		status int // 0: no answer is awaited
	}{
		"closed":               {postLog(len(body)) + body[:part], func(r *servertest.Raw) { r.Close() }, 0},
		"reset":                {postLog(len(body)) + body[:part], func(r *servertest.Raw) { _ = r.Conn.(*net.TCPConn).SetLinger(0); r.Close() }, 0},
		"half-closed":          {postLog(len(body)) + body[:part], func(r *servertest.Raw) { _ = r.Conn.(*net.TCPConn).CloseWrite() }, 0},
		"silent":               {postLog(len(body)) + body[:part], func(*servertest.Raw) {}, 408},
		"chunked, closed":      {postLog(-1, "Transfer-Encoding: chunked") + chunk(body[:part]), func(r *servertest.Raw) { r.Close() }, 0},
		"chunked, silent":      {postLog(-1, "Transfer-Encoding: chunked") + chunk(body[:part]), func(*servertest.Raw) {}, 408},
		"chunked, ended early": {postLog(-1, "Transfer-Encoding: chunked") + chunk(body[:part]) + "0\r\n\r\n", func(*servertest.Raw) {}, 422},
		"chunked, broken":      {postLog(-1, "Transfer-Encoding: chunked") + chunk(body[:part]) + "xyz\r\n", func(*servertest.Raw) {}, 400},
		"gzip, silent":         {postLog(len(zipped), "Content-Encoding: gzip") + zipped[:len(zipped)/2], func(*servertest.Raw) {}, 408},
		"all but white space":  {postLog(len(body)+9000) + body + strings.Repeat(" ", 8999), func(r *servertest.Raw) { r.Close() }, 0},
		"silent at the end":    {postLog(len(body)+9000) + body + strings.Repeat(" ", 8999), func(*servertest.Raw) {}, 408},
		"too little to stage":  {postLog(100_000) + body[:10_000], func(r *servertest.Raw) { r.Close() }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := h.Raw(t)
			r.Send(c.send)
			if strings.HasPrefix(name, "closed") || name == "half-closed" || name == "reset" {
				servertest.WaitFor(t, "staging", func() bool { return l.Keys(t, 'D') > 0 })
			}
			c.end(r)
			if c.status != 0 {
				status, answer, _ := r.Answer()
				if status != c.status || !strings.HasPrefix(answer, `{"detail":`) {
					t.Errorf("%d %s, want %d", status, answer, c.status)
				}
			}
			servertest.WaitFor(t, "the space to be freed", func() bool {
				return l.Keys(t, 'D') == 0 && l.Keys(t, 'U') == 0 && h.Instance.Trajectories().Uploads() == 0
			})
			if l.Keys(t, 'B') != 0 {
				t.Error("something is visible")
			}
		})
	}
	h.LogGroups(t, servertest.AgentPath, body)
	if entries, _ := h.List(t, servertest.AgentPath+"/trajectories?limit=1000"); len(entries) != 24 {
		t.Errorf("%d trajectories", len(entries))
	}
}

// TestLogSlowly: a body may take as long as it likes, if it comes at all
// (docs/interface/trajectories.md, T-34).
func TestLogSlowly(t *testing.T) {
	h, _ := servertest.NewTrajectories(t, func(s *servertest.Setup) {
		s.TCP = true
		s.Config.ReadTimeout, s.Config.BodyTimeout, s.Config.Trajectories.Idle = 150*time.Millisecond, 150*time.Millisecond, time.Second
	})
	body := servertest.Group(tokens(50_000))
	r := h.Raw(t)
	r.Send(postLog(len(body)) + body[:(8<<10)])
	rest := body[(8 << 10):]
	for begin := time.Now(); time.Since(begin) < 4*150*time.Millisecond; time.Sleep(150 * time.Millisecond / 2) {
		n := min(100, len(rest))
		r.Send(rest[:n])
		rest = rest[n:]
	}
	r.Send(rest)
	if status, answer, _ := r.Answer(); status != 200 {
		t.Errorf("%d %s", status, answer)
	}
}

// TestLogDrips: a body that comes too slowly over the whole time in which a client may be
// silent is cut off, although each of its bytes is in time (T-34).
func TestLogDrips(t *testing.T) {
	h, _ := servertest.NewTrajectories(t, func(s *servertest.Setup) { s.TCP = true })
	var now atomic.Int64
	h.SetClock(func() time.Time { return time.Unix(1_772_900_001, now.Load()) })
	body := servertest.Group(tokens(400_000))
	r := h.Raw(t)
	r.Send(postLog(len(body)) + body[:(100<<10)])
	for i := range 100 {
		now.Add(int64(61 * time.Second))
		if _, err := io.WriteString(r, body[100<<10+i:][:1]); err != nil {
			break
		}
		_ = r.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		if _, err := r.R.Peek(1); err == nil {
			break
		}
	}
	_ = r.SetReadDeadline(time.Now().Add(10 * time.Second))
	if status, answer, _ := r.Answer(); status != 408 {
		t.Errorf("%d %s", status, answer)
	}
	r.Ended()
}

// TestLogRefusedEarly: a request that is refused for its headers is refused before its body
// comes (T-6, T-32).
func TestLogRefusedEarly(t *testing.T) {
	h, _ := servertest.NewTrajectories(t, func(s *servertest.Setup) {
		s.TCP = true
		s.Config.APIKeys = []string{"k"}
		s.Config.Trajectories.MaxBody = 1 << 30
	})
	const key = "Authorization: Bearer k"
	for _, c := range []struct {
		head   string
		status int
	}{
		{postLog(2<<30, key), 413}, {postLog(2 << 30), 401}, {postLog(1<<20, key, "Content-Encoding: br"), 415},
		{strings.Replace(postLog(1<<20, key), "application/json", "text/plain", 1), 415}, {postLog(1<<20, key, "Idempotency-Key: ä"), 422},
	} {
		r := h.Raw(t)
		r.Send(c.head + strings.Repeat("x", (8<<10)))
		if status, answer, _ := r.Answer(); status != c.status {
			t.Errorf("%.60q: %d %s, want %d", c.head, status, answer, c.status)
		}
		r.Close()
	}
	r := h.Raw(t)
	body := servertest.Group(`{}`)
	r.Send(postLog(len(body), key, "Expect: 100-continue"))
	if line, err := r.R.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 100 ") {
		t.Fatalf("%q %v", line, err)
	}
	if _, err := r.R.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	r.Send(body)
	if status, answer, _ := r.Answer(); status != 200 {
		t.Errorf("%d %s", status, answer)
	}
}

// TestUploadsAtATime: the number of uploads at a time is bounded, for a tenant to as many as it
// leaves to others, and they delay nobody else (T-33).
func TestUploadsAtATime(t *testing.T) {
	h, _ := servertest.NewTrajectories(t, func(s *servertest.Setup) { s.TCP = true; s.Config.Trajectories.MaxUploads = 4 })
	body := servertest.Group(tokens(50_000))
	var slow []*servertest.Raw
	for range 2 {
		r := h.Raw(t)
		r.Send(postLog(len(body)) + body[:20_000])
		slow = append(slow, r)
	}
	servertest.WaitFor(t, "two uploads", func() bool { return h.Instance.Trajectories().Uploads() == 2 })
	status, answer, header := h.Get("POST", servertest.AgentPath+"/log", body)
	if status != 429 || header.Get("Retry-After") == "" || !strings.HasPrefix(answer, `{"detail":`) {
		t.Errorf("%d %s", status, answer)
	}
	h.Complete(t, nil)
	if runtime.GOOS == "linux" { // elsewhere 127.0.0.1 is the only address of this machine
		dial := h.Dial
		h.Dial = func() (net.Conn, error) {
			return (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).Dial("tcp", h.Addr)
		}
		other := h.Raw(t)
		h.Dial = dial
		other.Send(postLog(len(body)) + body)
		if status, answer, _ := other.Answer(); status != 200 {
			t.Errorf("another tenant: %d %s", status, answer)
		}
	}
	for _, r := range slow {
		r.Send(body[20_000:])
		if status, answer, _ := r.Answer(); status != 200 {
			t.Errorf("%d %s", status, answer)
		}
	}
	h.LogGroups(t, servertest.AgentPath, body)
}

// TestLogInParallel: a hundred log requests at a time (docs/interface/trajectories.md,
// T#27).
func TestLogInParallel(t *testing.T) {
	h, _ := servertest.NewTrajectories(t, func(s *servertest.Setup) { s.TCP = true; s.Config.Trajectories.MaxUploads = 200 })
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			if status, answer, _ := h.Get("POST", servertest.AgentPath+"/log", servertest.Group(fmt.Sprintf(`{"reward":%d}`, i), `{}`)); status != 200 {
				t.Errorf("%d %s", status, answer)
			}
		})
	}
	all.Wait()
	h.Client.CloseIdleConnections()
	entries, _ := h.List(t, "/v1/preview/models")
	if entries[0]["logs"] != 100.0 || entries[0]["trajectories"] != 200.0 {
		t.Errorf("%v", entries[0])
	}
	logs, _ := h.List(t, servertest.AgentPath+"/logs?limit=100&order=asc")
	for i, l := range logs[1:] {
		if l["received_at"].(string) <= logs[i]["received_at"].(string) || l["id"].(string) <= logs[i]["id"].(string) {
			t.Errorf("%v follows %v", l, logs[i])
		}
	}
	m, _ := metrics(t, h, "")
	if m[0]["metrics"].(map[string]any)["train/reward"] != 4950.0/200 {
		t.Errorf("%v", m)
	}
}

// repeated is a body of n times the same trajectory, made as it is read.
type repeated struct {
	head, text, tail string
	n                int
	rest             string
	began            bool
}

func (r *repeated) Read(p []byte) (int, error) {
	if r.rest == "" {
		switch {
		case !r.began:
			r.rest, r.began = r.head, true
		case r.n > 1:
			r.rest = r.text + ","
			r.n--
		case r.n == 1:
			r.rest = r.text + r.tail
			r.n--
		default:
			return 0, io.EOF
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// TestLargeBody: a body of any size passes, and comes out again, in an amount of memory that
// does not depend on its size (T-30, T#18).
func TestLargeBody(t *testing.T) {
	h, _ := servertest.NewTrajectories(t, func(s *servertest.Setup) { s.TCP = true })
	text := tokens(500_000)
	const count = 200 // 100 MB
	var peak uint64
	stop := make(chan struct{})
	var watching sync.WaitGroup
	// What is alive counts. What waits to be collected depends on how fast the machine is.
	live := func() uint64 {
		sample := []runtimemetrics.Sample{{Name: "/gc/heap/live:bytes"}}
		runtimemetrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	defer debug.SetGCPercent(debug.SetGCPercent(20))
	runtime.GC()
	before := live()
	watching.Go(func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			peak = max(peak, live())
			select {
			case <-tick.C:
			case <-stop:
				return
			}
		}
	})
	body := &repeated{head: `{"trajectory_groups":[{"trajectories":[`, text: text, tail: `]}],"split":"train"}`, n: count}
	resp, err := h.Client.Post("http://weir"+servertest.AgentPath+"/log", "application/json", body)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%d %s %v", resp.StatusCode, answer, err)
	}
	if r := servertest.Object(t, string(answer)); r["trajectories"] != float64(count) || r["bytes"].(float64) < float64(count*len(text)) {
		t.Errorf("%v", r)
	}
	resp = h.Do("GET", servertest.AgentPath+"/export", "")
	n, err := io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	if err != nil || n < int64(count*len(text)) {
		t.Errorf("%d bytes out, %v", n, err)
	}
	close(stop)
	watching.Wait()
	const most = 64 << 20
	grown := int64(peak) - int64(before)
	t.Logf("%d MB in and out, the heap grew by %d MB", count*len(text)>>20, grown>>20)
	if grown > most {
		t.Errorf("the heap grew by %d MB", grown>>20)
	}
}

// BenchmarkLog is the speed of one upload, from the socket to the disk.
func BenchmarkLog(b *testing.B) {
	l := servertest.NewArchive(b)
	h := servertest.New(b, func(s *servertest.Setup) { s.TCP = true; s.Config.Trajectories.Archive = l.Archive })
	text := tokens(3_500_000) // 32,000 tokens with logprobs
	const count = 16
	b.SetBytes(int64(count * len(text)))
	for b.Loop() {
		body := &repeated{head: `{"trajectory_groups":[{"trajectories":[`, text: text, tail: `]}],"split":"train"}`, n: count}
		resp, err := h.Client.Post("http://weir"+servertest.AgentPath+"/log", "application/json", body)
		if err != nil {
			b.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			b.Fatal(resp.Status)
		}
	}
}

// BenchmarkLogSmall is the time of a small upload: its fsync.
func BenchmarkLogSmall(b *testing.B) {
	l := servertest.NewArchive(b)
	h := servertest.New(b, func(s *servertest.Setup) { s.TCP = true; s.Config.Trajectories.Archive = l.Archive })
	body := servertest.Group(tokens(2000))
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			h.LogGroups(b, servertest.AgentPath, body)
		}
	})
}
