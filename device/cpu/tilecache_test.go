package cpu

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"sync"
	"testing"

	"weir/model"
	"weir/weights"
)

// memoryTiles is a TileCache in memory.
type memoryTiles struct {
	mu     sync.Mutex
	kept   map[string][]byte
	broken map[string]bool // keys whose last piece is damaged
	read   int             // pieces
	closed bool
}

func (c *memoryTiles) Find(key string, piece, size int) func(i int, dst []byte) bool {
	tiles := c.kept[key]
	if len(tiles) != size {
		return nil
	}
	return func(i int, dst []byte) bool {
		copy(dst, tiles[i*piece:])
		c.mu.Lock()
		defer c.mu.Unlock()
		c.read++
		return !c.broken[key] || (i+1)*piece < size
	}
}

func (c *memoryTiles) Keep(key string, _ int, tiles []byte) { c.kept[key] = bytes.Clone(tiles) }
func (c *memoryTiles) Close()                               { c.closed = true }

// loadWith loads m and returns the tiles of its parts.
func loadWith(t *testing.T, c *memoryTiles, as Format, impl string, m model.Matrix) [][]byte {
	t.Helper()
	cfg := Config{Threads: 2, WeightType: as, KVType: BF16, Impl: impl, Pin: PinNone}
	if c != nil {
		c.closed, cfg.Tiles = false, c
	}
	d, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	w, err := d.Load(m)
	if err != nil {
		t.Fatal(err)
	}
	var tiles [][]byte
	for _, p := range d.params[w].linear.parts {
		tiles = append(tiles, bytes.Clone(p.data))
	}
	if err := d.Close(); err != nil || c != nil && !c.closed {
		t.Errorf("the cache is closed: %v, %v", c == nil || c.closed, err)
	}
	return tiles
}

// TestTilesFromCache: a second device reads what the first has packed, and packs what is damaged or
// packed in another way.
func TestTilesFromCache(t *testing.T) {
	plain := tensor(newRand(1), weights.BF16, 0.1, 100, 512)
	blocks := blockTensor(3, weights.Q4_0, 40, 512)
	plain.Name, blocks.Name = "plain", "blocks"
	for _, c := range []struct {
		as    Format
		rows  []weights.Tensor
		parts int // that are kept
	}{
		{Auto, []weights.Tensor{plain}, 0}, // packing it is as fast as reading a file
		{Q4, []weights.Tensor{plain}, 1}, {W8A8, []weights.Tensor{plain}, 1},
		{Auto, []weights.Tensor{blocks}, 1},
		{Auto, []weights.Tensor{plain, blocks}, 1},
	} {
		t.Run(fmt.Sprintf("%s_%d", c.as, len(c.rows)), func(t *testing.T) {
			m := model.Matrix{Use: model.Linear, Rows: c.rows}
			want := loadWith(t, nil, c.as, "", m)
			cache := &memoryTiles{kept: map[string][]byte{}, broken: map[string]bool{}}
			for i, read := range []bool{false, true, false} {
				cache.read = 0
				if got := loadWith(t, cache, c.as, "", m); !slices.EqualFunc(got, want, bytes.Equal) {
					t.Errorf("start %d: other tiles", i)
				}
				if len(cache.kept) != c.parts || read && (cache.read > 0) != (c.parts > 0) {
					t.Errorf("start %d: %d matrices kept, %d pieces read", i, len(cache.kept), cache.read)
				}
				for key := range cache.kept {
					cache.broken[key] = read // for the third
				}
			}
			for key := range cache.kept {
				cache.broken[key] = false
			}
			cache.read = 0
			if loadWith(t, cache, c.as, Impls()[len(Impls())-1], m); cache.read > 0 && len(Impls()) > 1 {
				t.Error("tiles of another tier are read")
			}
		})
	}
}

// TestTableFromCache: a table of blocks is looked through once, and again if the cache is damaged; plain
// numbers are each time.
func TestTableFromCache(t *testing.T) {
	plain, blocks := tensor(newRand(1), weights.BF16, 0.1, 10, 512), blockTensor(3, weights.Q4_0, 10, 512)
	bad := blockTensor(3, weights.Q4_0, 10, 512)
	bad.Data[0], bad.Data[1] = 0, 0x7c // an infinite scale
	load := func(c *memoryTiles, table weights.Tensor) error {
		d, err := Open(Config{Threads: 2, KVType: BF16, Tiles: c, Pin: PinNone})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		_, err = d.Load(model.Matrix{Use: model.Embedding, Rows: []weights.Tensor{table}})
		return err
	}
	c := &memoryTiles{kept: map[string][]byte{}, broken: map[string]bool{}}
	if err := load(c, plain); err != nil || len(c.kept) != 0 {
		t.Errorf("%d keys for plain numbers, %v", len(c.kept), err)
	}
	if err := load(c, bad); err == nil || len(c.kept) != 0 {
		t.Errorf("%d keys for an infinity, %v", len(c.kept), err)
	}
	if err := load(c, blocks); err != nil || len(c.kept) != 1 || c.read != 0 {
		t.Errorf("%d keys, %v", len(c.kept), err)
	}
	// The cache is of these very bytes, so they are not looked at again.
	if err := load(c, bad); err != nil || c.read != 1 {
		t.Errorf("%d pieces read, %v", c.read, err)
	}
	for key := range c.kept {
		c.broken[key] = true
	}
	if err := load(c, bad); err == nil {
		t.Error("a damaged cache is believed")
	}
}

// blockTensor is a matrix of a type of blocks, of which all bytes are small and so are numbers.
func blockTensor(seed uint64, d weights.DType, rows, columns int) weights.Tensor {
	t := weights.Tensor{Name: d.String(), DType: d, Shape: []int{rows, columns}, Data: make([]byte, rows*d.RowBytes(columns))}
	rnd := newRand(seed)
	for i := range t.Data {
		t.Data[i] = byte(rnd.UintN(32))
	}
	return t
}

// TestTileLayoutNumber: tiles have the bytes of tileLayout. If this test fails because the layout of a format
// has changed, give tileLayout another number, and write the sums anew, which the test prints:
// caches of packed weights would otherwise be read as what they are not.
func TestTileLayoutNumber(t *testing.T) {
	const layout = 1
	var sums []string
	plain := tensor(newRand(5), weights.F32, 0.1, 20, 512)
	for _, f := range []Format{Q8, Q4, W8A8} {
		sums = append(sums, sumOf(f.String(), loadWith(t, nil, f, "generic", model.Matrix{Use: model.Linear, Rows: []weights.Tensor{plain}})))
	}
	for i := range blockSpecs {
		d := blockSpecs[i].dtype
		if d == weights.Invalid {
			continue // below
		}
		m := model.Matrix{Use: model.Linear, Rows: []weights.Tensor{blockTensor(uint64(i), d, 20, 512)}}
		sums = append(sums, sumOf(d.String(), loadWith(t, nil, Auto, "generic", m)))
	}
	seen := map[Format]bool{}
	for _, c := range packedCases {
		if !seen[c.as] && c.as != F32 {
			seen[c.as] = true
			m := model.Matrix{Use: model.Linear, Rows: []weights.Tensor{c.tensor(newRand(9), 20, 512)}}
			sums = append(sums, sumOf(c.name, loadWith(t, nil, Auto, "generic", m)))
		}
	}
	got := strings.Join(sums, "\n")
	if tileLayout != layout || got != tileSums {
		t.Errorf("layout %d has the sums\n%s", tileLayout, got)
	}
}

func sumOf(name string, tiles [][]byte) string {
	return fmt.Sprintf("%s %08x", name, crc32.ChecksumIEEE(tiles[0]))
}

// tileSums are the checksums of layout 1.
const tileSums = `q8 9fa6d832
q4 6315f4fd
w8a8 b5001534
Q4_1 68a2b4e0
Q5_0 bcf9b7b1
Q5_1 31cced94
Q2_K 2dc8073e
Q3_K ad9198ad
Q4_K cfddbd2c
Q5_K 97ffbaac
Q6_K 3e5f6217
IQ4_NL 3440565d
IQ4_XS 1fefae76
MXFP4 3c78fc16
int4 1d13ae92
int4 of GPTQ that wrongly says that it is symmetric f66bd364
int6 with zero points 4a552df7
int8 with a scale for each row ee6b6db9
E2M1 with powers of two 46e1ac9d
FP8 with a scale for each row 185b99f1
int8 of GPTQ with zero points 5faff7c2
NVFP4 35a40930`
