package scale

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"baton/lab"
)

// Memory is what the kernel uses for itself (bytes), as /proc/meminfo has it.
type Memory int64

// KernelMemory sums what maps, sockets and neighbours are made of. Maps of some size are vmalloc'ed, their elements and all of a
// socket are in the slabs.
func KernelMemory() (Memory, error) {
	sum, err := sumFields("/proc/meminfo", "Slab", "VmallocUsed", "Percpu", "KernelStack", "PageTables")
	return Memory(sum << 10), err
}

// sumFields adds the numbers of some "Key: 123 …" lines.
func sumFields(path string, keys ...string) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, fmt.Errorf("account: %w", err)
	}
	defer f.Close()
	var sum int64
	found := 0
	for s := bufio.NewScanner(f); s.Scan(); {
		key, value, _ := strings.Cut(s.Text(), ":")
		for _, k := range keys {
			if k != key {
				continue
			}
			n, err := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			if err != nil {
				return 0, fmt.Errorf("account: %s: %w", path, err)
			}
			sum += n
			found++
		}
	}
	if found != len(keys) {
		return 0, fmt.Errorf("account: %s: found %d of %v", path, found, keys)
	}
	return sum, nil
}

// Process is a contender's, with those that it has started.
type Process struct{ Pid int }

// pids are the process and its children.
func (p *Process) pids() []int {
	all := []int{p.Pid}
	files, _ := filepath.Glob("/proc/[0-9]*/status")
	for _, f := range files {
		if parent, err := sumFields(f, "PPid"); err == nil && int(parent) == p.Pid {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(f)))
			all = append(all, pid)
		}
	}
	return all
}

// Resident is its memory (bytes), what it shares counted for each.
func (p *Process) Resident() (int64, error) {
	var sum int64
	for _, pid := range p.pids() {
		n, err := sumFields(fmt.Sprintf("/proc/%d/status", pid), "VmRSS")
		if err != nil {
			return 0, err
		}
		sum += n << 10
	}
	return sum, nil
}

// Maps is the memory of the BPF maps that the process holds (bytes), by the kernel's own account.
func (p *Process) Maps() (int64, error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fdinfo/*", p.Pid))
	if err != nil || len(files) == 0 {
		return 0, fmt.Errorf("account: no files of process %d", p.Pid)
	}
	counted := map[int64]bool{}
	var sum int64
	for _, f := range files {
		id, err := sumFields(f, "map_id")
		if err != nil || counted[id] {
			continue // no map, or another descriptor of the same
		}
		counted[id] = true
		locked, err := sumFields(f, "memlock")
		if err != nil {
			return 0, err
		}
		sum += locked
	}
	return sum, nil
}

// Metric sums a router's metric over the lines that have all of these labels (`state="spliced"`).
func Metric(router *lab.Host, name string, labels ...string) (float64, error) {
	client := router.HTTPClient(metricPatience)
	defer client.CloseIdleConnections()
	response, err := client.Get("http://" + metricsAddress + "/metrics")
	if err != nil {
		return 0, fmt.Errorf("read metrics: %w", err)
	}
	defer response.Body.Close()
	sum := 0.0
	lines := bufio.NewScanner(response.Body)
next:
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), "baton_router_"+name+"{")
		if !ok {
			continue
		}
		for _, l := range labels {
			if !strings.Contains(rest, l) {
				continue next
			}
		}
		value, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
		if err != nil {
			return 0, fmt.Errorf("read metrics: %w", err)
		}
		sum += value
	}
	return sum, lines.Err()
}
