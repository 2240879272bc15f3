package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
)

// checks are all checks, in the order in which they run.
var checks = []check{
	{"start", startView},
	{"chat: send, stream, edit, branch, regenerate", chatBasics},
	{"chat: log-probabilities", chatLogprobs},
	{"chat: schema and tree", chatSchema},
	{"chat: stop, side by side, code, keyboard alone", chatKeyboard},
	{"chat: feedback on an answer", chatFeedback},
	{"chat: export and import", chatImport},
	{"feedback", feedbackView},
	{"trajectories", trajectoryViews},
}

const box = `textarea[aria-label="Message"]`

func startView(s *suite) error {
	return s.with(options{}, func(srv *server, t *tab) error {
		return steps(func() error { return t.shows("weir-tiny") }, func() error { return t.shows("curl -N") }, func() error { return t.shows(srv.url + "/v1") },
			func() error { return t.click("Python") }, func() error { return t.shows("from openai import OpenAI") },
			func() error { return s.seen(t, "start") })
	})
}

// said sends a message and waits for the end of its answer.
func (t *tab) said(text string) error {
	return steps(func() error { return t.fill(box, text) }, func() error { return t.press(enter) }, t.answered)
}

// answered waits until no answer is being written.
func (t *tab) answered() error {
	return t.until(`!!document.querySelector('article.assistant') && document.querySelector('.composer button.main').textContent === 'Send' && !document.querySelector('.blink')`)
}

func chatBasics(s *suite) error {
	return s.with(options{}, func(_ *server, t *tab) error {
		count := func(n int) error {
			return t.until(fmt.Sprintf("document.querySelectorAll('article').length === %d", n))
		}
		return steps(
			func() error { return t.view("chat") },
			func() error { return t.said("What is weir?") },
			func() error { return t.shows("inference server") },
			func() error { return count(2) },
			func() error { return t.click("Regenerate") }, t.answered,
			func() error { return t.shows("2 of 2") },
			func() error { return t.click("Branch before") },
			func() error { return t.shows("1 of 2") },
			func() error { return t.click("Edit") },
			func() error { return t.fill("article textarea", "Tell me a story about a robot.") },
			func() error { return t.press(enter) }, t.answered,
			func() error { return t.shows("Tell me a story") },
			func() error { return t.said("And what then?") },
			func() error { return count(4) },
			func() error { return t.run(chromedp.Reload()) },
			func() error { return t.shows("And what then?") },
			func() error { return s.seen(t, "chat") },
		)
	})
}

func chatLogprobs(s *suite) error {
	return s.with(options{}, func(_ *server, t *tab) error {
		return steps(
			func() error { return t.view("chat") },
			func() error { return t.click("Log-probabilities") },
			func() error { return t.said("What is a queue?") },
			func() error { return t.until("document.querySelectorAll('.token').length > 5") },
			func() error { return t.eval("document.querySelectorAll('.token')[2].focus(); 0", nil) },
			func() error { return t.shows("Choose an alternative") },
			func() error { return s.seen(t, "logprobs") },
			func() error { return t.eval("document.querySelector('.alternatives button').click(); 0", nil) }, t.answered,
			func() error { return t.shows("2 of 2") },
		)
	})
}

func chatSchema(s *suite) error {
	return s.with(options{}, func(_ *server, t *tab) error {
		return steps(
			func() error { return t.view("chat") },
			func() error { return t.click("JSON schema") },
			func() error { return t.click("Use an example") },
			func() error { return t.said("Say something about rivers.") },
			func() error { return t.shows("object of 3") },
			func() error { return s.seen(t, "schema") },
		)
	})
}

func chatKeyboard(s *suite) error {
	return s.with(options{args: []string{"--device", "sim", "--sim-profile", "h100-llama-8b"}}, func(_ *server, t *tab) error {
		return steps(
			func() error { return t.view("chat") },
			func() error { return t.until("document.activeElement.matches('.composer textarea')") },
			func() error { return t.fill("#set-n", "3") },
			func() error { return t.fill("#set-max_tokens", "2000") },
			func() error { return t.eval("document.querySelector('.composer textarea').focus(); 0", nil) },
			func() error { return t.run(input.InsertText("Write for long.")) },
			func() error { return t.press(enter) },
			func() error {
				return t.until("document.querySelectorAll('.beside article').length === 3 && document.querySelector('.beside article').textContent.length > 100")
			},
			func() error { return t.press(escape) }, t.answered,
			func() error { return t.shows("Stopped.") },
			func() error { return s.seen(t, "side-by-side") },
			func() error { return t.run(chromedp.KeyEvent("c", chromedp.KeyModifiers(input.ModifierAlt))) },
			func() error { return t.shows("The request as code") },
			func() error { return t.click("Go") },
			func() error { return t.shows("http.NewRequest") },
			func() error { return s.seen(t, "code") },
			func() error { return t.press(escape) },
			func() error { return t.until("!document.querySelector('dialog')") },
			func() error { return t.click("Go on with this") },
			func() error { return t.run(chromedp.KeyEvent("e", chromedp.KeyModifiers(input.ModifierAlt))) },
			func() error { return t.until("document.activeElement.matches('article textarea')") },
			func() error { return t.press(escape) },
			func() error { return t.run(chromedp.KeyEvent("n", chromedp.KeyModifiers(input.ModifierAlt))) },
			func() error { return t.shows("Nothing is said yet.") },
		)
	})
}

func chatFeedback(s *suite) error {
	return s.with(options{}, func(srv *server, t *tab) error {
		stored := func(want string) error {
			text, err := srv.post("/feedback/query", `{"project_id": "local/chat"}`)
			if err == nil && !strings.Contains(text, want) {
				err = fmt.Errorf("stored is %s, want %s", text, want)
			}
			return err
		}
		return steps(
			func() error { return t.view("chat") },
			func() error { return t.said("What is weir?") },
			func() error { return t.click("Good answer") },
			func() error { return t.shows("Saved.") },
			func() error { return stored("👍") },
			func() error { return t.click("Bad answer") },
			func() error {
				return t.until("document.querySelector('[aria-label=\"Bad answer\"]').getAttribute('aria-pressed') === 'true'")
			},
			func() error { return stored("👎") },
			func() error {
				text, err := srv.post("/feedback/query", `{"project_id": "local/chat"}`)
				if err == nil && strings.Contains(text, "👍") {
					err = fmt.Errorf("the first reaction was not replaced: %s", text)
				}
				return err
			},
			func() error { return t.click("Note") },
			func() error { return t.fill("dialog textarea", "<img src=x onerror=alert(1)>") },
			func() error { return t.click("OK") },
			func() error { return t.shows("Edit note") },
			func() error { return stored("onerror") },
		)
	})
}

func chatImport(s *suite) error {
	return s.with(options{}, func(_ *server, t *tab) error {
		t.expect("purify.es.mjs") // the policy also stops handlers in the text that DOMPurify reads, before it removes them
		file := filepath.Join(s.dir, "<img src=x onerror=alert(1)>.json")
		return steps(
			func() error {
				return os.WriteFile(file, []byte(`{"conversations": [{"title": "<script>alert(2)</script>", "leaf": "b", "nodes": {
				"a": {"role": "user", "content": "<img src=x onerror=alert(3)>", "parent": ""},
				"b": {"role": "assistant", "model": "<b>m</b>", "content": "An *answer* with $x^2$, <img src=x onerror=alert(4)><svg onload=alert(5)> [link](javascript:alert(6)) <style>*{display:none}</style>`+"\\n\\n```go\\nfunc main() {}\\n```"+`", "parent": "a"}}}]}`), 0o600)
			},
			func() error { return t.view("chat") },
			func() error { return t.shows("Nothing is said yet.") },
			func() error {
				return t.eval("[...document.querySelectorAll('button')].find(e => e.textContent === 'Import').click(); 0", nil)
			}, // a chooser of files needs a user's touch
			func() error { return t.choose(file) },
			func() error { return t.shows("An answer with") },
			func() error {
				return t.until("!!document.querySelector('math msup') && !!document.querySelector('.hljs-keyword')")
			},
			func() error {
				return t.until("!document.querySelector('article img, article svg, article script, article style, article [onerror], article a[href^=javascript]') && !window.hurt")
			},
			func() error { return s.seen(t, "markdown") },
		)
	})
}
