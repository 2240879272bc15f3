package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestKill kills a whole server under load with SIGKILL, over and over. Afterwards every
// item of feedback, batch of trajectories and reward of a recorded completion that was
// acknowledged must be there, nothing may be there twice or in part, and counts of
// requests must not be lost either. Four servers are killed beside each other.
func TestKill(t *testing.T) {
	t.Parallel()
	rounds := 20
	if n, err := strconv.Atoi(os.Getenv("WEIR_CRASH_ROUNDS")); err == nil {
		rounds = n
	} else if testing.Short() {
		rounds = 4
	}
	const servers = 4
	for i := range servers {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			k := &killTest{t: t, dir: filepath.Join(t.TempDir(), "data"), rand: rand.New(rand.NewPCG(uint64(i), 5)),
				feedback: map[string]int{}, sent: map[string]int{}, logs: map[string]int{}, rewards: map[string]float64{}, tried: map[string]float64{}}
			for round := range (rounds + servers - 1) / servers {
				k.round(round)
			}
			k.check()
			if code, out, errOut := runStore("verify", "--data-dir", k.dir); code != 0 {
				t.Errorf("weir store verify: %s%s", out, errOut)
			}
		})
	}
}

// killTest is a server that is killed under load, and what its clients know of what it
// has acknowledged.
type killTest struct {
	t     *testing.T
	dir   string
	rand  *rand.Rand
	begun string // time at which this round began
	*process

	mu       sync.Mutex
	serial   int                // number of the last thing sent; none is used twice
	feedback map[string]int     // id of an item: the newest number acknowledged
	sent     map[string]int     // id of an item that is replaced: the newest number sent
	logs     map[string]int     // id of a batch: its number
	rewards  map[string]float64 // id of a completion: its reward, acknowledged
	tried    map[string]float64 // the same, sent
	asked    int                // completions sent
	usage    int                // requests that GET /usage reported some time before the kill
}

func (k *killTest) start() {
	k.t.Helper()
	k.process = startProcess(k.t, nil, "--data-dir", k.dir, "--min-free-disk", "0", "--record-trajectories", "*")
}

// update changes what is known under the lock.
func (k *killTest) update(f func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f()
}

func (k *killTest) nextNumber() (n int) {
	k.update(func() {
		k.serial++
		n = k.serial
	})
	return n
}

// send posts a body and returns the answer, or nil if none came.
func (k *killTest) send(c *http.Client, path, body string) map[string]any {
	req, err := http.NewRequest("POST", k.url+path, strings.NewReader(body))
	if err != nil {
		k.t.Error(err)
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
	if err != nil || resp.StatusCode == 503 { // the server was killed, or is still opening its store
		return nil
	}
	var answer map[string]any
	if err := json.Unmarshal(text, &answer); err != nil || resp.StatusCode != 200 {
		k.t.Errorf("%s: %d %s", path, resp.StatusCode, text)
		return nil
	}
	return answer
}

// get returns the body of an answer, or nil if none came.
func (k *killTest) get(c *http.Client, path string) []byte {
	resp, err := c.Get(k.url + path)
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil
	}
	return text
}

// feedbackBody is a request for an item of feedback. more is appended to its fields.
func feedbackBody(call, kind, payload, more string) string {
	return fmt.Sprintf(`{"project_id":"acme/support","trace_ref":"w:///acme/support/call/%s","feedback_type":%q,"payload":%s%s}`, call, kind, payload, more)
}

// fillOf is the text in item n. Its length shows whether the item is whole.
func fillOf(n int) string { return strings.Repeat("x", n%7*3000) }

// replaceItem replaces an item under its own id.
func (k *killTest) replaceItem(c *http.Client, id string) bool {
	n := k.nextNumber()
	k.update(func() { k.sent[id] = n })
	payload := fmt.Sprintf(`{"n":%d,"text":%q}`, n, fillOf(n))
	if k.send(c, "/feedback/replace", feedbackBody("1", "custom", payload, fmt.Sprintf(`,"feedback_id":%q,"id":%q`, id, id))) == nil {
		return false
	}
	k.update(func() { k.feedback[id] = n })
	return true
}

// createItem makes an item with an id that the server chooses.
func (k *killTest) createItem(c *http.Client) bool {
	n := k.nextNumber()
	answer := k.send(c, "/feedback/replace", feedbackBody("1", "custom", fmt.Sprintf(`{"n":%d}`, n), `,"feedback_id":"none"`))
	if answer == nil {
		return false
	}
	k.update(func() { k.feedback[answer["id"].(string)] = n })
	return true
}

// letters is random text that batches take their texts from.
var letters = sync.OnceValue(func() string {
	r := rand.New(rand.NewPCG(7, 7))
	text := make([]byte, 120_000)
	for i := range text {
		text[i] = 'a' + byte(r.IntN(26))
	}
	return string(text)
})

// batchBody is the body of log request n: three groups of two trajectories, with texts
// of up to 60 kB.
func batchBody(n int) string {
	r := rand.New(rand.NewPCG(uint64(n), 1))
	var b strings.Builder
	b.WriteString(`{"split":"train","trajectory_groups":[`)
	for g := range 3 {
		fmt.Fprintf(&b, `%s{"trajectories":[`, ","[:min(g, 1)])
		for i := range 2 {
			from, size := r.IntN(60_000), r.IntN(60_000)
			fmt.Fprintf(&b, `%s{"reward":1.0,"metadata":{"n":%d,"g":%d},"logs":["%s"]}`, ","[:min(i, 1)], n, g, letters()[from:from+size])
		}
		b.WriteString(`]}`)
	}
	return b.String() + `]}`
}

// logBatch logs a batch of trajectories.
func (k *killTest) logBatch(c *http.Client) bool {
	n := k.nextNumber()
	answer := k.send(c, "/v1/preview/models/agent/log", batchBody(n))
	if answer == nil {
		return false
	}
	k.update(func() { k.logs[answer["id"].(string)] = n })
	return true
}

// judgeCompletion asks for a completion, and three times out of four gives it a reward.
func (k *killTest) judgeCompletion(c *http.Client) bool {
	k.update(func() { k.asked++ })
	answer := k.send(c, "/v1/chat/completions", `{"max_tokens":3,`+question[1:])
	if answer == nil {
		return false
	}
	id, n := answer["id"].(string), k.nextNumber()
	if n%4 == 0 {
		return true
	}
	k.update(func() { k.tried[id] = float64(n) })
	if k.send(c, "/feedback/create", feedbackBody(id, "reward", fmt.Sprintf(`{"reward":%d}`, n), "")) == nil {
		return false
	}
	k.update(func() { k.rewards[id] = float64(n) })
	return true
}

var requestCount = regexp.MustCompile(`"project":"acme/support","requests":(\d+)`)

// counted is how many requests GET /usage reports.
func (k *killTest) counted(c *http.Client) (n int, ok bool) {
	text := k.get(c, "/usage")
	if m := requestCount.FindSubmatch(text); m != nil {
		n, _ = strconv.Atoi(string(m[1]))
	}
	return n, text != nil
}

// recorded reports whether completions of this round have been recorded.
func (k *killTest) recorded(c *http.Client) bool {
	return bytes.Contains(k.get(c, "/v1/preview/models/weir-tiny/logs?limit=1&after_time="+k.begun), []byte("trajectory_log"))
}

// round starts the server, puts it under load and kills it.
func (k *killTest) round(round int) {
	k.begun = time.Now().UTC().Format("2006-01-02T15:04:05.000Z")
	k.start()
	if n, ok := k.counted(http.DefaultClient); !ok || n < k.usage || n > k.asked {
		k.t.Errorf("round %d: usage has %d requests; it had %d, and %d were sent", round, n, k.usage, k.asked)
	}
	c := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
	l := newLoad(c)
	for i := range 2 {
		id := fmt.Sprintf("00000000-0000-4000-8000-%06d%06d", round, i)
		l.add(func(c *http.Client) bool { return k.replaceItem(c, id) })
		l.add(k.createItem)
		l.add(k.logBatch)
		l.add(k.judgeCompletion)
	}
	type count struct {
		n  int
		at time.Time
	}
	var counts []count
	l.add(func(c *http.Client) bool {
		begun := time.Now()
		n, ok := k.counted(c)
		if ok {
			counts = append(counts, count{n, begun})
		}
		return ok
	})
	k.waitForMoment(round, c)
	killed := time.Now()
	k.kill()
	l.stop()
	for _, seen := range counts {
		// The ledger writes within 100 ms; on a busy machine, within five times that.
		if killed.Sub(seen.at) > 500*time.Millisecond {
			k.usage = max(k.usage, seen.n)
		}
	}
}

// waitForMoment waits until the server is to be killed: at a random time in even rounds,
// which is often while it still replays its logs; in odd rounds at a random time after
// completions have been recorded, when their rewards are about to be set.
func (k *killTest) waitForMoment(round int, c *http.Client) {
	if round%2 == 0 {
		time.Sleep(time.Duration(100+k.rand.IntN(1000)) * time.Millisecond)
		return
	}
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end) && !k.recorded(c); {
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(time.Duration(k.rand.IntN(1500)) * time.Millisecond)
}

// A load is clients that repeat what they do until the load is stopped.
type load struct {
	client  *http.Client
	clients sync.WaitGroup
	over    chan struct{}
}

func newLoad(c *http.Client) *load { return &load{client: c, over: make(chan struct{})} }

// add starts a client. f reports whether it has got an answer.
func (l *load) add(f func(*http.Client) bool) {
	l.clients.Go(func() {
		for {
			if f(l.client) {
				continue
			}
			select {
			case <-l.over:
				return
			case <-time.After(time.Millisecond):
			}
		}
	})
}

// stop waits for the clients. The server must have ended, because a client stops when
// it gets no answer.
func (l *load) stop() {
	close(l.over)
	l.clients.Wait()
	l.client.CloseIdleConnections()
}

// check starts the server once more and looks at everything that was sent.
func (k *killTest) check() {
	k.start()
	defer k.kill()
	k.checkFeedback()
	k.checkTrajectories()
	recorded, judged, wrong := 0, 0, ""
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if recorded, judged, wrong = k.checkRewards(); wrong == "" || time.Now().After(end) {
			break
		}
	}
	if wrong != "" {
		k.t.Error(wrong)
	}
	k.t.Logf("%d items, %d batches, %d of %d recorded completions judged, %d of %d requests counted", len(k.feedback), len(k.logs), judged, recorded, k.usage, k.asked)
	if strings.Contains(k.log.String(), "damage") {
		k.t.Errorf("a crash is taken for damage: %s", k.log)
	}
}

// lines returns the lines of an answer with status 200, or nothing for 404.
func (k *killTest) lines(method, path, body string) []string {
	k.t.Helper()
	code, text := whenOpen(k.t, method, k.url+path, body)
	if code != 200 && code != 404 {
		k.t.Fatalf("%s: %d %s", path, code, text)
	}
	if code == 404 || text == "" { // killed before the first write
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// decode decodes a line that must be JSON.
func decode(t *testing.T, line string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(line), into); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
}

// checkFeedback: every item that was acknowledged is there, in its newest state or in
// one that was being written, and nothing is there twice.
func (k *killTest) checkFeedback() {
	found, ids := map[string]int{}, map[int]string{}
	for _, line := range k.lines("POST", "/feedback/export", `{"project_id":"acme/support"}`) {
		var r struct {
			ID      string
			Payload struct {
				N    int
				Text string
			}
			FeedbackType string `json:"feedback_type"`
		}
		decode(k.t, line, &r)
		if r.FeedbackType != "custom" {
			continue
		}
		if ids[r.Payload.N] != "" || r.Payload.Text != "" && r.Payload.Text != fillOf(r.Payload.N) {
			k.t.Errorf("item %d of %s is there twice, or in part", r.Payload.N, r.ID)
		}
		found[r.ID], ids[r.Payload.N] = r.Payload.N, r.ID
	}
	for id, n := range k.feedback {
		if got := found[id]; got < n || got > max(n, k.sent[id]) {
			k.t.Errorf("feedback %s: number %d was acknowledged, number %d is there", id, n, got)
		}
	}
}

// checkTrajectories: every batch that is there is there once, as a whole and with its
// texts, and every batch that was acknowledged is there.
func (k *killTest) checkTrajectories() {
	texts, numbers := map[int][]string{}, map[string]int{} // by number of the request; by id of the batch
	for _, line := range k.lines("GET", "/v1/preview/models/agent/export", "") {
		var r struct {
			LogID      string `json:"log_id"`
			Trajectory json.RawMessage
		}
		var about struct{ Metadata struct{ N int } }
		decode(k.t, line, &r)
		decode(k.t, string(r.Trajectory), &about)
		n := about.Metadata.N
		if other, ok := numbers[r.LogID]; ok && other != n {
			k.t.Errorf("%s has trajectories of two requests", r.LogID)
		}
		numbers[r.LogID] = n
		texts[n] = append(texts[n], string(r.Trajectory))
	}
	for n, list := range texts {
		var body struct {
			Groups []struct{ Trajectories []json.RawMessage } `json:"trajectory_groups"`
		}
		decode(k.t, batchBody(n), &body)
		var inOrder, groupsReversed []string // the export may give the groups in either order
		for _, g := range body.Groups {
			one, two := string(g.Trajectories[0]), string(g.Trajectories[1])
			inOrder = append(inOrder, one, two)
			groupsReversed = append([]string{one, two}, groupsReversed...)
		}
		if !slices.Equal(list, inOrder) && !slices.Equal(list, groupsReversed) {
			k.t.Errorf("batch %d is there in part, or twice: %d texts", n, len(list))
		}
	}
	for id, n := range k.logs {
		if numbers[id] != n {
			k.t.Errorf("batch %s, number %d, was acknowledged and is not there", id, n)
		}
	}
}

// checkRewards: of the completions that were recorded, all that were given a reward
// have it, and no other has one. It returns what is not so yet; a server sets rewards
// within a second or so.
func (k *killTest) checkRewards() (recorded, judged int, wrong string) {
	for _, line := range k.lines("GET", "/v1/preview/models/weir-tiny/export", "") {
		var r struct {
			Trajectory struct {
				Reward   *float64
				Metadata struct {
					ID string `json:"request_id"`
				}
			}
		}
		decode(k.t, line, &r)
		recorded++
		id, got := r.Trajectory.Metadata.ID, r.Trajectory.Reward
		want, acknowledged := k.rewards[id]
		tried, sent := k.tried[id]
		switch {
		case acknowledged && (got == nil || *got != want), !acknowledged && got != nil && !(sent && *got == tried):
			wrong = fmt.Sprintf("the reward of %s is %v, want %v", id, got, want)
		case acknowledged:
			judged++
		}
	}
	return recorded, judged, wrong
}
