package main

import (
	"fmt"
	"math"
	"strings"
)

// furnish stores feedback and rollouts that look like those of somebody who works with weir.
func furnish(srv *server) error {
	notes := []string{"Names the right river, but not the year.", "Exactly what I asked for.", "The second step is wrong: 7 times 8 is 56.", "Too long. Two sentences would do.", "Good, and the table helps.", "It repeats the question."}
	emoji := []string{"👍", "👍", "👎", "👍", "🎉", "🤔", "👍"}
	var b strings.Builder
	for i := range 40 {
		kind, payload := "wandb.reaction.1", fmt.Sprintf(`{"emoji": %q}`, emoji[i%len(emoji)])
		if i%3 == 2 {
			kind, payload = "wandb.note.1", fmt.Sprintf(`{"note": %q}`, notes[i/3%len(notes)])
		}
		fmt.Fprintf(&b, `, {"project_id": "local/chat", "trace_ref": "weir:///local/chat/call/chatcmpl-%06x", "feedback_type": %q, "payload": %s, "creator": %q}`, 7919*(i+300), kind, payload, []string{"ada", "grace", "edsger"}[i%3])
	}
	if _, err := srv.post("/feedback/batch/create", `{"batch": [`+b.String()[2:]+`]}`); err != nil {
		return err
	}
	questions := []string{"What is the capital of France?", "What is 7 times 8?"}
	answers := [][]string{{"Paris.", "It is Paris, on the Seine.", "Lyon."}, {"56.", "7 times 8 is 56.", "54."}}
	for v := range 12 {
		for _, split := range []string{"train", "val"} {
			var groups []string
			for q := range questions {
				var rollouts []string
				for a, answer := range answers[q] {
					reward := math.Round(100*(1-0.45*float64(a)-0.5*math.Exp(-float64(v)/4)+0.03*float64((7*v+3*a+q)%5))) / 100
					rollouts = append(rollouts, fmt.Sprintf(`{"messages_and_choices": [{"role": "system", "content": "Answer in one sentence."}, {"role": "user", "content": %q}, {"finish_reason": "stop", "index": 0, "message": {"role": "assistant", "content": %q}}], "reward": %v, "metrics": {"turns": 1, "correct": %d}, "metadata": {"question": %d}, "logs": [], "initial_policy_version": %d, "final_policy_version": %[6]d}`,
						questions[q], answer, reward, 1-a/2, q, v))
				}
				groups = append(groups, fmt.Sprintf(`{"trajectories": [%s]}`, strings.Join(rollouts, ", ")))
			}
			if _, err := srv.post("/v1/preview/models/agent/log", fmt.Sprintf(`{"split": %q, "step": %d, "trajectory_groups": [%s]}`, split, v, strings.Join(groups, ", "))); err != nil {
				return err
			}
		}
	}
	return nil
}
