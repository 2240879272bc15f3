package metrics

import (
	"math"
	"os"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// TestProcess: the series of the process are those that the library reads, which looks at other
// files for them.
func TestProcess(t *testing.T) {
	library := prometheus.NewRegistry()
	library.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	families, err := library.Gather()
	if err != nil {
		t.Fatal(err)
	}
	want := page{}
	for _, f := range families {
		want[f.GetName()] = f
	}
	got := scrape(t, New(), false)
	for name, within := range map[string]float64{
		"process_cpu_seconds_total": 5, "process_resident_memory_bytes": 256 << 20, "process_virtual_memory_bytes": 1 << 30,
		"process_start_time_seconds": 300, "process_open_fds": 20, "process_max_fds": 0,
	} {
		if a, b := got.value(t, name), want.value(t, name); math.Abs(a-b) > within || a == 0 {
			t.Errorf("%s is %v, the library says %v", name, a, b)
		}
	}
}

// TestOpenFilesOfOldKernels: where the kernel does not tell the number, the descriptors are
// listed beside the scrape, and not again before a while has passed.
func TestOpenFilesOfOldKernels(t *testing.T) {
	var o openFiles
	if n, ok := o.last(time.Now()); ok {
		t.Errorf("%d descriptors before they were listed", n)
	}
	o.lists.Wait()
	first, ok := o.last(time.Now())
	if !ok || first < 3 {
		t.Errorf("%d descriptors", first)
	}
	for range 500 {
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
	}
	if n, _ := o.last(time.Now()); n != first || o.listing.Load() {
		t.Errorf("they were listed again at once: %d", n)
	}
	o.last(time.Now().Add(listEvery + time.Second))
	o.lists.Wait()
	if n, _ := o.last(time.Now()); n < first+400 {
		t.Errorf("%d descriptors after 500 more than %d", n, first)
	}
}
