package forwarder

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// programs is what the kernel has counted of BPF programs.
type programs struct {
	count uint64
	time  time.Duration
}

// statsFile switches the count on, for the whole machine.
const statsFile = "/proc/sys/kernel/bpf_stats_enabled"

// countPrograms has the kernel count, until off is called. That itself costs some 20 ns a run.
func countPrograms() (off func() error, err error) {
	was, err := os.ReadFile(statsFile)
	if err == nil {
		err = os.WriteFile(statsFile, []byte("1"), 0)
	}
	if err != nil {
		return nil, fmt.Errorf("count runs of BPF programs: %w", err)
	}
	return func() error { return os.WriteFile(statsFile, was, 0) }, nil
}

// programsOf sums over the programs that a process holds.
func programsOf(pid int) (all programs, err error) {
	seen := map[int64]bool{}
	err = eachDescriptor(pid, func(fields map[string]int64) {
		if id, ok := fields["prog_id"]; ok && fields["run_cnt"] > 0 && !seen[id] {
			seen[id] = true
			all.count += uint64(fields["run_cnt"])
			all.time += time.Duration(fields["run_time_ns"])
		}
	})
	return all, err
}

// mapMemory sums over the BPF maps that a process holds (bytes), by the kernel's own account.
func mapMemory(pid int) (sum int64, err error) {
	seen := map[int64]bool{}
	err = eachDescriptor(pid, func(fields map[string]int64) {
		if id, ok := fields["map_id"]; ok && !seen[id] {
			seen[id] = true
			sum += fields["memlock"]
		}
	})
	return sum, err
}

// eachDescriptor tells of the numbers in the fdinfo of each of a process's descriptors.
func eachDescriptor(pid int, f func(fields map[string]int64)) error {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fdinfo/*", pid))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("account: no files of process %d", pid)
	}
	for _, file := range files {
		if fields, err := numbers(file); err == nil { // it may have been closed
			f(fields)
		}
	}
	return nil
}

// anonymous is the memory of a process that is no file's (bytes). BPF maps that it has mapped are not in it.
func anonymous(pid int) (int64, error) {
	fields, err := numbers(fmt.Sprintf("/proc/%d/status", pid))
	return fields["RssAnon"] << 10, err
}

// numbers reads the "key: 123 ..." lines of a file.
func numbers(path string) (map[string]int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("account: %w", err)
	}
	defer f.Close()
	all := map[string]int64{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		key, rest, _ := strings.Cut(lines.Text(), ":")
		if words := strings.Fields(rest); len(words) > 0 {
			if n, err := strconv.ParseInt(words[0], 10, 64); err == nil {
				all[key] = n
			}
		}
	}
	return all, lines.Err()
}
