package weights

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// file is a safetensors file with this header and n bytes of data 0, 1, 2, ...
func file(header string, n int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	b = append(b, header...)
	for i := range n {
		b = append(b, byte(i))
	}
	return b
}

const two = `{"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]},"a":{"dtype":"F32","shape":[],"data_offsets":[12,16]}}  `

func writeDir(t *testing.T, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// both opens the files from a folder and from memory; the two must agree.
func both(t *testing.T, files map[string][]byte, check func(*testing.T, *Checkpoint, error)) {
	t.Run("dir", func(t *testing.T) {
		c, err := Open(writeDir(t, files))
		check(t, c, err)
	})
	t.Run("fs", func(t *testing.T) {
		m := fstest.MapFS{}
		for name, b := range files {
			m[name] = &fstest.MapFile{Data: b}
		}
		c, err := OpenFS(m)
		check(t, c, err)
	})
}

func TestOpenSingle(t *testing.T) {
	both(t, map[string][]byte{singleFile: file(two, 16)}, func(t *testing.T, c *Checkpoint, err error) {
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Names(); !slices.Equal(got, []string{"a", "b"}) || c.Bytes() != 16 {
			t.Errorf("names %v, %d bytes", got, c.Bytes())
		}
		b, ok := c.Tensor("b")
		if !ok || b.Name != "b" || b.DType != BF16 || !slices.Equal(b.Shape, []int{2, 3}) || b.Len() != 6 ||
			!bytes.Equal(b.Data, []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}) {
			t.Errorf("b = %+v", b)
		}
		a, ok := c.Tensor("a")
		if !ok || a.DType != F32 || a.Len() != 1 || !bytes.Equal(a.Data, []byte{12, 13, 14, 15}) {
			t.Errorf("a = %+v", a)
		}
		if _, ok := c.Tensor("c"); ok {
			t.Error("found a tensor that does not exist")
		}
		for range 2 {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
		if _, ok := c.Tensor("a"); ok {
			t.Error("a closed checkpoint still gives out tensors")
		}
	})
}

const index = `{"metadata":{"total_size":24,"x":[{"y":null}]},"weight_map":{"b":"1.safetensors","c":"2.safetensors","a":"1.safetensors"}}`

func TestOpenSharded(t *testing.T) {
	second := file(`{"c":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}}`, 8)
	both(t, map[string][]byte{indexFile: []byte(index), "1.safetensors": file(two, 16), "2.safetensors": second}, func(t *testing.T, c *Checkpoint, err error) {
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if got := c.Names(); !slices.Equal(got, []string{"a", "b", "c"}) || c.Bytes() != 24 {
			t.Errorf("names %v, %d bytes", got, c.Bytes())
		}
		if x, _ := c.Tensor("c"); x.DType != U8 || len(x.Data) != 8 {
			t.Errorf("c = %+v", x)
		}
	})
}

// The single file wins over an index, as in the reference loader.
func TestSingleFileWins(t *testing.T) {
	both(t, map[string][]byte{indexFile: []byte("damaged"), singleFile: file(two, 16)}, func(t *testing.T, c *Checkpoint, err error) {
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
	})
}

// Opening reads headers alone: were a page of the data touched for each page
// there is, this would take minutes.
func TestOpenReadsNoData(t *testing.T) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		t.Skip("needs sparse files and a large address space")
	}
	size := int64(256 << 30)
	dir := writeDir(t, map[string][]byte{singleFile: file(fmt.Sprintf(`{"a":{"dtype":"F32","shape":[%d],"data_offsets":[0,%d]}}`, size/4, size), 0)})
	path := filepath.Join(dir, singleFile)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, info.Size()+size); err != nil {
		t.Skip("the file system has no large sparse files:", err)
	}
	c, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if c.Bytes() != size {
		t.Errorf("%d bytes", c.Bytes())
	}
	c.Close()
}

func TestDTypes(t *testing.T) {
	for d := F32; int(d) < len(dtypes); d++ {
		if got := parseDType(dtypes[d].stored); got != d || d.String() == "" {
			t.Errorf("%v: read back as %v", d, got)
		}
	}
	if F32.Size() != 4 || F16.Size() != 2 || BF16.Size() != 2 || Invalid.Size() != 0 || F4.Size() != 0 {
		t.Error("wrong sizes")
	}
	n, err := byteSize(F4, []uint64{3, 2})
	if n != 3 || err != nil {
		t.Errorf("6 float4: %d bytes, %v", n, err)
	}
}

// one is a header with one tensor "a" that has these fields.
func one(fields string) string { return `{"a":{` + fields + `}}` }

var damages = []struct {
	name string
	file []byte
	want string // the end of the sentence
}{
	{"empty file", nil, "bytes"},
	{"seven bytes", make([]byte, 7), "bytes"},
	{"header larger than the format allows", []byte("GGUF\x03\x00\x00\x00 and more"), "the header claims 14064895815 bytes, more than the 100000000 allowed: this is not a safetensors file"},
	{"header length at its extreme", bytes.Repeat([]byte{0xff}, 64), "the header claims 18446744073709551615 bytes, more than the 100000000 allowed: this is not a safetensors file"},
	{"header longer than the file", file(two, 0)[:40], "the header claims 145 bytes, but only 32 follow: the file is truncated"},
	{"data truncated", file(two, 15), `tensor "a" lies at bytes [12, 16) of the data, which ends at 15: the file is truncated`},
	{"data beyond the last tensor", file(two, 19), "the last 3 bytes belong to no tensor"},
	{"no JSON", file("hello world", 0), `header: not valid JSON: unexpected character 'h', want a value at byte 0`},
	{"empty header", file("", 0), `header: not valid JSON: unexpected end, want a value at byte 0`},
	{"JSON cut off", file(`{"a":{"dtype":"F32"`, 0), `header: not valid JSON: unexpected end, want ',' or '}' at byte 19`},
	{"JSON with a comma too many", file(`{"a":{"dtype":"U8","shape":[1,],"data_offsets":[0,1]}}`, 1), `header: not valid JSON: unexpected character ']', want a value at byte 30`},
	{"array", file("[]", 0), `header: [] where an object is expected`},
	{"rest behind the header", file("{} {}", 0), `header: not valid JSON: extra data behind the value at byte 3`},
	{"garbage behind the header", file("{}x", 0), `header: not valid JSON: extra data behind the value at byte 2`},
	{"not UTF-8", file("{\"\xff\":1}", 0), "the header is not UTF-8"},
	{"name twice", file(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"\u0061":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, 2), `header: tensor "a" is named twice`},
	{"metadata of numbers", file(`{"__metadata__":{"format":1}}`, 0), "header: 1 where a string is expected"},
	{"tensor is a number", file(`{"a":7}`, 0), `header: tensor "a": 7 where an object is expected`},
	{"unknown dtype", file(one(`"dtype":"F5","shape":[1],"data_offsets":[0,1]`), 1), `header: tensor "a": unknown dtype "F5"`},
	{"no dtype", file(one(`"shape":[1],"data_offsets":[0,1]`), 1), `header: tensor "a": dtype is missing`},
	{"no shape", file(one(`"dtype":"U8","data_offsets":[0,1]`), 1), `header: tensor "a": shape is missing`},
	{"no offsets", file(one(`"dtype":"U8","shape":[1]`), 1), `header: tensor "a": data_offsets is missing`},
	{"null dtype", file(one(`"dtype":null,"shape":[1],"data_offsets":[0,1]`), 1), `header: tensor "a": null where a string is expected`},
	{"field twice", file(one(`"dtype":"U8","shape":[1],"shape":[1],"data_offsets":[0,1]`), 1), `header: tensor "a": shape is given twice`},
	{"empty shape twice", file(one(`"dtype":"U8","shape":[],"shape":[],"data_offsets":[0,1]`), 1), `header: tensor "a": shape is given twice`},
	{"unknown field", file(one(`"dtype":"U8","shape":[1],"data_offsets":[0,1],"scale":2`), 1), `header: tensor "a": unknown field "scale"`},
	{"negative dimension", file(one(`"dtype":"U8","shape":[-1],"data_offsets":[0,1]`), 1), `header: tensor "a": -1 is not an integer in [0, 2^63)`},
	{"fractional dimension", file(one(`"dtype":"U8","shape":[1.0],"data_offsets":[0,1]`), 1), `header: tensor "a": 1.0 is not an integer in [0, 2^63)`},
	{"text as a dimension", file(one(`"dtype":"U8","shape":["1"],"data_offsets":[0,1]`), 1), `header: tensor "a": "1" where an integer is expected`},
	{"three offsets", file(one(`"dtype":"U8","shape":[1],"data_offsets":[0,1,2]`), 1), `header: tensor "a": data_offsets holds 3 numbers, not 2`},
	{"offsets backwards", file(one(`"dtype":"U8","shape":[1],"data_offsets":[1,0]`), 1), `header: tensor "a": data_offsets [1, 0) run backwards`},
	{"size against shape", file(one(`"dtype":"F32","shape":[2,2],"data_offsets":[0,12]`), 12), `header: tensor "a": float32 [2 2] needs 16 bytes, but its data_offsets [0, 12) hold 12`},
	{"product overflows", file(one(`"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]`), 0), `header: tensor "a": uint8 [4294967296 4294967296] is larger than memory can be`},
	{"product overflows beside a zero", file(one(`"dtype":"U8","shape":[0,9223372036854775807],"data_offsets":[0,0]`), 0), `header: tensor "a": uint8 [0 9223372036854775807] is larger than memory can be`},
	{"half a byte", file(one(`"dtype":"F4","shape":[3],"data_offsets":[0,2]`), 2), `header: tensor "a": float4 [3] does not fill whole bytes`},
	{"range beyond the file", file(one(`"dtype":"U8","shape":[1],"data_offsets":[9223372036854775806,9223372036854775807]`), 1), `tensor "a" lies at bytes [9223372036854775806, 9223372036854775807) of the data, which ends at 1: the file is truncated`},
	{"overlap", file(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}`, 3), `tensor "b" at bytes [1, 3) overlaps tensor "a"`},
	{"gap", file(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}}`, 3), `bytes [1, 2) before tensor "b" belong to no tensor`},
}

func TestDamagedFile(t *testing.T) {
	for _, d := range damages {
		t.Run(d.name, func(t *testing.T) {
			both(t, map[string][]byte{singleFile: d.file}, func(t *testing.T, c *Checkpoint, err error) {
				if !errors.Is(err, ErrDamaged) || c != nil {
					t.Fatalf("err = %v", err)
				}
				if !strings.Contains(err.Error(), singleFile+": ") || !strings.Contains(err.Error(), d.want) {
					t.Errorf("got  %v\nwant …: %s", err, d.want)
				}
				oneSentence(t, err)
			})
		})
	}
}

func oneSentence(t *testing.T, err error) {
	t.Helper()
	if s := err.Error(); strings.Contains(s, "\n") || len(s) > 500 {
		t.Errorf("not one clear sentence: %s", s)
	}
}

func TestDamagedIndex(t *testing.T) {
	shard := file(two, 16)
	for _, d := range []struct {
		name, index, want string
	}{
		{"garbage", "\x00", `not valid JSON: unexpected character '\x00', want a value at byte 0`},
		{"empty", "", `not valid JSON: unexpected end, want a value at byte 0`},
		{"not UTF-8", "{\"\xff\":1}", "the index is not UTF-8"},
		{"no map", `{"metadata":{}}`, "weight_map occurs 0 times, not once"},
		{"two maps", `{"weight_map":{"a":"1.safetensors"},"weight_map":{"b":"1.safetensors"}}`, "weight_map occurs 2 times, not once"},
		{"empty map", `{"weight_map":{}}`, "weight_map names no tensor"},
		{"a number for a file", `{"weight_map":{"a":1}}`, `tensor "a": 1 where a string is expected`},
		{"tensor twice", `{"weight_map":{"a":"1.safetensors","a":"1.safetensors"}}`, `tensor "a" is named twice`},
		{"a file elsewhere", `{"weight_map":{"a":"../1.safetensors"}}`, `tensor "a": "../1.safetensors" is not the name of a file beside the index`},
		{"a file below", `{"weight_map":{"a":"x/1.safetensors"}}`, `tensor "a": "x/1.safetensors" is not the name of a file beside the index`},
		{"a file from the root", `{"weight_map":{"a":"/etc/passwd"}}`, `tensor "a": "/etc/passwd" is not the name of a file beside the index`},
		{"the folder", `{"weight_map":{"a":"."}}`, `tensor "a": "." is not the name of a file beside the index`},
		{"a file of a long name", `{"weight_map":{"a":"` + strings.Repeat("x", 5000) + `"}}`, `tensor "a": "` + strings.Repeat("x", 200) + `" is not the name of a file beside the index`},
		{"a NUL", `{"weight_map":{"a":"1\u0000"}}`, `tensor "a": "1\x00" is not the name of a file beside the index`},
		{"no file name", `{"weight_map":{"a":""}}`, `tensor "a": "" is not the name of a file beside the index`},
		{"missing shard", `{"weight_map":{"a":"2.safetensors","b":"2.safetensors"}}`, `shard 2.safetensors is missing, which holds tensor "a" and 1 others`},
		{"tensor not in its shard", `{"weight_map":{"a":"1.safetensors","z":"1.safetensors"}}`, `1.safetensors: tensor "z" is missing, although model.safetensors.index.json places it here`},
		{"rest", `{"weight_map":{"a":"1.safetensors"}} 1`, `not valid JSON: extra data behind the value at byte 37`},
	} {
		t.Run(d.name, func(t *testing.T) {
			both(t, map[string][]byte{indexFile: []byte(d.index), "1.safetensors": shard}, func(t *testing.T, c *Checkpoint, err error) {
				if !errors.Is(err, ErrDamaged) || c != nil {
					t.Fatalf("err = %v", err)
				}
				if !strings.HasSuffix(err.Error(), ": "+d.want) && !strings.HasSuffix(err.Error(), "/"+d.want) {
					t.Errorf("got  %v\nwant …: %s", err, d.want)
				}
				oneSentence(t, err)
			})
		})
	}
}

func TestDamagedShardNamesTheShard(t *testing.T) {
	both(t, map[string][]byte{indexFile: []byte(index), "1.safetensors": file(two, 16), "2.safetensors": {1, 2}}, func(t *testing.T, _ *Checkpoint, err error) {
		if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "2.safetensors") {
			t.Errorf("err = %v", err)
		}
	})
}

func TestNoCheckpoint(t *testing.T) {
	both(t, map[string][]byte{"pytorch_model.bin": nil}, func(t *testing.T, _ *Checkpoint, err error) {
		if !errors.Is(err, ErrNoWeights) {
			t.Errorf("err = %v", err)
		}
	})
	if _, err := Open(filepath.Join(t.TempDir(), "nothing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder that does not exist: %v", err)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, singleFile), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); !errors.Is(err, ErrDamaged) {
		t.Errorf("a folder in the place of the file: %v", err)
	}
}

// TestPlaces: from the header alone, the places of tensors are those where Open finds them; of fewer
// bytes it says how many are needed.
func TestPlaces(t *testing.T) {
	b := file(two, 16)
	tensors, err := parse("f", b)
	if err != nil {
		t.Fatal(err)
	}
	header := prefixBytes + int(binary.LittleEndian.Uint64(b))
	for n := range b {
		places, needed, err := Places(b[:n])
		want := int64(header)
		if n < prefixBytes {
			want = prefixBytes
		}
		if err != nil || needed != want || (len(places) > 0) != (n >= header) {
			t.Errorf("%d bytes: %v, %d needed, %v", n, places, needed, err)
		}
		for i, p := range places {
			if x := tensors[i]; p.Name != x.Name || &b[p.From] != &x.Data[0] || p.To-p.From != int64(len(x.Data)) {
				t.Errorf("%+v is not where %s is", p, x.Name)
			}
		}
	}
	if _, _, err := Places(binary.LittleEndian.AppendUint64(nil, maxHeader+1)); !errors.Is(err, ErrDamaged) {
		t.Error(err)
	}
}

// FuzzHeader: whatever the bytes are, parse gives an error or tensors that
// tile the data.
func FuzzHeader(f *testing.F) {
	f.Add(file(two, 16))
	for _, d := range damages {
		f.Add(d.file)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		places, needed, wrong := Places(b)
		tensors, err := parse("f", b)
		if err == nil && (wrong != nil || len(places) != len(tensors) || needed > int64(len(b))) {
			t.Errorf("%d places of %d tensors, %d bytes, %v", len(places), len(tensors), needed, wrong)
		}
		if err != nil {
			if !errors.Is(err, ErrDamaged) {
				t.Errorf("not ErrDamaged: %v", err)
			}
			return
		}
		n := prefixBytes + int(binary.LittleEndian.Uint64(b))
		names := map[string]bool{}
		for _, x := range tensors {
			if names[x.Name] {
				t.Errorf("%q twice", x.Name)
			}
			names[x.Name] = true
			if x.Len()*int(dtypes[x.DType].bits) != 8*len(x.Data) {
				t.Errorf("%q: %d elements of %v in %d bytes", x.Name, x.Len(), x.DType, len(x.Data))
			}
			if len(x.Data) > 0 && &x.Data[0] != &b[n] {
				t.Errorf("%q does not begin where the tensor before it ends", x.Name)
			}
			n += len(x.Data)
		}
		if n != len(b) {
			t.Errorf("tensors end at %d of %d", n, len(b))
		}
	})
}

// FuzzIndex: whatever the bytes are, an index names files beside it or is refused.
func FuzzIndex(f *testing.F) {
	f.Add([]byte(index))
	f.Add([]byte(`{"weight_map":{"a":"../b"}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		shards, err := parseIndex("i", b)
		if err != nil {
			if !errors.Is(err, ErrDamaged) {
				t.Errorf("not ErrDamaged: %v", err)
			}
			return
		}
		for _, s := range shards {
			if len(s.tensors) == 0 || filepath.Base(s.file) != s.file || s.file == ".." {
				t.Errorf("%+v", s)
			}
		}
	})
}

// TestFromTensors: what is in memory is found by name, and what contradicts
// itself is refused and released.
func TestFromTensors(t *testing.T) {
	a := Tensor{Name: "b", DType: BF16, Shape: []int{2, 3}, Data: make([]byte, 12)}
	b := Tensor{Name: "a", DType: F32, Shape: []int{1}, Data: make([]byte, 4)}
	c, err := FromTensors([]Tensor{a, b}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if x, ok := c.Tensor("b"); !ok || x.Len() != 6 || c.Bytes() != 16 || !slices.Equal(c.Names(), []string{"a", "b"}) {
		t.Errorf("%+v", c)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	short := b
	short.Data = short.Data[1:]
	for _, list := range [][]Tensor{{a, a}, {a, short}} {
		released := false
		if _, err := FromTensors(list, func() error { released = true; return nil }); err == nil || !released {
			t.Errorf("%v, released: %v", err, released)
		}
	}
}
