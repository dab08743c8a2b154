package relaycost

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"baton/lab"
)

// memory is what flows are made of (bytes).
type memory struct {
	resident int64 // of the contender's processes, what they share counted for each
	private  int64 // of it, what is no file's
	kernel   int64 // of the whole machine: sockets and their buffers are in the slabs
}

func (m memory) since(before memory) memory {
	return memory{m.resident - before.resident, m.private - before.private, m.kernel - before.kernel}
}

// memoryOf reads the account of processes, and of those that they have started.
func memoryOf(processes []*lab.Process) (m memory, err error) {
	for _, pid := range family(processes) {
		status, err := fields(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			return m, err
		}
		m.resident += status["VmRSS"] << 10
		m.private += status["RssAnon"] << 10
	}
	machine, err := fields("/proc/meminfo")
	for _, key := range []string{"Slab", "VmallocUsed", "Percpu", "KernelStack", "PageTables"} {
		m.kernel += machine[key] << 10
	}
	return m, err
}

// family are the processes and their children.
func family(processes []*lab.Process) (pids []int) {
	parents := map[int64]bool{}
	for _, p := range processes {
		pids = append(pids, p.Pid())
		parents[int64(p.Pid())] = true
	}
	files, _ := filepath.Glob("/proc/[0-9]*/status")
	for _, f := range files {
		if status, err := fields(f); err == nil && parents[status["PPid"]] { // else it has ended
			pids = append(pids, int(status["Pid"]))
		}
	}
	return pids
}

// fields are the numbers of a file of lines "key: 123 …".
func fields(path string) (map[string]int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("account: %w", err)
	}
	defer f.Close()
	found := map[string]int64{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		key, value, _ := strings.Cut(lines.Text(), ":")
		if words := strings.Fields(value); len(words) > 0 {
			if n, err := strconv.ParseInt(words[0], 10, 64); err == nil {
				found[key] = n
			}
		}
	}
	return found, lines.Err()
}
