package main

import "testing"

// TestFeedbackRules: which rules are read, and which is the first to match a project.
func TestFeedbackRules(t *testing.T) {
	for _, bad := range []string{"acme/x", "acme=5", "acme/x=0", "acme/x=y"} {
		if _, err := parseFeedbackRules([]string{bad}); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
	rules, err := parseFeedbackRules([]string{"acme/x=5", "acme/*=6", "*=7"})
	if err != nil {
		t.Fatal(err)
	}
	for project, want := range map[string]int{"acme/x": 5, "acme/y": 6, "lab/x": 7} {
		for _, r := range rules {
			if r.covers(project) {
				if r.days != want {
					t.Errorf("%s: %d days, want %d", project, r.days, want)
				}
				break
			}
		}
	}
}

// TestTrajectoryRules: the same for models and splits.
func TestTrajectoryRules(t *testing.T) {
	for _, bad := range []string{"agent", "=5", ":x=5", "agent:=5", "agent=0", "agent=y"} {
		if _, err := parseTrajectoryRules([]string{bad}); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
	rules, err := parseTrajectoryRules([]string{"acme:x/agent:val=5", "acme*:train=6", "acme*=7"})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[[2]string]int{{"acme:x/agent", "val"}: 5, {"acme:x/agent", "train"}: 6, {"acme", "recorded"}: 7, {"other", "val"}: 0} {
		got := 0
		for _, r := range rules {
			if r.covers(name[:1], name[1]) {
				got = r.days
				break
			}
		}
		if got != want {
			t.Errorf("%v: %d days, want %d", name, got, want)
		}
	}
}
