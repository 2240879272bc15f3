package benchapi_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/auth"
	"weir/server"
	"weir/server/benchapi"
	"weir/server/servertest"
)

// TestMain is also the program that runs start: it writes a report with its arguments and its environment.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "-measure" {
		measure(os.Args[2:])
	}
	servertest.Main(m)
}

func measure(args []string) {
	value := func(flag string) string { return args[slices.Index(args, flag)+1] }
	switch value("--random-output-len") {
	case "13": // fails
		fmt.Fprintln(os.Stderr, "it went wrong")
		os.Exit(1)
	case "14": // never ends
		<-time.After(time.Hour)
	}
	report, err := json.Marshal(map[string]any{"args": strings.Join(args, " "), "env": os.Environ()})
	if err == nil {
		err = os.WriteFile(value("--result-filename"), report, 0o600)
	}
	if err != nil {
		panic(err)
	}
	os.Exit(0)
}

type object = map[string]any

func newServer(t *testing.T, dir string, change func(*servertest.Setup)) *servertest.Server {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return servertest.New(t, func(s *servertest.Setup) {
		s.Config.Bench = &server.Bench{Command: []string{program, "-measure"}, URL: func() string { return "http://127.0.0.1:1" }, Dir: dir}
		if change != nil {
			change(s)
		}
	})
}

// get sends a request whose answer is an object, with a status.
func get(t *testing.T, h *servertest.Server, want int, method, path, body string, headers ...string) object {
	t.Helper()
	status, answer, _ := h.Get(method, path, body, headers...)
	var o object
	if err := json.Unmarshal([]byte(answer), &o); status != want || err != nil {
		t.Fatalf("%s %s: %d, want %d: %s", method, path, status, want, answer)
	}
	return o
}

// ended starts a run and waits for its end.
func ended(t *testing.T, h *servertest.Server, body string, headers ...string) object {
	t.Helper()
	o := get(t, h, 200, "POST", benchapi.Path, body, headers...)
	if o["status"] != "running" || len(o["points"].([]any)) != 0 || o["ended_at"] != nil {
		t.Errorf("%v", o)
	}
	servertest.WaitFor(t, "the end of the run", func() bool {
		o = get(t, h, 200, "GET", benchapi.Path+"/"+o["id"].(string), "", headers...)
		return o["status"] != "running"
	})
	return o
}

// docs/interface/bench.md, N-1, N-3 and N-5: each point is a process with its numbers, and with the key of the run in its
// environment alone.
func TestN1Run(t *testing.T) {
	t.Parallel()
	h := newServer(t, "", func(s *servertest.Setup) { s.Config.APIKeys = []string{"secret"} })
	key := "Authorization: Bearer secret"
	o := ended(t, h, `{"name":"--help; $(reboot)","concurrencies":[1,40],"requests":20,"input_tokens":7,"output_tokens":9,"seed":5}`, key)
	points := o["points"].([]any)
	if o["status"] != "completed" || o["name"] != "--help; $(reboot)" || len(points) != 2 || o["current"] != nil || o["ended_at"] == nil || o["error"] != nil {
		t.Fatalf("%v", o)
	}
	for i, want := range []string{"--max-concurrency 1 --num-prompts 20 --random-input-len 7 --random-output-len 9 --seed 5", "--max-concurrency 40 --num-prompts 40 --random-input-len 7 --random-output-len 9 --seed 6"} {
		p := points[i].(object)["result"].(object)
		args := p["args"].(string)
		if !strings.HasPrefix(args, "bench serve --insecure --base-url http://127.0.0.1:1 ") || !strings.Contains(args, want) || strings.Contains(args, "secret") || strings.Contains(args, "reboot") {
			t.Errorf("%s", args)
		}
		if env := fmt.Sprint(p["env"]); !strings.Contains(env, "OPENAI_API_KEY=secret") || strings.Count(env, "=") > 4 {
			t.Errorf("%s", env)
		}
	}
	list := get(t, h, 200, "GET", benchapi.Path, "", key)["data"].([]any)
	if len(list) != 1 || list[0].(object)["id"] != o["id"] || len(list[0].(object)["points"].([]any)) != 0 {
		t.Errorf("%v", list)
	}
}

// docs/interface/bench.md, N-2: nothing out of range is started.
func TestN2Refused(t *testing.T) {
	t.Parallel()
	h := newServer(t, "", nil)
	for body, param := range map[string]string{
		`[]`: "", `{`: "", `{"name":1}`: "name", `{"name":"` + strings.Repeat("x", 101) + `"}`: "name", `{"concurrencies":[]}`: "concurrencies", `{"concurrencies":[0]}`: "concurrencies", `{"concurrencies":[513]}`: "concurrencies",
		`{"concurrencies":["1; ls"]}`: "concurrencies", `{"concurrencies":[1.5]}`: "concurrencies", `{"concurrencies":[1,1,1,1,1,1,1,1,1,1,1,1,1]}`: "concurrencies", `{"requests":0}`: "requests", `{"requests":2001}`: "requests", `{"requests":"7"}`: "requests",
		`{"input_tokens":1e9}`: "input_tokens", `{"output_tokens":-1}`: "output_tokens", `{"max_seconds":1801}`: "max_seconds", `{"seed":-1}`: "seed",
	} {
		status, answer, _ := h.Get("POST", benchapi.Path, body)
		servertest.Refused(t, status, answer, 400, param)
	}
	if n := len(get(t, h, 200, "GET", benchapi.Path, "")["data"].([]any)); n != 0 {
		t.Errorf("%d runs", n)
	}
	o := get(t, h, 200, "POST", benchapi.Path, `{"output_tokens":14}`)
	get(t, h, 409, "POST", benchapi.Path, `{}`)
	get(t, h, 409, "DELETE", benchapi.Path+"/"+o["id"].(string), "")
	without := servertest.New(t, func(s *servertest.Setup) {
		s.Config.Bench = &server.Bench{Command: []string{"x"}, URL: func() string { return "" }}
	})
	get(t, without, 409, "POST", benchapi.Path, `{}`)
	none := servertest.New(t, nil)
	if status, _, _ := none.Get("GET", benchapi.Path, ""); status != 404 {
		t.Errorf("without the flag: %d", status)
	}
	// The process of the first run ends with its server: nothing is left when the test ends.
}

// docs/interface/bench.md, N-3 and N-6: runs are there after a restart, and can be deleted.
func TestN3Kept(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "bench")
	h := newServer(t, dir, nil)
	one := ended(t, h, `{"concurrencies":[3]}`)
	h.Stop()
	if err := os.WriteFile(filepath.Join(dir, "bench_x.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	h = newServer(t, dir, nil)
	id := one["id"].(string)
	if again := get(t, h, 200, "GET", benchapi.Path+"/"+id, ""); fmt.Sprint(again) != fmt.Sprint(one) {
		t.Errorf("%v, want %v", again, one)
	}
	get(t, h, 200, "DELETE", benchapi.Path+"/"+id, "")
	get(t, h, 404, "GET", benchapi.Path+"/"+id, "")
	get(t, h, 404, "DELETE", benchapi.Path+"/"+id, "")
	get(t, h, 404, "POST", benchapi.Path+"/..%2F"+id+"/cancel", "")
	if _, err := os.Stat(filepath.Join(dir, id+".json")); err == nil {
		t.Error("the file of a run that was deleted is there")
	}
}

// docs/interface/bench.md, N-4: a run is cancelled.
func TestN4Cancel(t *testing.T) {
	t.Parallel()
	h := newServer(t, "", nil)
	o := get(t, h, 200, "POST", benchapi.Path, `{"output_tokens":14}`)
	path := benchapi.Path + "/" + o["id"].(string)
	servertest.WaitFor(t, "the process", func() bool { return get(t, h, 200, "GET", path, "")["current"] != nil })
	get(t, h, 200, "POST", path+"/cancel", "")
	servertest.WaitFor(t, "the end", func() bool { return get(t, h, 200, "GET", path, "")["status"] == "cancelled" })
	get(t, h, 409, "POST", path+"/cancel", "")
	ended(t, h, `{"concurrencies":[1]}`) // there is room for another one
}

// docs/interface/bench.md, N-4: a process that fails says why, and a run that takes too long is ended.
func TestN4Failed(t *testing.T) {
	t.Parallel()
	h := newServer(t, "", nil)
	if o := ended(t, h, `{"output_tokens":13}`); o["status"] != "failed" || o["error"] != "it went wrong" {
		t.Errorf("%v", o)
	}
	if o := ended(t, h, `{"output_tokens":14,"max_seconds":1}`); o["status"] != "failed" || o["error"] != "The run took longer than 1 seconds." {
		t.Errorf("%v", o)
	}
}

// docs/interface/bench.md, N-5: only those who administer everything.
func TestN5Rights(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "keys.yaml")
	text := fmt.Sprintf("keys:\n  - {id: a, hash: %q}\n  - {id: lead, hash: %q, projects: [\"acme/*\"], rights: [admin]}\n  - {id: chief, hash: %q, rights: [admin]}\n",
		servertest.KeyHash("a"), servertest.KeyHash("lead"), servertest.KeyHash("chief"))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ring, err := auth.New(nil, file)
	if err != nil {
		t.Fatal(err)
	}
	h := newServer(t, "", func(s *servertest.Setup) { s.Config.Keys = ring })
	for key, want := range map[string]int{"a": 403, "lead": 403, "chief": 200, "none": 401} {
		for _, c := range [][2]string{{"GET", benchapi.Path}, {"POST", benchapi.Path}} {
			status, answer, _ := h.Get(c[0], c[1], `{"concurrencies":[1]}`, "Authorization: Bearer "+key)
			if status != want {
				t.Errorf("%s %s with %s: %d %s", c[0], c[1], key, status, answer)
			}
		}
	}
}

// docs/interface/bench.md, N-6: the newest hundred runs are kept.
func TestN6Many(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i := range 105 {
		text := fmt.Sprintf(`{"id":"bench_%03d","object":"bench.run","status":"completed","created_at":%d,"points":[]}`, i, i)
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("bench_%03d.json", i)), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h := newServer(t, dir, nil)
	list := get(t, h, 200, "GET", benchapi.Path, "")["data"].([]any)
	if len(list) != 100 || list[0].(object)["id"] != "bench_104" || list[99].(object)["id"] != "bench_005" {
		t.Errorf("%d runs, %v", len(list), list[0])
	}
	if names, _ := filepath.Glob(filepath.Join(dir, "*")); len(names) != 100 {
		t.Errorf("%d files", len(names))
	}
}
