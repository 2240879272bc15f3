package main

import (
	"fmt"
	"strings"

	"github.com/chromedp/chromedp"
)

const attack = "<img src=x onerror=alert(1)>"

// feedbackView shows 5,000 records, some of which are attacks, and filters them.
func feedbackView(s *suite) error {
	before := func(srv *server) error {
		for batch := range 50 {
			var b strings.Builder
			b.WriteString(`{"batch": [`)
			for i := range 100 {
				if i > 0 {
					b.WriteByte(',')
				}
				fmt.Fprintf(&b, `{"project_id": "local/chat", "trace_ref": "weir:///local/chat/call/c%d", "feedback_type": "wandb.note.1", "payload": {"note": "%s %d"}}`, batch*100+i, attack, batch*100+i)
			}
			b.WriteString(`]}`)
			if _, err := srv.post("/feedback/batch/create", b.String()); err != nil {
				return err
			}
		}
		return nil
	}
	return s.with(options{before: before}, func(_ *server, t *tab) error {
		return steps(
			func() error { return t.view("feedback") },
			func() error { return t.shows("5,000 records") },
			func() error {
				return t.until("document.querySelectorAll('tbody tr').length === 100 && !document.querySelector('tbody img')")
			},
			func() error { return t.click("Older") },
			func() error { return t.shows("101 to 200") },
			func() error { return s.seen(t, "feedback") },
			func() error {
				return t.eval("[...document.querySelectorAll('input[type=search]')].at(-1).focus(); 0", nil)
			},
			func() error { return t.run(chromedp.KeyEvent("call/c4999")) },
			func() error { return t.shows("1 records") },
		)
	})
}

// trajectoryViews shows a model with groups over policy versions, and two rollouts beside each other.
func trajectoryViews(s *suite) error {
	before := func(srv *server) error {
		for v := range 12 {
			one := func(reward float64, answer string) string {
				return fmt.Sprintf(`{"messages_and_choices": [{"role": "user", "content": "What is the capital of France?"}, {"finish_reason": "stop", "index": 0, "message": {"role": "assistant", "content": %q}}], "reward": %v, "metrics": {"turns": 1}, "metadata": {}, "logs": [], "initial_policy_version": %d, "final_policy_version": %[3]d}`, answer, reward, v)
			}
			for _, split := range []string{"train", "val"} {
				body := fmt.Sprintf(`{"split": %q, "step": %d, "trajectory_groups": [{"trajectories": [%s, %s]}]}`, split, v, one(float64(v)/12, "Paris."), one(0.1, attack))
				if _, err := srv.post("/v1/preview/models/agent/log", body); err != nil {
					return err
				}
			}
		}
		return nil
	}
	return s.with(options{key: "k", before: before}, func(_ *server, t *tab) error {
		t.expect("401")
		return steps(
			func() error { return t.fill("dialog input", "k") },
			func() error { return t.click("Use") },
			func() error { return t.view("trajectories") },
			func() error { return t.click("agent") },
			func() error {
				return t.until("document.querySelectorAll('.uplot canvas').length === 2 && document.querySelectorAll('tbody input').length === 48")
			},
			func() error { return s.seen(t, "trajectories") },
			func() error {
				return t.eval("document.querySelectorAll('tbody input')[0].click(); document.querySelectorAll('tbody input')[1].click(); 0", nil)
			},
			func() error { return t.click("Compare the two that are marked") },
			func() error {
				return t.until("document.querySelectorAll('section[aria-label^=Rollout]').length === 2 && !document.querySelector('article img')")
			},
			func() error { return s.seen(t, "rollouts") },
		)
	})
}
