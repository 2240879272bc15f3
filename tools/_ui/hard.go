package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
)

// slowProfile is a simulated device on which a step, and so a token, takes 0.4 s.
const slowProfile = `{"name": "slow", "overhead_us": 400000}`

// simulated are arguments of a server whose device is simulated: by the profile of that name, or by the text of one.
func (s *suite) simulated(profile string) ([]string, error) {
	if strings.HasPrefix(profile, "{") {
		file := filepath.Join(s.dir, "profile.json")
		if err := os.WriteFile(file, []byte(profile), 0o600); err != nil {
			return nil, err
		}
		profile = file
	}
	return []string{"--device", "sim", "--sim-profile", profile}, nil
}

// refusedKey enters a wrong key, is told so, and enters the right one.
func refusedKey(s *suite) error {
	return s.with(options{key: "right"}, func(_ *server, t *tab) error {
		t.expect("401")
		return steps(
			func() error { return t.shows("The server asks for a key.") },
			func() error { return t.fill("dialog input", "wrong") },
			func() error { return t.press(enter) },
			func() error { return t.shows("The server refused this key.") },
			func() error { return s.seen(t, "key") },
			// Whoever dismisses the question reads what is missing, and can ask for it again.
			func() error { return t.press(escape) },
			func() error { return t.until("!document.querySelector('dialog')") },
			func() error { return t.until("!!document.querySelector('[role=alert]')?.textContent") },
			func() error { return s.accessible(t) },
			func() error { return t.click("Try again") },
			func() error { return t.shows("The server refused this key.") },
			func() error { return t.fill("dialog input", "right") },
			func() error { return t.press(enter) },
			func() error { return t.shows("weir-tiny") },
			func() error {
				return t.until("!document.querySelector('dialog') && !document.querySelector('[role=alert]')")
			},
			// The key lasts as long as the tab, and is in no storage that outlives it.
			func() error { return t.run(chromedp.Reload()) },
			func() error { return t.shows("weir-tiny") },
			func() error {
				return t.until("!Object.values(localStorage).includes('right') && !document.cookie.includes('right')")
			},
		)
	})
}

// slowStream watches an answer that comes slowly: each part is shown as it comes, and it can be stopped.
func slowStream(s *suite) error {
	args, err := s.simulated(slowProfile)
	if err != nil {
		return err
	}
	const length = "document.querySelector('article.assistant .text').textContent.length"
	return s.with(options{args: args}, func(_ *server, t *tab) error {
		grows := func() error {
			var n int
			if err := t.eval(length, &n); err != nil {
				return err
			}
			return t.until(fmt.Sprintf("%s > %d && document.querySelector('.composer button.main').textContent === 'Stop'", length, n))
		}
		return steps(
			func() error { return t.view("chat") },
			func() error { return t.fill("#set-max_tokens", "500") },
			func() error { return t.fill(box, "Take your time.") },
			func() error { return t.press(enter) },
			func() error { return t.until("!!document.querySelector('article.assistant .blink')") },
			grows, grows, grows,
			// What is written meanwhile stays in the field.
			func() error { return t.fill(box, "The next message") },
			func() error { return t.press(enter) }, grows,
			func() error {
				return t.until("document.querySelector('.composer textarea').value === 'The next message'")
			},
			func() error { return s.seen(t, "slow") },
			func() error { return t.press(escape) }, t.answered,
			func() error { return t.shows("Stopped.") },
		)
	})
}

// lostServer ends the server while it answers.
func lostServer(s *suite) error {
	args, err := s.simulated("h100-llama-8b")
	if err != nil {
		return err
	}
	return s.with(options{args: args}, func(srv *server, t *tab) error {
		t.expect("ERR_") // of the network
		var kept string
		return steps(
			func() error { return t.view("chat") },
			func() error { return t.fill("#set-max_tokens", "4000") },
			func() error { return t.fill(box, "Write for long.") },
			func() error { return t.press(enter) },
			func() error {
				return t.until("document.querySelector('article.assistant .text')?.textContent.length > 200")
			},
			func() error { srv.stop(); return nil }, t.answered,
			func() error { return t.shows("The connection to the server broke off.") },
			func() error {
				return t.eval("document.querySelector('article.assistant .text').textContent", &kept)
			},
			func() error {
				if len(kept) < 200 {
					return fmt.Errorf("of the answer is left %q", kept)
				}
				return nil
			},
			func() error { return s.seen(t, "lost") },
			// Without a server, the next message is kept as well, and an error says what is wrong.
			func() error { return t.fill(box, "Are you there?") },
			func() error { return t.press(enter) }, t.answered,
			func() error { return t.shows("The server cannot be reached.") },
			func() error { return t.shows("Are you there?") },
			func() error { return t.until("document.querySelectorAll('article').length === 4") },
			func() error { return s.accessible(t) },
			// Views that were not shown yet cannot be loaded, and say so.
			func() error { return t.eval("location.hash = '#/live'; 0", nil) },
			func() error { return t.shows("This view could not be shown") },
			func() error { return t.click("Chat") },
			func() error { return t.shows("Are you there?") },
			func() error { return t.shows("The connection to the server broke off.") },
		)
	})
}

// keyboardAlone goes from the start through a chat by the keys of a keyboard only.
func keyboardAlone(s *suite) error {
	return s.with(options{}, func(_ *server, t *tab) error {
		typed := func(text string) func() error {
			return func() error { return t.run(chromedp.KeyEvent(text)) }
		}
		key := func(k string, more ...chromedp.KeyOption) func() error {
			return func() error { return t.run(chromedp.KeyEvent(k, more...)) }
		}
		to := func(label string) func() error { return func() error { return t.tabTo(label, false) } }
		back := func(label string) func() error { return func() error { return t.tabTo(label, true) } }
		return steps(
			func() error { return t.shows("weir-tiny") },
			to("Chat"), key(enter),
			func() error { return t.until("document.activeElement.matches('.composer textarea')") },
			typed("What is weir?"), key(enter), t.answered,
			back("Good answer"), key(" "),
			func() error { return t.shows("Saved.") },
			func() error {
				return t.until("document.activeElement.getAttribute('aria-label') === 'Good answer'")
			},
			back("Regenerate"), key(enter), t.answered,
			func() error { return t.shows("2 of 2") },
			key("m", chromedp.KeyModifiers(input.ModifierAlt)),
			func() error { return t.until("document.activeElement.matches('.composer textarea')") },
			back("Branch before"), key(enter),
			func() error { return t.shows("1 of 2") },
			key("m", chromedp.KeyModifiers(input.ModifierAlt)),
			back("Edit"), key(enter),
			func() error { return t.until("document.activeElement.matches('article textarea')") },
			typed(" Say more."), key(enter), t.answered,
			func() error { return t.shows("Say more.") },
			key("m", chromedp.KeyModifiers(input.ModifierAlt)),
			to("Temperature"),
			back("Keys"), key(enter),
			func() error { return t.shows("edit your last message") },
			key(escape),
			func() error { return t.until("document.activeElement.textContent === 'Keys'") },
			back("Feedback"), key(enter),
			func() error { return t.until("!!document.querySelector('#view-feedback h1')") },
			to("Reference contains"),
		)
	})
}

// tabTo presses Tab until an element with a text or label has the focus, which has to be seen.
func (t *tab) tabTo(label string, back bool) error {
	var more []chromedp.KeyOption
	if back {
		more = append(more, chromedp.KeyModifiers(input.ModifierShift))
	}
	for range 150 {
		if err := t.run(chromedp.KeyEvent(tabKey, more...)); err != nil {
			return err
		}
		var at struct {
			Here, Seen bool
		}
		err := t.eval(fmt.Sprintf(`(() => { const e = document.activeElement, name = e.getAttribute('aria-label') ?? (e.labels?.length ? e.labels[0].textContent : e.textContent).trim()
			return { here: name === %q, seen: getComputedStyle(e).outlineStyle !== 'none' } })()`, label), &at)
		if err != nil {
			return err
		}
		if at.Here && !at.Seen {
			return fmt.Errorf("nobody sees that %q has the focus", label)
		}
		if at.Here {
			return nil
		}
	}
	return fmt.Errorf("Tab does not lead to %q", label)
}

// longConversation opens one of more than 100,000 tokens, scrolls, writes, and goes on with it.
func longConversation(s *suite) error {
	var nodes strings.Builder
	parent := ""
	const turns = 160
	for i := range turns {
		id, role, content := fmt.Sprintf("n%03d", i), "user", fmt.Sprintf("Question %d about rivers?", i)
		if i%2 == 1 { // about 1,300 tokens each
			role = "assistant"
			content = fmt.Sprintf("## Answer %d\n\n", i) + strings.Repeat("The *river* carries water, stones and sand to the sea, and a `weir` holds back a part of it.\n\n- one\n- two\n\n", 40)
		}
		if i > 0 {
			nodes.WriteString(", ")
		}
		fmt.Fprintf(&nodes, `%q: {"role": %q, "model": "weir-tiny", "content": %q, "parent": %q}`, id, role, content, parent)
		parent = id
	}
	text := fmt.Sprintf(`{"conversations": [{"title": "Long", "leaf": %q, "nodes": {%s}}]}`, parent, nodes.String())
	file := filepath.Join(s.dir, "long.json")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	return s.with(options{}, func(_ *server, t *tab) error {
		t.expect("400") // the conversation is longer than what the bundled model reads
		return steps(
			func() error { return t.view("chat") },
			func() error { return t.shows("Nothing is said yet.") },
			func() error {
				return t.eval("[...document.querySelectorAll('button')].find(e => e.textContent === 'Import').click(); 0", nil)
			},
			func() error { return t.choose(file) },
			func() error { return t.until(fmt.Sprintf("document.querySelectorAll('article').length === %d", turns)) },
			func() error { return t.scrollAndWrite("a conversation of 100,000 tokens") },
			func() error { return t.run(chromedp.Reload()) },
			func() error { return t.until(fmt.Sprintf("document.querySelectorAll('article').length === %d", turns)) },
			func() error { return t.said("And what comes after that?") },
			func() error { return t.until("!!document.querySelector('article.assistant [role=alert]')") },
			func() error { return t.picture(filepath.Join(s.pictures, "long.png")) }, // axe would look at it for a minute
			func() error { return t.click("Edit") },
			func() error { return t.until("document.activeElement.matches('article textarea')") },
			func() error { return t.press(escape) },
		)
	})
}

// liveView watches a load, looks closer at the strip of steps, and loses the server.
func liveView(s *suite) error {
	args, err := s.simulated("h100-llama-8b")
	if err != nil {
		return err
	}
	return s.with(options{args: args}, func(srv *server, t *tab) error {
		t.expect("ERR_")
		end := srv.load(6)
		err := steps(
			func() error { return t.view("live") },
			func() error { return t.until("document.querySelectorAll('.uplot canvas').length === 4") },
			func() error { return t.until("document.querySelectorAll('table tbody tr').length > 4") },
			func() error {
				return t.until("[...document.querySelectorAll('.figure')].some(e => e.textContent.startsWith('Running6'))")
			},
			func() error {
				return t.until("document.querySelector('.hint + .row ~ .quiet-text')?.textContent.includes('steps in')")
			},
			func() error { return t.click("Show less time") },
			func() error { return t.click("All: show everything and follow") },
			func() error { return t.click("The slowest steps in this part") },
			func() error { return s.seen(t, "live") },
			func() error { return t.click("Pause") },
			func() error { return t.until("document.querySelector('[role=status].tag').textContent === 'Paused'") },
			func() error { return t.click("Pause") },
			func() error { srv.stop(); return nil },
			func() error {
				return t.until("/trying again/.test(document.querySelector('[role=status].tag').textContent)")
			},
			func() error { return s.accessible(t) },
		)
		end()
		return err
	})
}

// load has some clients ask for long answers, one after the other, until the function that it returns is called.
func (s *server) load(clients int) (end func()) {
	var all sync.WaitGroup
	stop := make(chan struct{})
	for i := range clients {
		all.Go(func() {
			for {
				_, err := s.post("/v1/chat/completions", fmt.Sprintf(`{"model": "weir-tiny", "max_tokens": 800, "ignore_eos": true, "messages": [{"role": "user", "content": "Tell me story %d."}]}`, i))
				select {
				case <-stop:
					return
				default:
				}
				if err != nil {
					return
				}
			}
		})
	}
	return func() {
		close(stop)
		s.stop()
		all.Wait()
	}
}

// benchView starts a load, watches it to its end, and looks at the curve.
func benchView(s *suite) error {
	args, err := s.simulated("h100-llama-8b")
	if err != nil {
		return err
	}
	return s.with(options{args: append(args, "--enable-bench")}, func(_ *server, t *tab) error {
		return steps(
			func() error { return t.view("bench") },
			func() error { return t.shows("There are none yet.") },
			func() error { return s.accessible(t) },
			func() error { return t.fill("input[name=name]", "<img src=x onerror=alert(1)> two points") },
			func() error { return t.fill("input[name=concurrencies]", "1, 4, 16") },
			func() error { return t.fill("input[name=requests]", "16") },
			func() error { return t.fill("input[name=output_tokens]", "16") },
			func() error { return t.eval("document.querySelector('form button.main').click(); 0", nil) },
			func() error {
				return t.until("/: completed$/.test([...document.querySelectorAll('p[role=status]')].map(e => e.textContent).join())")
			},
			func() error {
				return t.until("document.querySelectorAll('.uplot canvas').length === 2 && !document.querySelector('main img')")
			},
			func() error { return s.seen(t, "bench") },
			func() error { return t.eval("document.querySelector('tbody input[type=checkbox]').click(); 0", nil) },
			func() error { return t.shows("Choose a run that has a point.") },
			func() error { return t.click("Delete <img src=x onerror=alert(1)> two points") },
			func() error { return t.until("!!document.querySelector('dialog button.danger')") },
			func() error { return t.eval("document.querySelector('dialog button.danger').click(); 0", nil) },
			func() error { return t.shows("There are none yet.") },
		)
	})
}

// sizes are the screens and schemes in which every view is looked at.
var sizes = []struct {
	name          string
	width, height int64
	dark          bool
}{{"dark", 1360, 860, true}, {"narrow", 380, 800, false}, {"narrow-dark", 380, 800, true}}

// everywhere looks at every view on each of the screens, with something in it.
func everywhere(s *suite) error {
	args, err := s.simulated("h100-llama-8b")
	if err != nil {
		return err
	}
	for _, size := range sizes {
		err := s.with(options{args: append(args, "--enable-bench"), width: size.width, height: size.height, dark: size.dark, before: furnish}, func(_ *server, t *tab) error {
			look := func(name string) func() error {
				return func() error {
					err := errors.Join(t.until("document.documentElement.scrollWidth <= innerWidth && document.querySelector('main').scrollWidth <= innerWidth"), s.seen(t, name+"-"+size.name))
					if err != nil {
						err = fmt.Errorf("%s, %s: %w", name, size.name, err)
					}
					return err
				}
			}
			return steps(
				func() error { return t.shows("weir-tiny") }, look("start"),
				func() error { return t.view("chat") },
				func() error { return t.until("!!document.querySelector('.settings #set-n')") },
				func() error {
					return t.eval("localStorage.setItem('weir-chat-settings', '{\"max_tokens\": 40}'); 0", nil)
				},
				func() error { return t.run(chromedp.Reload()) },
				func() error { return t.said("What is weir?") }, look("chat"),
				t.bothPanels, look("chat-panels"),
				func() error { return t.view("feedback") }, func() error { return t.shows("40 records") }, look("feedback"),
				func() error { return t.view("trajectories") }, func() error { return t.click("agent") },
				func() error { return t.until("document.querySelectorAll('.uplot canvas').length === 2") }, look("trajectories"),
				func() error { return t.view("live") }, func() error { return t.until("document.querySelectorAll('.uplot canvas').length === 4") }, look("live"),
				func() error { return t.view("bench") }, func() error { return t.shows("There are none yet.") }, look("bench"),
			)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// bothPanels shows the conversations and the settings, where the screen is too narrow to show them always.
func (t *tab) bothPanels() error {
	return t.eval("for (const b of document.querySelectorAll('.bar [aria-expanded=false]')) b.click(); 0", nil)
}
