package main

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"weir/internal/jsontext"
)

// load are chats that share prefixes.
type load struct {
	url               string
	prefixes, clients int
	stream            bool
	at                map[int]func() // what is done when so many chats have begun

	mu             sync.Mutex
	answered       int
	prompt, cached int // tokens
	took           time.Duration
	times          []time.Duration
	failures       []failure
}

// failure is a chat without an answer.
type failure struct {
	began time.Time
	err   error
}

// run sends n chats, in an order that is the same for every router.
func (l *load) run(n int) {
	next := make(chan int)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: l.clients}, Timeout: time.Minute}
	defer client.CloseIdleConnections()
	rnd := rand.New(rand.NewPCG(1, 2))
	began := time.Now()
	var clients, events sync.WaitGroup
	for range l.clients {
		clients.Go(func() {
			for which := range next {
				l.chat(client, which)
			}
		})
	}
	for i := range n {
		if f := l.at[i]; f != nil {
			events.Go(f)
		}
		next <- i*l.prefixes + rnd.IntN(l.prefixes)
	}
	close(next)
	clients.Wait()
	l.took = time.Since(began)
	events.Wait()
}

// quantile is a quantile of the times of answers.
func (l *load) quantile(q float64) time.Duration {
	if len(l.times) == 0 {
		return 0
	}
	slices.Sort(l.times)
	return l.times[int(q*float64(len(l.times)-1))].Round(10 * time.Microsecond)
}

// prefix is a system prompt of some 600 tokens.
func prefix(which int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "You are the assistant of shop number %d. ", which)
	for rule := range 28 {
		fmt.Fprintf(&b, "In shop %d the rule %d says that an order of item %d is sent on day %d. ", which, rule, which*31+rule*7, (which+rule)%28+1)
	}
	return b.String()
}

// body is a chat: the number of the prefix is the remainder.
func (l *load) body(which int) []byte {
	b, err := jsontext.Encode(map[string]any{
		"model": "weir-tiny", "max_tokens": 16, "temperature": 0, "stream": l.stream,
		"messages": []map[string]string{{"role": "system", "content": prefix(which % l.prefixes)}, {"role": "user", "content": fmt.Sprint("When is order ", which/l.prefixes, " sent?")}},
	})
	if err != nil {
		panic(err)
	}
	return b
}

// chat sends one chat and notes what became of it.
func (l *load) chat(client *http.Client, which int) {
	began := time.Now()
	usage, err := ask(client, l.url, l.body(which), l.stream)
	took := time.Since(began)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.failures = append(l.failures, failure{began, err})
		return
	}
	l.answered++
	l.times = append(l.times, took)
	l.prompt, l.cached = l.prompt+usage.Prompt, l.cached+usage.Details.Cached
}

type usage struct {
	Prompt  int `json:"prompt_tokens"`
	Details struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

// ask sends a chat and reads the whole answer.
func ask(client *http.Client, url string, body []byte, stream bool) (u usage, err error) {
	resp, err := client.Post(url+"/v1/chat/completions", "application/json", bytes.NewReader(body))
	if err != nil {
		return u, err
	}
	text, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	switch {
	case err != nil:
		return u, err
	case resp.StatusCode != http.StatusOK:
		return u, fmt.Errorf("%s: %.200s", resp.Status, text)
	case !stream:
		var answer struct{ Usage usage }
		err := jsontext.Decode(text, &answer)
		return answer.Usage, err
	case !bytes.Contains(text, []byte(`"finish_reason":"`)) || !bytes.HasSuffix(bytes.TrimSpace(text), []byte("data: [DONE]")):
		return u, fmt.Errorf("a stream that was cut after %d bytes: %.100s", len(text), text[max(0, len(text)-100):])
	}
	return u, nil
}

// overhead is how long a short chat takes at a server and behind a router, in turns: medians.
func overhead(direct, behind string) (at, through time.Duration, err error) {
	const rounds = 300
	client := &http.Client{Timeout: time.Minute}
	defer client.CloseIdleConnections()
	body := []byte(`{"model":"weir-tiny","max_tokens":1,"temperature":0,"messages":[{"role":"user","content":"Hi"}]}`)
	var times [2][]time.Duration
	for i := range rounds + 20 {
		for k, url := range []string{direct, behind} {
			began := time.Now()
			if _, err := ask(client, url, body, false); err != nil {
				return 0, 0, err
			}
			if i >= 20 {
				times[k] = append(times[k], time.Since(began))
			}
		}
	}
	for k := range times {
		slices.Sort(times[k])
	}
	return times[0][rounds/2].Round(time.Microsecond), times[1][rounds/2].Round(time.Microsecond), nil
}
