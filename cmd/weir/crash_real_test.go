package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// victim is a server that is killed under load, over and over, and what its clients
// know of what was acknowledged.
type victim struct {
	t     *testing.T
	dir   string
	rand  *rand.Rand
	begun string // when this round was
	*process

	mu       sync.Mutex
	serial   int                // of what is sent: never twice
	feedback map[string]int     // id of an item: the newest text acknowledged
	sent     map[string]int     // id of an item that is replaced: the newest text sent
	logs     map[string]int     // id of a batch: its number
	rewards  map[string]float64 // id of a completion: what it is worth, acknowledged
	tried    map[string]float64 // the same, sent
	asked    int                // completions sent
	usage    int                // requests that GET /usage has told of, some time before the kill
}

func (v *victim) start() {
	v.t.Helper()
	v.process = startProcess(v.t, nil, "--data-dir", v.dir, "--min-free-disk", "0", "--record-trajectories", "*")
}

// process is a server in a process of its own.
type process struct {
	cmd   *exec.Cmd
	url   string
	log   *logBook
	ended chan error
}

// startProcess starts weir serve with these arguments, after prepare has changed how.
func startProcess(t *testing.T, prepare func(*exec.Cmd), args ...string) *process {
	t.Helper()
	p := &process{log: newLogBook(), ended: make(chan error, 1)}
	p.cmd = exec.Command(os.Args[0], append([]string{"serve", "--device", "sim", "--port", "0", "--kv-cache-memory", "64MiB"}, args...)...)
	p.cmd.Env = append(os.Environ(), mainVar+"=1")
	p.cmd.Stderr = p.log
	if prepare != nil {
		prepare(p.cmd)
	}
	if err := p.cmd.Start(); err != nil {
		t.Skip("the system does not start it: ", err)
	}
	go func() { p.ended <- p.cmd.Wait() }()
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	p.url = p.log.find(t, `url=(\S+)`, p.ended)
	p.log.find(t, `msg=ready`, p.ended)
	return p
}

// kill is kill -9.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

func (v *victim) next() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.serial++
	return v.serial
}

// send posts and returns the answer; nil: none came.
func (v *victim) send(c *http.Client, path, body string) map[string]any {
	req, err := http.NewRequest("POST", v.url+path, strings.NewReader(body))
	if err != nil {
		v.t.Error(err)
		return nil
	}
	req.Header.Set("Content-Type", "application/json")
	if strings.HasPrefix(path, "/v1/chat") {
		req.Header.Set("Compat-Project", "acme/support")
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	var answer map[string]any
	if err != nil || resp.StatusCode == 503 { // killed, or its store is being opened
		return nil
	}
	if err := json.Unmarshal(text, &answer); err != nil || resp.StatusCode != 200 {
		v.t.Errorf("%s: %d %s", path, resp.StatusCode, text)
		return nil
	}
	return answer
}

const crashItem = `{"project_id":"acme/support","trace_ref":"w:///acme/support/call/%s","feedback_type":%q,"payload":%s,"feedback_id":%q%s}`

// replaceOne replaces an item under its own id.
func (v *victim) replaceOne(c *http.Client, id string) bool {
	n := v.next()
	v.mu.Lock()
	v.sent[id] = n
	v.mu.Unlock()
	payload := fmt.Sprintf(`{"n":%d,"text":%q}`, n, strings.Repeat("x", n%7*3000))
	if v.send(c, "/feedback/replace", fmt.Sprintf(crashItem, "1", "custom", payload, id, `,"id":"`+id+`"`)) == nil {
		return false
	}
	v.mu.Lock()
	v.feedback[id] = n
	v.mu.Unlock()
	return true
}

// create makes an item of a new id.
func (v *victim) create(c *http.Client) bool {
	n := v.next()
	answer := v.send(c, "/feedback/replace", fmt.Sprintf(crashItem, "1", "custom", fmt.Sprintf(`{"n":%d}`, n), "none", ""))
	if answer == nil {
		return false
	}
	v.mu.Lock()
	v.feedback[answer["id"].(string)] = n
	v.mu.Unlock()
	return true
}

// crashBatch is the body of a log request: three groups of two.
func crashBatch(n int) string {
	r := rand.New(rand.NewPCG(uint64(n), 1))
	var b strings.Builder
	b.WriteString(`{"split":"train","trajectory_groups":[`)
	for g := range 3 {
		fmt.Fprintf(&b, `%s{"trajectories":[`, ","[:min(g, 1)])
		for i := range 2 {
			text := make([]byte, r.IntN(60_000))
			for j := range text {
				text[j] = 'a' + byte(r.IntN(26))
			}
			fmt.Fprintf(&b, `%s{"reward":1.0,"metadata":{"n":%d,"g":%d},"logs":["%s"]}`, ","[:min(i, 1)], n, g, text)
		}
		b.WriteString(`]}`)
	}
	return b.String() + `]}`
}

func (v *victim) logOne(c *http.Client) bool {
	n := v.next()
	answer := v.send(c, "/v1/preview/models/agent/log", crashBatch(n))
	if answer == nil {
		return false
	}
	v.mu.Lock()
	v.logs[answer["id"].(string)] = n
	v.mu.Unlock()
	return true
}

// judgeOne asks for a completion and says what it is worth.
func (v *victim) judgeOne(c *http.Client) bool {
	v.mu.Lock()
	v.asked++
	v.mu.Unlock()
	answer := v.send(c, "/v1/chat/completions", `{"max_tokens":3,`+question[1:])
	if answer == nil {
		return false
	}
	id, n := answer["id"].(string), v.next()
	if n%4 == 0 {
		return true // nobody says anything
	}
	v.mu.Lock()
	v.tried[id] = float64(n)
	v.mu.Unlock()
	if v.send(c, "/feedback/create", strings.Replace(fmt.Sprintf(crashItem, id, "reward", fmt.Sprintf(`{"reward":%d}`, n), "", ""), `,"feedback_id":""`, "", 1)) == nil {
		return false
	}
	v.mu.Lock()
	v.rewards[id] = float64(n)
	v.mu.Unlock()
	return true
}

// counted is how many requests GET /usage tells of.
func (v *victim) counted(c *http.Client) (int, bool) {
	resp, err := c.Get(v.url + "/usage")
	if err != nil {
		return 0, false
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	m := regexp.MustCompile(`"project":"acme/support","requests":(\d+)`).FindSubmatch(text)
	if err != nil || m == nil {
		return 0, err == nil
	}
	n, _ := strconv.Atoi(string(m[1]))
	return n, true
}

// recorded reports whether completions of this round have been recorded.
func (v *victim) recorded(c *http.Client) bool {
	resp, err := c.Get(v.url + "/v1/preview/models/weir-tiny/logs?limit=1&after_time=" + v.begun)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return err == nil && bytes.Contains(text, []byte("trajectory_log"))
}

// round starts the server, puts it under load and kills it.
func (v *victim) round(round int) {
	v.begun = time.Now().UTC().Format("2006-01-02T15:04:05.000Z")
	v.start()
	if n, ok := v.counted(http.DefaultClient); !ok || n < v.usage || n > v.asked {
		v.t.Errorf("round %d: usage has %d requests; it had %d, and %d were sent", round, n, v.usage, v.asked)
	}
	var clients sync.WaitGroup
	over := make(chan struct{})
	c := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
	load := func(f func(*http.Client) bool) {
		clients.Go(func() {
			for {
				if !f(c) {
					select {
					case <-over:
						return
					case <-time.After(time.Millisecond):
					}
				}
			}
		})
	}
	for w := range 2 {
		load(func(c *http.Client) bool {
			return v.replaceOne(c, fmt.Sprintf("00000000-0000-4000-8000-%06d%06d", round, w))
		})
		load(v.create)
		load(v.logOne)
		load(v.judgeOne)
	}
	type count struct {
		n  int
		at time.Time
	}
	var counts []count
	load(func(c *http.Client) bool {
		begun := time.Now()
		n, ok := v.counted(c)
		if ok {
			counts = append(counts, count{n, begun})
		}
		return ok
	})
	if round%2 == 0 {
		time.Sleep(time.Duration(100+v.rand.IntN(1000)) * time.Millisecond)
	} else { // when completions have been recorded, and their rewards are about to be set
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end) && !v.recorded(c); {
			time.Sleep(5 * time.Millisecond)
		}
		time.Sleep(time.Duration(v.rand.IntN(1500)) * time.Millisecond)
	}
	killed := time.Now()
	v.kill()
	close(over)
	clients.Wait()
	c.CloseIdleConnections()
	for _, k := range counts {
		// The ledger writes within 100 ms; on a machine with others, within five times that.
		if killed.Sub(k.at) > 500*time.Millisecond {
			v.usage = max(v.usage, k.n)
		}
	}
}

// check looks at everything on a server that was started once more.
func (v *victim) check() {
	v.start()
	defer v.kill()
	t := v.t
	// Feedback: everything acknowledged is there, in its newest state or in one that
	// was under way; nothing is there twice.
	found, numbers := map[string]int{}, map[int]string{}
	for _, line := range v.lines("POST", "/feedback/export", `{"project_id":"acme/support"}`) {
		var r struct {
			ID      string
			Payload struct {
				N    int
				Text string
			}
			FeedbackType string `json:"feedback_type"`
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if r.FeedbackType != "custom" {
			continue
		}
		if numbers[r.Payload.N] != "" || r.Payload.Text != "" && r.Payload.Text != strings.Repeat("x", r.Payload.N%7*3000) {
			t.Errorf("item %d of %s is doubled, or torn", r.Payload.N, r.ID)
		}
		found[r.ID], numbers[r.Payload.N] = r.Payload.N, r.ID
	}
	for id, n := range v.feedback {
		if got := found[id]; got < n || got > max(n, v.sent[id]) {
			t.Errorf("feedback %s: number %d was acknowledged, there is %d", id, n, got)
		}
	}
	// Trajectories: batches are there as a whole, once, with their texts.
	texts, ids := map[int][]string{}, map[string]int{}
	for _, line := range v.lines("GET", "/v1/preview/models/agent/export", "") {
		var r struct {
			LogID      string `json:"log_id"`
			Trajectory json.RawMessage
		}
		var of struct{ Metadata struct{ N int } }
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(r.Trajectory, &of); err != nil {
			t.Fatal(err)
		}
		n := of.Metadata.N
		if old, ok := ids[r.LogID]; ok && old != n {
			t.Errorf("%s has trajectories of two requests", r.LogID)
		}
		ids[r.LogID] = n
		texts[n] = append(texts[n], string(r.Trajectory))
	}
	for n, list := range texts {
		var want []string
		var body struct {
			Groups []struct{ Trajectories []json.RawMessage } `json:"trajectory_groups"`
		}
		if err := json.Unmarshal([]byte(crashBatch(n)), &body); err != nil {
			t.Fatal(err)
		}
		for _, g := range body.Groups {
			for _, raw := range g.Trajectories {
				want = append(want, string(raw))
			}
		}
		if !slices.Equal(list, want) && !slices.Equal(list, append(slices.Clone(want[4:]), append(slices.Clone(want[2:4]), want[:2]...)...)) {
			t.Errorf("batch %d is torn, or there twice: %d texts", n, len(list))
		}
	}
	for id, n := range v.logs {
		if ids[id] != n {
			t.Errorf("batch %s, number %d, was acknowledged and is not there", id, n)
		}
	}
	// Rewards: of what was recorded, everything that somebody judged has its reward,
	// and nothing else has one.
	var recorded, judged int
	wrong := ""
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		recorded, judged, wrong = 0, 0, ""
		for _, line := range v.lines("GET", "/v1/preview/models/weir-tiny/export", "") {
			var r struct {
				Trajectory struct {
					Reward   *float64
					Metadata struct {
						ID string `json:"request_id"`
					}
				}
			}
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatal(err)
			}
			recorded++
			id, got := r.Trajectory.Metadata.ID, r.Trajectory.Reward
			want, acknowledged := v.rewards[id]
			tried, may := v.tried[id]
			switch {
			case acknowledged && (got == nil || *got != want), !acknowledged && got != nil && !(may && *got == tried):
				wrong = fmt.Sprintf("%s is worth %v, want %v", id, got, want)
			case acknowledged:
				judged++
			}
		}
		if wrong == "" || time.Now().After(end) {
			break
		}
	}
	if wrong != "" {
		t.Error(wrong)
	}
	t.Logf("%d items, %d batches, %d of %d recorded completions judged, %d of %d requests counted", len(v.feedback), len(v.logs), judged, recorded, v.usage, v.asked)
	if strings.Contains(v.log.String(), "damage") {
		t.Errorf("a crash is taken for damage: %s", v.log)
	}
}

// lines asks until the store is open, and returns the lines of the answer.
func (v *victim) lines(method, path, body string) []string {
	v.t.Helper()
	for {
		req, err := http.NewRequest(method, v.url+path, strings.NewReader(body))
		if err != nil {
			v.t.Fatal(err)
		}
		if body != "" {
			req.Header.Set("Content-Type", "application/json")
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			v.t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		switch {
		case err != nil:
			v.t.Fatal(err)
		case resp.StatusCode == 200:
			return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
		case resp.StatusCode == 404:
			return nil
		case resp.StatusCode != 503:
			v.t.Fatalf("%s: %d %s", path, resp.StatusCode, text)
		}
	}
}

// kill -9 under load, of a whole server, over and over: every acknowledged item of
// feedback, batch of trajectories and reward of a recorded completion is there,
// nothing is there twice or in part, and counts of requests are not lost either.
// Four servers are killed beside each other.
func TestKill(t *testing.T) {
	rounds := 20
	if n, err := strconv.Atoi(os.Getenv("WEIR_CRASH_ROUNDS")); err == nil {
		rounds = n
	} else if testing.Short() {
		rounds = 4
	}
	const side = 4
	for i := range side {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			v := &victim{t: t, dir: filepath.Join(t.TempDir(), "data"), rand: rand.New(rand.NewPCG(uint64(i), 5)),
				feedback: map[string]int{}, sent: map[string]int{}, logs: map[string]int{}, rewards: map[string]float64{}, tried: map[string]float64{}}
			for round := range (rounds + side - 1) / side {
				v.round(round)
			}
			v.check()
			if code, out, errOut := storeTool("verify", "--data-dir", v.dir); code != 0 {
				t.Errorf("weir store verify: %s%s", out, errOut)
			}
		})
	}
}

// storeTool is weir store.
func storeTool(args ...string) (code int, out, errOut string) {
	var o, e bytes.Buffer
	code = run(append([]string{"store"}, args...), noEnv, nil, &o, &e)
	return code, o.String(), e.String()
}
