package cpu

import (
	"cmp"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// topology is the part of the machine that this process may run on: memory
// nodes, their cores, and the processors of each (several where a core runs
// several threads).
type topology struct {
	nodes []memoryNode
}

// maxNodes bounds the numbers of memory nodes: the kernel's own limit.
const maxNodes = 1024

type memoryNode struct {
	id    int
	cores [][]int // [cores][processors]
}

// Cores is how many physical cores this process may run on. A second thread on
// a core adds nothing to kernels that keep its units busy, and takes half of
// its caches.
func Cores() int {
	n := machine().cores()
	if n == 0 {
		return runtime.GOMAXPROCS(0)
	}
	return n
}

func (t topology) cores() int {
	n := 0
	for _, m := range t.nodes {
		n += len(m.cores)
	}
	return n
}

// readTopology reads /sys/devices/system for the processors in allowed. Files may be
// missing: a processor of which nothing is known counts as a core of its own, on the
// first node.
func readTopology(sys fs.FS, allowed []int) topology {
	nodeOf := map[int]int{}
	dirs, _ := fs.Glob(sys, "node/node[0-9]*")
	for _, dir := range dirs {
		id, err := strconv.Atoi(strings.TrimPrefix(dir, "node/node"))
		if err != nil || id >= maxNodes {
			continue
		}
		for _, c := range readList(sys, dir+"/cpulist") {
			nodeOf[c] = id
		}
	}
	cores := map[int][]int{} // by their first processor
	var firsts []int
	for _, c := range allowed {
		first := c
		for _, name := range []string{"core_cpus_list", "thread_siblings_list"} {
			if list := readList(sys, fmt.Sprintf("cpu/cpu%d/topology/%s", c, name)); slices.Contains(list, c) {
				first = list[0]
				break
			}
		}
		if cores[first] == nil {
			firsts = append(firsts, first)
		}
		cores[first] = append(cores[first], c)
	}
	var t topology
	slices.Sort(firsts)
	for _, first := range firsts {
		id := nodeOf[cores[first][0]]
		i, found := slices.BinarySearchFunc(t.nodes, id, func(m memoryNode, id int) int { return cmp.Compare(m.id, id) })
		if !found {
			t.nodes = slices.Insert(t.nodes, i, memoryNode{id: id})
		}
		t.nodes[i].cores = append(t.nodes[i].cores, cores[first])
	}
	return t
}

// readList reads a file with a list of processors, ascending; nil if there is
// none that makes sense.
func readList(sys fs.FS, name string) []int {
	src, err := fs.ReadFile(sys, name)
	if err != nil {
		return nil
	}
	list, err := parseList(strings.TrimSpace(string(src)))
	if err != nil {
		return nil
	}
	slices.Sort(list)
	return list
}

// maxProcessor bounds what parseList takes: the kernel's own limit is 8192.
const maxProcessor = 1 << 13

// parseList reads a list of processors as the kernel and taskset write it:
// "0-3,8,10-11".
func parseList(s string) ([]int, error) {
	var list []int
	for part := range strings.SplitSeq(s, ",") {
		from, to, isRange := strings.Cut(part, "-")
		a, err := strconv.ParseUint(from, 10, 16)
		b := a
		if err == nil && isRange {
			b, err = strconv.ParseUint(to, 10, 16)
		}
		if err != nil || b < a || b >= maxProcessor {
			return nil, fmt.Errorf("%q is not a list of processors such as 0-7,16", s)
		}
		for c := a; c <= b; c++ {
			if slices.Contains(list, int(c)) {
				return nil, fmt.Errorf("%q names processor %d twice", s, c)
			}
			list = append(list, int(c))
		}
	}
	return list, nil
}

// placement says where each thread runs.
type placement struct {
	node   []int   // [threads] ascending, dense from 0
	before []int   // [nodes+1] threads on lower nodes
	ids    []int   // [nodes] the system's numbers of the nodes
	cpus   [][]int // [threads] processors that it is bound to; nil: none
}

func (p *placement) nodes() int { return len(p.before) - 1 }

// newPlacement puts threads onto nodes; ids are the machine's, ascending.
func newPlacement(ids []int, cpus [][]int) placement {
	p := placement{node: make([]int, len(ids)), before: []int{0}, cpus: cpus}
	for i, id := range ids {
		if i > 0 && id != ids[i-1] {
			p.before = append(p.before, i)
		}
		if i == 0 || id != ids[i-1] {
			p.ids = append(p.ids, id)
		}
		p.node[i] = len(p.before) - 1
	}
	p.before = append(p.before, len(ids))
	return p
}

// anywhere is a placement that binds no thread and knows of one node.
func anywhere(threads int) placement {
	return newPlacement(make([]int, threads), make([][]int, threads))
}

// place puts threads where pin says. 0 threads means as many as there are cores, or
// processors in pin.
func (t topology) place(threads int, pin string) (placement, error) {
	free := threads
	if free == 0 {
		free = defaultThreads(t)
	}
	switch pin {
	case PinNone:
		return anywhere(free), nil
	case PinNodes, "":
		if len(t.nodes) < 2 {
			return anywhere(free), nil
		}
		ids, cpus := t.spread(free)
		for i, id := range ids {
			cpus[i] = slices.Concat(t.node(id).cores...)
		}
		return newPlacement(ids, cpus), nil
	case PinCores:
		if n := t.cores(); n < free {
			return placement{}, fmt.Errorf("%w: %d threads with a core each, and there are %d cores", ErrConfig, free, n)
		}
		ids, cpus := t.spread(free)
		used := map[int]int{}
		for i, id := range ids {
			cpus[i] = t.node(id).cores[used[id]][:1]
			used[id]++
		}
		return newPlacement(ids, cpus), nil
	}
	list, err := parseList(pin)
	if err != nil {
		return placement{}, fmt.Errorf("%w: threads are bound to nodes, cores, none or given processors; %w", ErrConfig, err)
	}
	if threads == 0 {
		threads = len(list)
	}
	if len(list) < threads {
		return placement{}, fmt.Errorf("%w: %d threads are to be bound to the %d processors %s", ErrConfig, threads, len(list), pin)
	}
	return t.placeOn(list[:threads])
}

// placeOn puts a thread onto each processor of the list, in the list's order
// but for nodes, which are kept together.
func (t topology) placeOn(list []int) (placement, error) {
	nodeOf := map[int]int{}
	for _, m := range t.nodes {
		for _, c := range slices.Concat(m.cores...) {
			nodeOf[c] = m.id
		}
	}
	for _, c := range list {
		if _, ok := nodeOf[c]; !ok {
			return placement{}, fmt.Errorf("%w: processor %d is not one that this process may use", ErrConfig, c)
		}
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b int) int { return cmp.Compare(nodeOf[a], nodeOf[b]) })
	ids, cpus := make([]int, len(list)), make([][]int, len(list))
	for i, c := range list {
		ids[i], cpus[i] = nodeOf[c], []int{c}
	}
	return newPlacement(ids, cpus), nil
}

func (t topology) node(id int) *memoryNode {
	i := slices.IndexFunc(t.nodes, func(m memoryNode) bool { return m.id == id })
	return &t.nodes[i]
}

// spread shares threads out to nodes in proportion to their cores, so that all
// memory channels are used. It returns the node of each thread, ascending, and an empty
// list for the processors of each.
func (t topology) spread(threads int) (ids []int, cpus [][]int) {
	total, upTo := t.cores(), 0
	for _, m := range t.nodes {
		upTo += len(m.cores)
		for len(ids) < (threads*upTo+total-1)/total {
			ids = append(ids, m.id)
		}
	}
	return ids, make([][]int, threads)
}

func defaultThreads(t topology) int {
	n := runtime.GOMAXPROCS(0)
	if c := t.cores(); c > 0 {
		n = min(n, c)
	}
	return n
}
