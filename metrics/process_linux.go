package metrics

import (
	"bytes"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// process collects the series of this process that Python's client of Prometheus has, and
// with it vLLM. The collector of the Go client has them too, but reads eight files for them.
// Here it is one, because a gateway asks every 50 ms.
type process struct {
	start float64 // seconds since 1970
	files openFiles
	descs [6]*prometheus.Desc
}

const (
	processCPU = iota
	processResident
	processVirtual
	processStart
	processOpen
	processMax
)

// loaded is about when the process started: when this package was initialized.
var loaded = float64(time.Now().UnixNano()) / 1e9

func newProcess() prometheus.Collector {
	p := &process{start: loaded}
	for i, of := range [...]struct{ name, help string }{
		processCPU:      {"process_cpu_seconds_total", "Time that the processors have worked for this process."},
		processResident: {"process_resident_memory_bytes", "Memory of this process that is in main memory."},
		processVirtual:  {"process_virtual_memory_bytes", "Addresses that this process has reserved, with mapped files."},
		processStart:    {"process_start_time_seconds", "When this process started, in seconds since 1970."},
		processOpen:     {"process_open_fds", "Open file descriptors of this process."},
		processMax:      {"process_max_fds", "File descriptors that this process may have open."},
	} {
		p.descs[i] = prometheus.NewDesc(of.name, of.help, nil, nil)
	}
	return p
}

func (p *process) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range p.descs {
		ch <- d
	}
}

func (p *process) Collect(ch chan<- prometheus.Metric) {
	tell := func(i int, kind prometheus.ValueType, v float64) {
		ch <- prometheus.MustNewConstMetric(p.descs[i], kind, v)
	}
	tell(processStart, prometheus.GaugeValue, p.start)
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) == nil {
		tell(processCPU, prometheus.CounterValue, float64(used.Utime.Nano()+used.Stime.Nano())/1e9)
	}
	if virtual, resident, ok := pages(); ok {
		size := float64(os.Getpagesize())
		tell(processVirtual, prometheus.GaugeValue, float64(virtual)*size)
		tell(processResident, prometheus.GaugeValue, float64(resident)*size)
	}
	if n, ok := p.files.count(); ok {
		tell(processOpen, prometheus.GaugeValue, float64(n))
	}
	var most syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &most) == nil {
		tell(processMax, prometheus.GaugeValue, float64(most.Cur))
	}
}

// pages reads the first two numbers of /proc/self/statm (proc_pid_statm(5)).
func pages() (virtual, resident int64, ok bool) {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, 0, false
	}
	fields := bytes.Fields(text)
	if len(fields) < 2 {
		return 0, 0, false
	}
	virtual, err = strconv.ParseInt(string(fields[0]), 10, 64)
	resident, err2 := strconv.ParseInt(string(fields[1]), 10, 64)
	return virtual, resident, err == nil && err2 == nil
}

// openFiles counts the open file descriptors. Since Linux 6.2 the size of the folder
// /proc/self/fd is their number. Before, it is 0, and the folder has to be listed, which takes
// many milliseconds with many clients: it is done beside the scrape, at most every
// listEvery, and a scrape tells what the last list had.
type openFiles struct {
	listed  atomic.Int64 // descriptors; 0: not listed yet
	listing atomic.Bool
	lists   sync.WaitGroup
	next    atomic.Int64 // when it may be listed again, in nanoseconds since 1970
}

const listEvery = 15 * time.Second

const descriptors = "/proc/self/fd"

func (o *openFiles) count() (int64, bool) {
	info, err := os.Stat(descriptors)
	if err != nil {
		return 0, false
	}
	if n := info.Size(); n > 0 {
		return n, true
	}
	return o.last(time.Now())
}

// last returns what the last list had, and begins another one if it is old.
func (o *openFiles) last(now time.Time) (int64, bool) {
	if now.UnixNano() >= o.next.Load() && !o.listing.Swap(true) {
		o.lists.Go(func() {
			defer o.listing.Store(false)
			o.next.Store(time.Now().Add(listEvery).UnixNano())
			if f, err := os.Open(descriptors); err == nil {
				names, _ := f.Readdirnames(-1) // those read before an error are the most that is known
				_ = f.Close()
				o.listed.Store(int64(len(names)))
			}
		})
	}
	n := o.listed.Load()
	return n, n > 0
}
