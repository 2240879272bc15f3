package export

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"weir/trajectory/archive"
)

// TestColumns checks the names and the physical and logical types of the columns.
func TestColumns(t *testing.T) {
	file := open(t, export(t, newArchive(t, first, other), &archive.Filter{}, Options{Format: Parquet}))
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
	if v, _ := file.Lookup(artVersionKey); v != "2" {
		t.Errorf("%s is %q", artVersionKey, v)
	}
	for _, g := range file.Metadata().RowGroups {
		for _, c := range g.Columns {
			if c.MetaData.Codec.String() != "ZSTD" {
				t.Errorf("%v: %v", c.MetaData.PathInSchema, c.MetaData.Codec)
			}
		}
	}
}

// open opens a Parquet file.
func open(t *testing.T, data string) *parquet.File {
	t.Helper()
	f, err := parquet.OpenFile(strings.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// rows reads the rows of a Parquet file.
func rows[T any](t *testing.T, data string) []T {
	t.Helper()
	list, err := parquet.Read[T](strings.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// rebuild makes groups of rows as ART's reader does. It requires indexes without gaps, the
// same text of the group in all its rows, and one row for a group without trajectories
// (docs/interface/trajectories.md, case T#25). A group is its text and those of its
// trajectories.
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
				t.Errorf("row %d has values of a trajectory without an index", i)
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

// TestParquet checks the rows of a Parquet file (docs/interface/trajectories.md, section
// 13.3).
func TestParquet(t *testing.T) {
	a := newArchive(t, first, other)
	list := rows[weirRow](t, export(t, a, &archive.Filter{}, Options{Format: Parquet}))
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
	// The indexes of a selection have no gaps either.
	one := 1.0
	list = rows[weirRow](t, export(t, a, &archive.Filter{MinReward: &one}, Options{Format: Parquet}))
	if len(list) != 2 || list[1].GroupIndex != 1 || *list[1].TrajectoryIndex != 0 || *list[1].ID != list[1].LogID+"/0/1" {
		t.Errorf("%+v", list)
	}
	if list := rows[weirRow](t, export(t, a, &archive.Filter{Splits: []string{"none"}}, Options{Format: Parquet})); len(list) != 0 {
		t.Errorf("%+v", list)
	}
}

// TestRowGroups checks that a file has several row groups, and that it is compressed.
func TestRowGroups(t *testing.T) {
	text := func(i int) string { return fmt.Sprintf(`{"logs":["%d%s"]}`, i, strings.Repeat("x", 30_000)) }
	var list []string
	for i := range 24 {
		list = append(list, text(i))
	}
	a := newArchive(t, `{"split":"s","trajectory_groups":[{"trajectories":[`+strings.Join(list, ",")+`]}]}`)
	data := export(t, a, &archive.Filter{}, Options{Format: Parquet, rowGroup: 320_000})
	if len(data) > 50_000 {
		t.Errorf("%d bytes: not compressed", len(data))
	}
	if n := len(open(t, data).RowGroups()); n != 3 {
		t.Errorf("%d row groups, want 3", n)
	}
	for i, r := range rows[weirRow](t, data) {
		if *r.TrajectoryJSON != text(i) {
			t.Errorf("row %d", i)
		}
	}
}

// TestFilesForOtherReaders writes files to the folder WEIR_PARQUET_OUT, if that is set, for
// tools/parquet/check.py, which reads them with pyarrow and DuckDB (make parquet-check).
func TestFilesForOtherReaders(t *testing.T) {
	dir := os.Getenv("WEIR_PARQUET_OUT")
	if dir == "" {
		t.Skip("WEIR_PARQUET_OUT is not set")
	}
	a := newArchive(t, first, other, strings.ReplaceAll(first, `"up"`, `"`+strings.Repeat("große Wörter ", 20_000)+`"`))
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
