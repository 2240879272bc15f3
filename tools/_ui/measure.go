package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/chromedp/chromedp"
)

// measured prints a measurement. Nothing fails because something is slow, because machines differ.
func measured(format string, args ...any) { fmt.Printf("     measured: "+format+"\n", args...) }

// firstPaint opens the page in browsers that have just shown another one, and whose caches hold nothing of this
// one, and measures when they paint first and what they load for it.
func firstPaint(s *suite) error {
	srv, err := serve(context.Background(), s.weir, "", "--data-dir", filepath.Join(s.dir, "measure"))
	if err != nil {
		return err
	}
	defer srv.stop()
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<!doctype html><title>Another page</title><p>Another page")
	}))
	defer other.Close()
	for _, view := range []string{"start", "chat"} {
		type paint struct {
			First    float64 // ms from the beginning of the navigation
			Bytes    int     // that were sent, with the headers
			Body     int     // compressed bodies
			Decoded  int
			Requests int
		}
		var all []paint
		for range 7 {
			t, err := open(s.browser, other.URL, 1360, 860, false)
			if err != nil {
				return err
			}
			var p paint
			err = errors.Join(t.until("performance.getEntriesByName('first-contentful-paint').length > 0"), t.run(chromedp.Navigate(srv.url+"/#/"+view)),
				t.until("!!document.querySelector('#view-"+view+" h1') && performance.getEntriesByName('first-contentful-paint').length > 0"),
				t.until(map[string]string{"start": "document.body.textContent.includes('weir-tiny')", "chat": "!!document.querySelector('.settings #set-n')"}[view]),
				t.eval(`(() => { const all = [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')], sum = k => all.reduce((n, e) => n + e[k], 0)
				return { first: performance.getEntriesByName('first-contentful-paint')[0].startTime, bytes: sum('transferSize'), body: sum('encodedBodySize'), decoded: sum('decodedBodySize'), requests: all.length } })()`, &p))
			t.close()
			if err != nil {
				return err
			}
			all = append(all, p)
		}
		slices.SortFunc(all, func(a, b paint) int { return int(1000 * (a.First - b.First)) })
		p := all[len(all)/2]
		measured("view %s, %d fresh browsers: first contentful paint %.0f ms in the median, %.0f to %.0f; %d requests, %.1f kB sent, bodies %.1f kB compressed and %.1f kB plain",
			view, len(all), p.First, all[0].First, all[len(all)-1].First, p.Requests, float64(p.Bytes)/1000, float64(p.Body)/1000, float64(p.Decoded)/1000)
	}
	return nil
}

// recorder notes each frame that the browser makes: the time since the one before it, and how long the scripts,
// the style and the layout of those took that Chromium calls long (over 50 ms).
const recorder = `(() => {
	const r = window.recorded = { gaps: [], long: [], on: true }
	let before = 0
	const frame = now => { if (before) r.gaps.push(now - before); before = now; if (r.on) requestAnimationFrame(frame) }
	requestAnimationFrame(frame)
	r.observer = new PerformanceObserver(list => { for (const e of list.getEntries()) r.long.push(e.duration) })
	r.observer.observe({ type: 'long-animation-frame' })
	return 0
})()`

// frames records the frames of the time in which f runs, and prints what they were like.
func (t *tab) frames(what string, f func() error) error {
	var r struct {
		N             int
		P50, P99, Max float64
		Over, Long    int
		Longest       float64
	}
	err := steps(func() error { return t.eval(recorder, nil) }, f, func() error {
		return t.eval(`(() => { const r = window.recorded; r.on = false; r.observer.disconnect(); const g = r.gaps.toSorted((a, b) => a - b)
			return { n: g.length, p50: g[g.length >> 1], p99: g[Math.floor(g.length * 0.99)], max: g.at(-1), over: g.filter(x => x > 50).length, long: r.long.length, longest: Math.max(0, ...r.long) } })()`, &r)
	})
	if err != nil {
		return err
	}
	measured("%s: %d frames, median %.1f ms, p99 %.1f ms, longest %.1f ms, %d over 50 ms; %d long animation frames, the longest %.0f ms", what, r.N, r.P50, r.P99, r.Max, r.Over, r.Long, r.Longest)
	return nil
}

// scrollAndWrite scrolls through a conversation in two seconds, and then writes in the field for messages.
func (t *tab) scrollAndWrite(what string) error {
	err := t.frames(what+", scrolled", func() error {
		return t.eval(`new Promise(resolve => { const log = document.querySelector('.log'), begin = performance.now(), far = log.scrollHeight
			const frame = now => { const part = Math.min(1, (now - begin) / 2000); log.scrollTop = far * (1 - part); part < 1 ? requestAnimationFrame(frame) : resolve(0) }
			requestAnimationFrame(frame) })`, nil)
	})
	if err != nil {
		return err
	}
	return t.frames(what+", written in", func() error {
		return steps(func() error { return t.fill(box, "") }, func() error { return t.run(chromedp.KeyEvent("How does a river carry stones to the sea, and why?")) })
	})
}

const rate = 500 // tokens per second of the scripted stream

// fastStream shows a scripted answer at 500 tokens per second for eight seconds, as Markdown with headings,
// lists, code, tables and mathematics. The rest of what the page asks for comes from a real server.
func fastStream(s *suite) error {
	srv, err := serve(context.Background(), s.weir, "", "--data-dir", filepath.Join(s.dir, "measure"))
	if err != nil {
		return err
	}
	defer srv.stop()
	target, err := url.Parse(srv.url)
	if err != nil {
		return err
	}
	rest := httputil.NewSingleHostReverseProxy(target)
	script := strings.SplitAfter(strings.Repeat("## A part\n\nThe *river* carries **water** and stones to the sea , and a weir holds back a part of it .\n\n- one thing\n- another thing\n\n```go\nfunc main() { println( 1 ) }\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nIt is $x^2 + y^2$ .\n\n", 100), " ")[:8*rate]
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/chat/completions" {
			rest.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		out, begun := http.NewResponseController(w), time.Now()
		for i, token := range script {
			time.Sleep(time.Until(begun.Add(time.Duration(i) * time.Second / rate)))
			fmt.Fprintf(w, "data: {\"id\": \"c\", \"choices\": [{\"index\": 0, \"delta\": {\"content\": %q}}]}\n\n", token)
			if out.Flush() != nil {
				return
			}
		}
		fmt.Fprintf(w, "data: {\"id\": \"c\", \"choices\": [{\"index\": 0, \"delta\": {}, \"finish_reason\": \"stop\"}]}\n\ndata: {\"id\": \"c\", \"choices\": [], \"usage\": {\"prompt_tokens\": 9, \"completion_tokens\": %d}}\n\ndata: [DONE]\n\n", len(script))
	}))
	defer front.Close()
	t, err := open(s.browser, front.URL+"/#/chat", 1360, 860, false)
	if err != nil {
		return err
	}
	defer t.close()
	err = steps(
		func() error { return t.until("!!document.querySelector('.settings #set-n')") },
		func() error { return t.fill(box, "Be quick.") },
		func() error {
			return t.frames(fmt.Sprintf("%d tokens per second for %d s", rate, len(script)/rate), func() error {
				return steps(func() error { return t.press(enter) }, func() error { return t.until("!!document.querySelector('article.assistant')") }, t.answered)
			})
		},
		func() error { return t.shows(fmt.Sprintf("%s tokens, ", "4,000")) },
		func() error {
			return t.until("document.querySelectorAll('article.assistant table').length > 50 && document.querySelectorAll('article.assistant math').length > 50")
		},
	)
	if err == nil {
		var shown string
		err = t.eval("[...document.querySelectorAll('.actions .hint')].at(-1).textContent", &shown)
		measured("what the page showed of it: %s", shown)
	}
	return err
}
