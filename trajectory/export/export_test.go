package export

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"weir/store"
	"weir/trajectory"
	"weir/trajectory/archive"
)

// shelf is an archive with something in it.
func shelf(t testing.TB, bodies ...string) *archive.Archive {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	cfg := store.DefaultConfig(t.TempDir())
	cfg.Log = log
	db, err := store.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	a, err := archive.New(db, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		a.Close()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range 10_000 {
		if a.Err() == nil {
			break
		}
		<-tick.C
	}
	for _, body := range bodies {
		u, err := a.Begin(context.Background(), "t", "a/m")
		if err != nil {
			t.Fatal(err)
		}
		e, err := trajectory.Read(strings.NewReader(body), trajectory.DefaultLimits(), u)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := u.Commit(archive.Meta{Split: e.Split, Step: e.Step, Bytes: e.Bytes}); err != nil {
			t.Fatal(err)
		}
	}
	return a
}

func export(t testing.TB, a *archive.Archive, f *archive.Filter, o Options) string {
	t.Helper()
	var b bytes.Buffer
	if o.TempDir == "" {
		o.TempDir = t.TempDir()
	}
	if err := a.View("t", func(v *archive.View) error { return Write(&b, v, "a/m", f, o) }); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(o.TempDir, "*")); len(left) > 0 {
		t.Errorf("left over: %q", left)
	}
	return b.String()
}

const (
	choice1 = `{"finish_reason":"length","index":0,"logprobs":{"content":[{"token":"a"}]},"message":{"role":"assistant","content":"up","refusal":null,"tool_calls":[{"id":"c1"}]},"token_ids":[1]}`
	rollout = `{"messages_and_choices":[{"role":"system","content":"You play."},{"role":"user","content":[{"type":"text","text":"bo"},{"type":"text","text":"ard"}]},` + choice1 +
		`,{"role":"tool","content":"ok","tool_call_id":"c1"},{"finish_reason":"stop","message":{"role":"assistant","content":"done \ud83d"}}],"tools":[{"type":"function"}],"reward":1.50,"final_policy_version":7,` +
		`"metrics":{"turns":2,"won":true,"score":9},"metadata":{"answer":{"a":1.0},"scenario":"s"},"logs":["l"],"start_time":"2026-03-04T09:15:27.5Z"}`
	plain = `{"messages_and_choices":[{"role":"user","content":"q"},{"finish_reason":"stop","message":{"role":"assistant","content":null}}],"reward":0.5}`
	first = `{"split":"train","step":3,"trajectory_groups":[{"trajectories":[` + rollout + `,` + plain + `],"exceptions":[{"type":"e"}],"metadata":{"id":1.0},"metrics":{"judge":0.5},"logs":["g",5]},{"exceptions":[{}]}]}`
	other = `{"split":"../val","trajectory_groups":[{"trajectories":[{},{"reward":2,"exchanges":{"chat_completions":[{}]},"initial_policy_version":4}]}]}`
)

func objects(t *testing.T, text string) (list []map[string]any) {
	t.Helper()
	if text != "" && !strings.HasSuffix(text, "\n") {
		t.Error("the last line is not complete")
	}
	for line := range strings.Lines(text) {
		d := json.NewDecoder(strings.NewReader(line))
		var m map[string]any
		if err := d.Decode(&m); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		list = append(list, m)
	}
	return list
}

func same(t *testing.T, what string, got any, want string) {
	t.Helper()
	var w any
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, w) {
		g, _ := json.Marshal(got)
		t.Errorf("%s: %s, want %s", what, g, want)
	}
}

func TestJSONL(t *testing.T) {
	a := shelf(t, first, other)
	text := export(t, a, &archive.Filter{}, Options{Format: JSONL})
	if n := strings.Count(text, "\n"); n != 4 {
		t.Errorf("%d lines", n)
	}
	// Byte for byte what was sent.
	for _, exact := range []string{`"trajectory":` + rollout + "}\n", `"trajectory":` + plain + "}\n", `,"group":{"exceptions":[{"type":"e"}],"metadata":{"id":1.0},"metrics":{"judge":0.5},"logs":["g",5]},"trajectory":`, `"trajectory":{}}` + "\n"} {
		if !strings.Contains(text, exact) {
			t.Errorf("%s is not in\n%s", exact, text)
		}
	}
	list := objects(t, text)
	for i, want := range []struct {
		group, index float64
		split        string
		step         any
	}{{0, 0, "train", 3.0}, {0, 1, "train", 3.0}, {0, 0, "../val", nil}, {0, 1, "../val", 4.0}} {
		m := list[i]
		if m["group_index"] != want.group || m["trajectory_index"] != want.index || m["split"] != want.split || m["step"] != want.step || m["model_id"] != "a/m" ||
			m["id"] != fmt.Sprintf("%s/%v/%v", m["log_id"], want.group, want.index) {
			t.Errorf("%d: %v", i, m)
		}
		if _, err := time.Parse(time.RFC3339Nano, m["received_at"].(string)); err != nil {
			t.Error(err)
		}
	}
	half := 0.5
	if text := export(t, a, &archive.Filter{MaxReward: &half, Splits: []string{"train"}}, Options{Format: JSONL}); strings.Count(text, "\n") != 1 || !strings.Contains(text, plain) {
		t.Errorf("%s", text)
	}
	if text := export(t, a, &archive.Filter{}, Options{Format: JSONL, DropLogprobs: true}); strings.Contains(text, "logprobs") || !strings.Contains(text, `"reward":1.50`) {
		t.Errorf("%s", text)
	}
	if text := export(t, a, &archive.Filter{Splits: []string{"none"}}, Options{Format: JSONL}); text != "" {
		t.Errorf("%s", text)
	}
}

// ART's JSONL: its reader wants all members of a trajectory.
func TestGroups(t *testing.T) {
	a := shelf(t, first, other)
	text := export(t, a, &archive.Filter{}, Options{Format: Groups})
	want := `{"trajectories":[` + rollout[:len(rollout)-1] + `,"additional_histories":[]},` +
		plain[:len(plain)-1] + `,"metrics":{},"metadata":{},"tools":null,"additional_histories":[],"logs":[]}],"exceptions":[{"type":"e"}],"metadata":{"id":1.0},"metrics":{"judge":0.5},"logs":["g",5]}
{"trajectories":[],"exceptions":[{}]}
{"trajectories":[{"messages_and_choices":[],"reward":0.0,"metrics":{},"metadata":{},"tools":null,"additional_histories":[],"logs":[]},{"reward":2,"exchanges":{"chat_completions":[{}]},"initial_policy_version":4,"messages_and_choices":[],"metrics":{},"metadata":{},"tools":null,"additional_histories":[],"logs":[]}]}
`
	if text != want {
		t.Errorf("%s, want\n%s", text, want)
	}
	objects(t, text)
}

func TestSamples(t *testing.T) {
	a := shelf(t, first)
	prompt := `[{"role":"system","content":"You play."},{"role":"user","content":[{"type":"text","text":"bo"},{"type":"text","text":"ard"}]}]`
	completion := `[{"role":"assistant","content":"up","refusal":null,"tool_calls":[{"id":"c1"}]},{"role":"tool","content":"ok","tool_call_id":"c1"},{"role":"assistant","content":"done \ud83d"}]`
	for form, want := range map[Format]string{
		Verl:      `{"input":"system: You play.\nuser: board\nassistant: up\ntool: ok","output":"done \ud83d","gts":{"a":1.0},"score":1.5,"step":3,"turns":2,"won":1}`,
		TRL:       `{"step":3,"prompt":` + prompt + `,"completion":` + completion + `,"reward":1.5,"advantage":ADV,"turns":2,"won":1,"score":9}`,
		Verifiers: `{"example_id":0,"prompt":` + prompt + `,"completion":` + completion + `,"answer":{"a":1.0},"reward":1.5,"metrics":{"turns":2,"won":true,"score":9},"info":{"answer":{"a":1.0},"scenario":"s"},"tool_defs":[{"type":"function"}],"is_truncated":true,"error":null,"turns":2,"won":1,"score":9}`,
		SFT:       `{"messages":[{"role":"system","content":"You play."},{"role":"user","content":[{"type":"text","text":"bo"},{"type":"text","text":"ard"}]},{"role":"assistant","content":"up","tool_calls":[{"id":"c1"}]},{"role":"tool","content":"ok","tool_call_id":"c1"},{"role":"assistant","content":"done \ud83d"}],"tools":[{"type":"function"}]}`,
	} {
		list := objects(t, export(t, a, &archive.Filter{}, Options{Format: form}))
		if len(list) != 2 {
			t.Fatalf("%s: %d lines", form, len(list))
		}
		if form == TRL {
			advantage := list[0]["advantage"].(float64)
			if math.Abs(advantage-0.5/(0.5+1e-4)) > 1e-12 || list[1]["advantage"].(float64) != -advantage {
				t.Errorf("advantages %v %v", advantage, list[1]["advantage"])
			}
			want = strings.Replace(want, "ADV", fmt.Sprint(advantage), 1)
		}
		same(t, string(form), list[0], want)
	}
	if text := export(t, a, &archive.Filter{}, Options{Format: SFT}); !strings.Contains(text, `"content":"done \ud83d"`) {
		t.Error("a lone surrogate is lost")
	}
	// A group of one has no advantage; nor has what has no choice a completion.
	a = shelf(t, `{"split":"s","trajectory_groups":[{"trajectories":[{"reward":3,"messages_and_choices":[{"role":"user","content":"x"}]}]}]}`)
	m := objects(t, export(t, a, &archive.Filter{}, Options{Format: TRL}))[0]
	same(t, "trl", m, `{"step":null,"prompt":[{"role":"user","content":"x"}],"completion":[],"reward":3,"advantage":0}`)
	m = objects(t, export(t, a, &archive.Filter{}, Options{Format: Verl}))[0]
	same(t, "verl", m, `{"input":"user: x","output":"","gts":null,"score":3,"step":null}`)
}

// The columns of ART's Parquet files, with their physical and logical types.
func TestColumns(t *testing.T) {
	file := open(t, export(t, shelf(t, first, other), &archive.Filter{}, Options{Format: Parquet}))
	want := []string{
		"format_version INT32 INT(16,true)", "group_index INT64 INT(64,true)", "trajectory_index INT64 INT(64,true)", "group_json BYTE_ARRAY STRING", "trajectory_json BYTE_ARRAY STRING",
		"group_metadata BYTE_ARRAY STRING", "group_metrics BYTE_ARRAY STRING", "group_logs.list.element BYTE_ARRAY STRING", "reward DOUBLE", "metrics BYTE_ARRAY STRING", "metadata BYTE_ARRAY STRING", "tools BYTE_ARRAY STRING",
		"logs.list.element BYTE_ARRAY STRING", "messages.list.element.role BYTE_ARRAY STRING", "messages.list.element.content BYTE_ARRAY STRING", "messages.list.element.tool_calls BYTE_ARRAY STRING",
		"messages.list.element.tool_call_id BYTE_ARRAY STRING", "messages.list.element.trainable BOOLEAN",
		"id BYTE_ARRAY STRING", "log_id BYTE_ARRAY STRING", "model_id BYTE_ARRAY STRING", "split BYTE_ARRAY STRING", "step INT64 INT(64,true)",
		"received_at INT64 TIMESTAMP(isAdjustedToUTC=true,unit=MILLIS)", "start_time INT64 TIMESTAMP(isAdjustedToUTC=true,unit=MICROS)", "initial_policy_version INT64 INT(64,true)", "final_policy_version INT64 INT(64,true)",
	}
	var got []string
	for _, path := range file.Schema().Columns() {
		leaf, _ := file.Schema().Lookup(path...)
		s := strings.Join(path, ".") + " " + leaf.Node.Type().Kind().String()
		if l := leaf.Node.Type().LogicalType(); l != nil {
			s += " " + l.String()
		}
		got = append(got, s)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if v, _ := file.Lookup(versionKey); v != "2" {
		t.Errorf("%s is %q", versionKey, v)
	}
	for _, g := range file.Metadata().RowGroups {
		for _, c := range g.Columns {
			if c.MetaData.Codec.String() != "ZSTD" {
				t.Errorf("%v: %v", c.MetaData.PathInSchema, c.MetaData.Codec)
			}
		}
	}
}

func open(t *testing.T, data string) *parquet.File {
	t.Helper()
	f, err := parquet.OpenFile(strings.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func rows[T any](t *testing.T, data string) []T {
	t.Helper()
	list, err := parquet.Read[T](strings.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// rebuild does what ART's reader does: indexes without gaps, equal group texts,
// one row for a group without trajectories (checklist 25).
func rebuild(t *testing.T, list []artRow) (groups []string) {
	t.Helper()
	for i := 0; i < len(list); {
		r := list[i]
		if r.FormatVersion != 2 || r.GroupIndex != int64(len(groups)) {
			t.Fatalf("row %d: version %d, group %d", i, r.FormatVersion, r.GroupIndex)
		}
		text := r.GroupJSON + ":"
		if r.TrajectoryIndex == nil {
			if r.TrajectoryJSON != nil || r.Reward != nil || r.Messages != nil {
				t.Errorf("row %d is no sentinel", i)
			}
			i++
		}
		for n := int64(0); i < len(list) && list[i].GroupIndex == r.GroupIndex; n++ {
			if list[i].TrajectoryIndex == nil || *list[i].TrajectoryIndex != n || list[i].GroupJSON != r.GroupJSON {
				t.Fatalf("row %d: %+v", i, list[i])
			}
			text += " " + *list[i].TrajectoryJSON
			i++
		}
		groups = append(groups, text)
	}
	return groups
}

func TestParquet(t *testing.T) {
	a := shelf(t, first, other)
	list := rows[row](t, export(t, a, &archive.Filter{}, Options{Format: Parquet}))
	art := make([]artRow, len(list))
	for i, r := range list {
		art[i] = artRow{FormatVersion: r.FormatVersion, GroupIndex: r.GroupIndex, TrajectoryIndex: r.TrajectoryIndex, GroupJSON: r.GroupJSON, TrajectoryJSON: r.TrajectoryJSON, Reward: r.Reward, Messages: r.Messages}
	}
	want := []string{
		`{"exceptions":[{"type":"e"}],"metadata":{"id":1.0},"metrics":{"judge":0.5},"logs":["g",5]}: ` + rollout + " " + plain,
		`{"exceptions":[{}]}:`,
		`{}: {} {"reward":2,"exchanges":{"chat_completions":[{}]},"initial_policy_version":4}`,
	}
	if got := rebuild(t, art); !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	r := list[0]
	if *r.Reward != 1.5 || *r.Metrics != `{"turns":2,"won":true,"score":9}` || *r.Metadata != `{"answer":{"a":1.0},"scenario":"s"}` || *r.Tools != `[{"type":"function"}]` || !reflect.DeepEqual(r.Logs, []string{"l"}) ||
		*r.GroupMetadata != `{"id":1.0}` || *r.GroupMetrics != `{"judge":0.5}` || !reflect.DeepEqual(r.GroupLogs, []string{"g", "5"}) {
		t.Errorf("%+v", r)
	}
	if r.Messages != nil {
		t.Errorf("content that is not text: messages %+v", r.Messages)
	}
	if *r.ID != r.LogID+"/0/0" || r.ModelID != "a/m" || r.Split != "train" || *r.Step != 3 || r.Initial != nil || *r.Final != 7 || !r.Start.Equal(time.Date(2026, 3, 4, 9, 15, 27, 5e8, time.UTC)) || time.Since(r.Received) > time.Minute {
		t.Errorf("%+v", r)
	}
	if r = list[1]; len(r.Messages) != 2 || *r.Messages[0].Role != "user" || *r.Messages[0].Content != "q" || *r.Messages[0].Trainable || r.Messages[1].Content != nil || !*r.Messages[1].Trainable ||
		r.Metrics != nil || r.Metadata != nil || r.Tools != nil || r.Logs != nil || r.Start != nil {
		t.Errorf("%+v", r)
	}
	if r = list[2]; r.ID != nil || r.GroupMetadata != nil || *r.Step != 3 {
		t.Errorf("%+v", r)
	}
	if r = list[3]; *r.Reward != 0 || r.Step != nil || r.Split != "../val" || r.Messages == nil || len(r.Messages) != 0 {
		t.Errorf("%+v", r)
	}
	if r = list[4]; r.Messages != nil || *r.Step != 4 || *r.Initial != 4 {
		t.Errorf("%+v", r)
	}
	// A selection has no gaps either.
	two := 1.0
	list = rows[row](t, export(t, a, &archive.Filter{MinReward: &two}, Options{Format: Parquet}))
	if len(list) != 2 || list[1].GroupIndex != 1 || *list[1].TrajectoryIndex != 0 || *list[1].ID != list[1].LogID+"/0/1" {
		t.Errorf("%+v", list)
	}
	if list := rows[row](t, export(t, a, &archive.Filter{Splits: []string{"none"}}, Options{Format: Parquet})); len(list) != 0 {
		t.Errorf("%+v", list)
	}
}

// More than one row group.
func TestRowGroups(t *testing.T) {
	text := func(i int) string { return fmt.Sprintf(`{"logs":["%d%s"]}`, i, strings.Repeat("x", 3<<20)) }
	var list []string
	for i := range 24 {
		list = append(list, text(i))
	}
	a := shelf(t, `{"split":"s","trajectory_groups":[{"trajectories":[`+strings.Join(list, ",")+`]}]}`)
	data := export(t, a, &archive.Filter{}, Options{Format: Parquet})
	if len(data) > 1<<20 {
		t.Errorf("%d bytes: not compressed", len(data))
	}
	if n := len(open(t, data).RowGroups()); n < 2 {
		t.Errorf("%d row groups", n)
	}
	for i, r := range rows[row](t, data) {
		if *r.TrajectoryJSON != text(i) {
			t.Errorf("row %d", i)
		}
	}
}

func TestART(t *testing.T) {
	a := shelf(t, first, other, strings.Replace(first, `"step":3,`, "", 1), first, `{"split":"train","step":12345,"trajectory_groups":[{}]}`)
	r := tar.NewReader(strings.NewReader(export(t, a, &archive.Filter{}, Options{Format: ART})))
	files := map[string]string{}
	var names []string
	for {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[h.Name] = string(data)
		names = append(names, h.Name)
	}
	const dir = "models/a%2Fm/trajectories/"
	// The step is the batch's, else that of the group's first trajectory that has one.
	if want := []string{dir + "%2E.%2Fval/0004.parquet", dir + "train/0003.parquet", dir + "train/0007.parquet", dir + "train/12345.parquet", dir + "train/unversioned.parquet"}; !reflect.DeepEqual(names, want) {
		t.Fatalf("%q, want %q", names, want)
	}
	group := `{"exceptions":[{"type":"e"}],"metadata":{"id":1.0},"metrics":{"judge":0.5},"logs":["g",5]}: ` + rollout + " " + plain
	for name, want := range map[string][]string{
		"train/0003.parquet":        {group, `{"exceptions":[{}]}:`, group, `{"exceptions":[{}]}:`},
		"train/0007.parquet":        {group},
		"train/unversioned.parquet": {`{"exceptions":[{}]}:`},
		"train/12345.parquet":       {`{}:`},
	} {
		if got := rebuild(t, rows[artRow](t, files[dir+name])); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
		if n := len(open(t, files[dir+name]).Schema().Columns()); n != 18 {
			t.Errorf("%s: %d columns", name, n)
		}
	}
}

func TestFileName(t *testing.T) {
	for in, want := range map[string]string{
		"train": "train", "../../x": "%2E.%2F..%2Fx", ".": "%2E", "..": "%2E.", "a/b": "a%2Fb", "🦊": "%F0%9F%A6%8A", "A-z_0.9": "A-z_0.9", "a b\x00%": "a%20b%00%25", "": "",
	} {
		if got := FileName(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// failing takes so many bytes.
type failing struct{ left int }

var errFull = errors.New("full")

func (f *failing) Write(p []byte) (int, error) {
	if len(p) > f.left {
		n := f.left
		f.left = 0
		return n, errFull
	}
	f.left -= len(p)
	return len(p), nil
}

// An error of the writer ends the export with it, at whatever byte: no export
// that is cut short looks complete.
func TestWriterFails(t *testing.T) {
	a := shelf(t, first, other)
	for _, form := range Formats() {
		whole := len(export(t, a, &archive.Filter{}, Options{Format: form}))
		for _, n := range []int{0, 1, whole / 2, whole - 1} {
			err := a.View("t", func(v *archive.View) error {
				return Write(&failing{n}, v, "a/m", &archive.Filter{}, Options{Format: form, TempDir: t.TempDir()})
			})
			if !errors.Is(err, errFull) {
				t.Errorf("%s, full after %d of %d bytes: %v", form, n, whole, err)
			}
		}
	}
	err := a.View("t", func(v *archive.View) error {
		return Write(io.Discard, v, "a/m", &archive.Filter{}, Options{Format: "csv"})
	})
	if !errors.Is(err, ErrFormat) {
		t.Error(err)
	}
	err = a.View("t", func(v *archive.View) error {
		return Write(io.Discard, v, "a/m", &archive.Filter{}, Options{Format: ART, TempDir: filepath.Join(os.DevNull, "no")})
	})
	if err == nil {
		t.Error("no spool, no error")
	}
}

// With WEIR_PARQUET_OUT set this leaves files for tools/parquet/check.py, which
// reads them with pyarrow and DuckDB (make parquet-check).
func TestFilesForOtherReaders(t *testing.T) {
	dir := os.Getenv("WEIR_PARQUET_OUT")
	if dir == "" {
		t.Skip("WEIR_PARQUET_OUT is not set")
	}
	a := shelf(t, first, other, strings.ReplaceAll(first, `"up"`, `"`+strings.Repeat("große Wörter ", 20_000)+`"`))
	var want [][2]any
	if err := a.View("t", func(v *archive.View) error {
		return v.Batches("a/m", archive.ID{}, false, func(b *archive.Batch) bool {
			c := v.Open(b)
			if err := c.Visit(&archive.Filter{}, archive.Visitor{
				Group: func(g *archive.GroupRow) error {
					text, err := c.GroupText(g)
					want = append(want, [2]any{string(text), []string{}})
					return err
				},
				Trajectory: func(r *archive.Row) error {
					text, err := c.Text(r)
					last := &want[len(want)-1]
					last[1] = append(last[1].([]string), string(text))
					return err
				},
			}); err != nil {
				t.Error(err)
			}
			return true
		})
	}); err != nil {
		t.Fatal(err)
	}
	expected, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{
		"selection.parquet": export(t, a, &archive.Filter{}, Options{Format: Parquet}),
		"selection.tar":     export(t, a, &archive.Filter{}, Options{Format: ART}),
		"expected.json":     string(expected),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
