package cpu

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
)

// sysTree is a /sys/devices/system of nodes by their processor lists, with
// sibling lists of cores. sibs is the name of the file that has those.
func sysTree(sibs string, nodes, cores []string) fstest.MapFS {
	tree := fstest.MapFS{}
	for id, list := range nodes {
		tree[fmt.Sprintf("node/node%d/cpulist", id)] = &fstest.MapFile{Data: []byte(list + "\n")}
	}
	for _, list := range cores {
		cpus, err := parseList(list)
		if err != nil {
			panic(err)
		}
		for _, c := range cpus {
			tree[fmt.Sprintf("cpu/cpu%d/topology/%s", c, sibs)] = &fstest.MapFile{Data: []byte(list + "\n")}
		}
	}
	return tree
}

func upTo(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

var (
	// Two sockets of four cores with two threads each, numbered as Linux does on
	// most servers.
	twoSockets = sysTree("core_cpus_list", []string{"0-3,8-11", "4-7,12-15"}, []string{"0,8", "1,9", "2,10", "3,11", "4,12", "5,13", "6,14", "7,15"})
	// A small machine with siblings next to each other, and an older kernel.
	laptop = sysTree("thread_siblings_list", []string{"0-3"}, []string{"0-1", "2-3"})
)

func TestReadTopology(t *testing.T) {
	uneven := sysTree("core_cpus_list", []string{"0-5", "6-7", ""}, []string{"0", "1", "2", "3", "4", "5", "6", "7"})
	broken := fstest.MapFS{
		"node/node0/cpulist":                     {Data: []byte("zero")},
		"node/nodeX/cpulist":                     {Data: []byte("0")},
		"cpu/cpu0/topology/core_cpus_list":       {Data: []byte("7-3")},
		"cpu/cpu1/topology/core_cpus_list":       {Data: []byte("5")}, // not even itself
		"cpu/cpu1/topology/thread_siblings_list": {Data: []byte("1")},
	}
	for _, c := range []struct {
		name    string
		tree    fstest.MapFS
		allowed []int
		want    []memoryNode
	}{
		{"two sockets", twoSockets, upTo(16), []memoryNode{{0, [][]int{{0, 8}, {1, 9}, {2, 10}, {3, 11}}}, {1, [][]int{{4, 12}, {5, 13}, {6, 14}, {7, 15}}}}},
		{"a container with some of them", twoSockets, []int{2, 10, 12, 13}, []memoryNode{{0, [][]int{{2, 10}}}, {1, [][]int{{12}, {13}}}}},
		{"one socket of two", twoSockets, []int{5, 13}, []memoryNode{{1, [][]int{{5, 13}}}}},
		{"an older kernel", laptop, upTo(4), []memoryNode{{0, [][]int{{0, 1}, {2, 3}}}}},
		{"nodes of different sizes, and one of memory alone", uneven, upTo(8), []memoryNode{{0, [][]int{{0}, {1}, {2}, {3}, {4}, {5}}}, {1, [][]int{{6}, {7}}}}},
		{"no such files", fstest.MapFS{}, upTo(2), []memoryNode{{0, [][]int{{0}, {1}}}}},
		{"files that make no sense", broken, upTo(2), []memoryNode{{0, [][]int{{0}, {1}}}}},
	} {
		if got := readTopology(c.tree, c.allowed).nodes; !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, not %v", c.name, got, c.want)
		}
	}
}

func TestParseList(t *testing.T) {
	for s, want := range map[string][]int{"0": {0}, "0-3,8": {0, 1, 2, 3, 8}, "5,1-2": {5, 1, 2}, "8191": {8191}} {
		if got, err := parseList(s); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "a", "1-", "-1", "3-1", "0,0", "0-2,1", "1,", "8192", "0-99999999", "0-3:2", " 1"} {
		if got, err := parseList(s); err == nil {
			t.Errorf("%q: %v", s, got)
		}
	}
}

func TestPlace(t *testing.T) {
	two, small := readTopology(twoSockets, upTo(16)), readTopology(laptop, upTo(4))
	part := readTopology(twoSockets, []int{0, 1, 2, 4})
	all := func(n int) [][]int { return make([][]int, n) }
	node0, node1 := []int{0, 8, 1, 9, 2, 10, 3, 11}, []int{4, 12, 5, 13, 6, 14, 7, 15}
	for _, c := range []struct {
		name    string
		t       topology
		threads int
		pin     string
		node    []int
		cpus    [][]int
	}{
		{"one node: nothing is bound", small, 2, PinNodes, []int{0, 0}, all(2)},
		{"none: nothing is bound, on any machine", two, 3, PinNone, []int{0, 0, 0}, all(3)},
		{"nodes: half of them on each", two, 4, "", []int{0, 0, 1, 1}, [][]int{node0, node0, node1, node1}},
		{"nodes: one thread is on the first", two, 1, PinNodes, []int{0}, [][]int{node0}},
		{"nodes: as a container's cores lie", part, 4, PinNodes, []int{0, 0, 0, 1}, [][]int{{0, 1, 2}, {0, 1, 2}, {0, 1, 2}, {4}}},
		{"nodes: more threads than cores", part, 8, PinNodes, []int{0, 0, 0, 0, 0, 0, 1, 1}, [][]int{{0, 1, 2}, {0, 1, 2}, {0, 1, 2}, {0, 1, 2}, {0, 1, 2}, {0, 1, 2}, {4}, {4}}},
		{"cores: never two threads of one", two, 8, PinCores, []int{0, 0, 0, 0, 1, 1, 1, 1}, [][]int{{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}}},
		{"cores: spread over the nodes", two, 2, PinCores, []int{0, 1}, [][]int{{0}, {4}}},
		{"cores: siblings next to each other", small, 2, PinCores, []int{0, 0}, [][]int{{0}, {2}}},
		{"a list: siblings if that is asked", two, 0, "0,8", []int{0, 0}, [][]int{{0}, {8}}},
		{"a list: kept together by node", two, 3, "12,1,4,0", []int{0, 1, 1}, [][]int{{1}, {12}, {4}}},
		{"a list: node 1 alone", two, 0, "4-6", []int{0, 0, 0}, [][]int{{4}, {5}, {6}}},
	} {
		p, err := c.t.place(c.threads, c.pin)
		if err != nil || !reflect.DeepEqual(p.node, c.node) || !reflect.DeepEqual(p.cpus, c.cpus) || p.nodes() != c.node[len(c.node)-1]+1 {
			t.Errorf("%s: %+v, %v", c.name, p, err)
			continue
		}
		for i, node := range p.node {
			if i < p.before[node] || i >= p.before[node+1] {
				t.Errorf("%s: thread %d of node %d, and threads before nodes %v", c.name, i, node, p.before)
			}
		}
	}
	for _, c := range []struct {
		threads int
		pin     string
		says    string
	}{
		{9, PinCores, "9 threads with a core each, and there are 8 cores"},
		{0, "16", "processor 16 is not one"},
		{3, "0,1", "3 threads are to be bound to the 2 processors 0,1"},
		{0, "everywhere", `"everywhere" is not a list of processors such as 0-7,16`},
		{0, "1,1", "names processor 1 twice"},
	} {
		if _, err := two.place(c.threads, c.pin); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%d threads, %s: %v", c.threads, c.pin, err)
		}
	}
}

// TestDefaultThreads: a core's second thread is not counted, and GOMAXPROCS
// is the limit.
func TestDefaultThreads(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(16))
	if n := defaultThreads(readTopology(twoSockets, upTo(16))); n != 8 {
		t.Errorf("%d threads on 8 cores", n)
	}
	runtime.GOMAXPROCS(3)
	if n := defaultThreads(readTopology(twoSockets, upTo(16))); n != 3 {
		t.Errorf("%d threads where Go uses 3 processors", n)
	}
	if n := defaultThreads(topology{}); n != 3 {
		t.Errorf("%d threads where the system says nothing", n)
	}
	if n := (Config{Threads: 5, KVType: BF16}).ThreadCount(); n != 5 {
		t.Errorf("%d threads of 5", n)
	}
	if n := Cores(); n < 1 || n > runtime.NumCPU() {
		t.Errorf("%d cores of %d processors", n, runtime.NumCPU())
	}
}
