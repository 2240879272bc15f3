package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// router is a program in front of several servers.
type router struct {
	name, program string
	policies      []string // the first knows what is cached
	args          func(o *options, policy string, port, metrics int, urls []string) ([]string, error)
}

var routers = []*router{
	{name: "vllm-router", program: "vllm-router", policies: []string{"cache_aware", "random"}, args: func(_ *options, policy string, port, metrics int, urls []string) ([]string, error) {
		return append([]string{"--worker-urls"}, append(urls, rust(policy, port, metrics)...)...), nil
	}},
	{name: "smg", program: "smg", policies: []string{"cache_aware", "random"}, args: func(_ *options, policy string, port, metrics int, urls []string) ([]string, error) {
		return append([]string{"launch", "--worker-urls"}, append(urls, rust(policy, port, metrics)...)...), nil
	}},
	{name: "litellm", program: "litellm", policies: []string{"simple-shuffle"}, args: litellm},
}

// rust are the flags that the two routers have in common, which have one origin.
func rust(policy string, port, metrics int) []string {
	return []string{
		"--host", "127.0.0.1", "--port", strconv.Itoa(port), "--policy", policy, "--prometheus-host", "127.0.0.1", "--prometheus-port", strconv.Itoa(metrics),
		"--health-check-endpoint", "/ready", "--health-check-interval-secs", "1", "--health-failure-threshold", "1", "--health-success-threshold", "1", "--log-level", "error",
		"--cb-timeout-duration-secs", "1", // or a process that was killed is left out for a minute after it is back
	}
}

// litellm writes the file of LiteLLM's proxy.
func litellm(o *options, policy string, port, _ int, urls []string) ([]string, error) {
	var b strings.Builder
	b.WriteString("model_list:\n")
	for _, url := range urls {
		fmt.Fprintf(&b, "  - model_name: weir-tiny\n    litellm_params: {model: hosted_vllm/weir-tiny, api_base: \"%s/v1\", api_key: none}\n", url)
	}
	fmt.Fprintf(&b, "router_settings: {routing_strategy: %s, num_retries: 3, retry_after: 0, allowed_fails: 1, cooldown_time: 2}\n", policy)
	// It does not start without a key otherwise; it listens on this machine alone.
	b.WriteString("general_settings: {dangerously_permit_weak_or_unset_master_key: true}\n")
	file := filepath.Join(o.dir, fmt.Sprintf("litellm-%d.yaml", port))
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		return nil, err
	}
	return []string{"--config", file, "--host", "127.0.0.1", "--port", strconv.Itoa(port)}, nil
}

// folder is the environment of a router.
func (r *router) folder(o *options) string { return filepath.Join(o.venvs, r.name) }

// install makes the environment of a router once for each version.
func (r *router) install(o *options) error {
	pins, err := os.ReadFile("tools/routers/pins.txt")
	if err != nil {
		return err
	}
	pin := ""
	for line := range strings.Lines(string(pins)) {
		if name, _, _ := strings.Cut(line, "=="); name == r.name || strings.HasPrefix(name, r.name+"[") {
			pin = strings.TrimSpace(line)
		}
	}
	if pin == "" {
		return fmt.Errorf("tools/routers/pins.txt has no %s", r.name)
	}
	mark := filepath.Join(r.folder(o), "pin")
	if have, err := os.ReadFile(mark); err == nil && string(have) == pin {
		return nil
	}
	fmt.Fprintln(os.Stderr, "installing", pin)
	for _, command := range [][]string{
		{o.python, "-m", "venv", "--clear", r.folder(o)},
		{filepath.Join(r.folder(o), "bin", "pip"), "install", "-q", "--disable-pip-version-check", "--only-binary", ":all:", pin},
	} {
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s: %w", pin, err)
		}
	}
	return os.WriteFile(mark, []byte(pin), 0o600)
}
