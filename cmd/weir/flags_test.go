package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestFlagSources: the command line wins over the environment, which wins over the
// file, which wins over the default.
func TestFlagSources(t *testing.T) {
	file := filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(file, []byte("port: 1\nmax-num-seqs: 2\nblock_size: 32\napi-key: [x, y]\nenable-prefix-caching: false\nkv-cache-memory: 3GiB\ndtype: float16\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"WEIR_MAX_NUM_SEQS": "3", "WEIR_PORT": "3", "WEIR_ALLOW_CREDENTIALS": "true", "WEIR_CONFIG": ""}
	o := &serveOptions{}
	if _, _, err := parseFlags(t, func(f *flagSet) { o.bind(f, noEnv) }, func(k string) string { return env[k] }, "--port", "4", "--config", file, "--no-allow-credentials"); err != nil {
		t.Fatal(err)
	}
	e := &o.engine
	got := fmt.Sprintln(o.listen.port, e.maxSeqs, e.blockSize, o.access.keys, e.caching, e.kvMemory.String(), e.dtype, o.access.cors.Credentials, e.maxTokens)
	if want := "4 3 32 [x y] false 3GiB float16 false 0\n"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for name, c := range map[string]struct {
		yaml string
		env  map[string]string
		want string
	}{
		"an unknown key":         {yaml: "prot: 1", want: "no flag --prot"},
		"a bad value":            {yaml: "port: many", want: "many"},
		"no mapping":             {yaml: "- a", want: "mapping"},
		"a bad environment":      {env: map[string]string{"WEIR_PORT": "many"}, want: "WEIR_PORT"},
		"config inside a config": {yaml: "config: x", want: "no flag"},
	} {
		if err := os.WriteFile(file, []byte(c.yaml), 0o600); err != nil {
			t.Fatal(err)
		}
		_, _, err := parseFlags(t, new(listenOptions).bind, func(k string) string { return c.env[k] }, "--config", file)
		if err == nil || !isUsageError(err) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSettle: development mode can be set by a flag and by two variables, of which the
// flag wins. No secret is among the settings that /server_info shows.
func TestSettle(t *testing.T) {
	for _, c := range []struct {
		args []string
		env  string
		want bool
	}{{nil, "", false}, {[]string{"--dev-mode"}, "", true}, {nil, "WEIR_DEV", true}, {nil, "VLLM_SERVER_DEV_MODE", true}, {nil, "WEIR_DEV_MODE", true}, {[]string{"--dev-mode=false"}, "WEIR_DEV", false}, {[]string{"--no-dev-mode"}, "VLLM_SERVER_DEV_MODE", false}} {
		env := func(name string) string {
			if name == c.env {
				return "1"
			}
			return ""
		}
		o := &serveOptions{}
		f, _, err := parseFlags(t, func(f *flagSet) { o.bind(f, env) }, env, append([]string{"--api-key", "secret"}, c.args...)...)
		if err != nil {
			t.Fatal(err)
		}
		if err := o.settle(f, env); err != nil {
			t.Fatal(err)
		}
		if o.api.functions.Dev != c.want {
			t.Errorf("%v, %s: %v", c.args, c.env, o.api.functions.Dev)
		}
		if _, there := o.settings["api-key"]; there || o.settings["port"] != "8000" || o.settings["max-body-size"] != "32MiB" {
			t.Errorf("%v", o.settings)
		}
		for name, value := range o.settings {
			if strings.Contains(value, "secret") {
				t.Errorf("%s is %s", name, value)
			}
		}
	}
}

func TestSize(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "1024": 1024, "512M": 512 << 20, "4GiB": 4 << 30, "0.5g": 1 << 29, " 2 kb ": 2048, "1T": 1 << 40} {
		var s size
		if err := s.Set(text); err != nil || int64(s) != want {
			t.Errorf("%q: %d, %v", text, s, err)
		}
	}
	for _, text := range []string{"", "-1", "many", "1X", "1e30", "NaN", "GiB"} {
		var s size
		if err := s.Set(text); err == nil {
			t.Errorf("%q is %d", text, s)
		}
	}
}

// TestDeviceFlag: which texts name a device, and which do not.
func TestDeviceFlag(t *testing.T) {
	for name, ok := range map[string]bool{"auto": true, "cpu": true, "sim": true, "cuda": true, "cuda:0": true, "cuda:12": true,
		"": false, "gpu": false, "cuda:": false, "cuda:-1": false, "cuda:x": false, "cuda0": false} {
		d := device("auto")
		if err := d.Set(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestAllowedOrigins: lists in all their forms reach the server, and what no request can
// have is refused.
func TestAllowedOrigins(t *testing.T) {
	for _, c := range []struct {
		args           []string
		origins, hosts []string
	}{
		{nil, nil, nil},
		{[]string{"--allowed-origins", `["*"]`}, []string{"*"}, nil},
		{[]string{"--allowed-origins", `[]`}, []string{}, nil},
		{[]string{"--allowed-origins", ""}, []string{}, nil},
		{[]string{"--allowed-origins", "https://a.example, http://b.example:*", "--allowed-origins", `["null"]`}, []string{"https://a.example", "http://b.example:*", "null"}, nil},
		{[]string{"--allowed-hosts", "a.example,*.b.example", "--allowed-hosts", "::1"}, nil, []string{"a.example", "*.b.example", "::1"}},
	} {
		o, _ := parseServe(t, c.args...)
		s := o.serverConfig(nil)
		if got := s.CORS.Origins; !slices.Equal(got, c.origins) || (got == nil) != (c.origins == nil) || !slices.Equal(s.AllowedHosts, c.hosts) || !slices.Equal(s.CORS.Methods, []string{"*"}) {
			t.Errorf("%q: origins %#v, hosts %q", c.args, got, s.AllowedHosts)
		}
	}
	for _, args := range [][]string{
		{"--allowed-origins", "chat.example"}, {"--allowed-origins", "https://chat.example/"}, {"--allowed-origins", "https://*.*"}, {"--allowed-origins", "https://a,"},
		{"--allowed-origins", `["*"`}, {"--allowed-origins", `[1]`}, {"--allowed-hosts", "chat.example:80"}, {"--allowed-hosts", "http://chat.example"}, {"--allowed-hosts", "a,"},
	} {
		o := &serveOptions{}
		f, _, err := parseFlags(t, func(f *flagSet) { o.bind(f, noEnv) }, noEnv, args...)
		if err == nil {
			err = o.settle(f, noEnv)
		}
		if _, usage := err.(usageError); !usage {
			t.Errorf("%q: %v", args, err)
		}
	}
}
