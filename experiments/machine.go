package experiments

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Machine describes where a run took place: what figures may depend on, without identifying the machine.
type Machine struct {
	Processor    string            `json:"processor"`
	Processors   int               `json:"processors"`
	Virtual      bool              `json:"virtual"`
	Memory       int64             `json:"memory_bytes"`
	Kernel       string            `json:"kernel"`
	Distribution string            `json:"distribution"`
	Go           string            `json:"go"`
	Governor     string            `json:"governor,omitempty"` // of processor 0, if available
	Sysctls      map[string]string `json:"sysctls"`
	Busy         float64           `json:"busy"` // share of all processors that was in use before the run
}

// Source identifies the program. Dirty means that the tree had changes beyond Revision.
type Source struct {
	Revision string `json:"revision,omitempty"`
	Dirty    bool   `json:"dirty"`
}

// sysctls that affect TCP, with the values of a new namespace.
var sysctls = []string{
	"net.ipv4.tcp_congestion_control", "net.core.default_qdisc", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem", "net.core.rmem_max",
	"net.core.wmem_max", "net.core.somaxconn", "net.core.netdev_max_backlog", "net.core.netdev_budget", "net.core.bpf_jit_enable",
}

func describeMachine() (Machine, error) {
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		return Machine{}, fmt.Errorf("describe the machine: %w", err)
	}
	m := Machine{Processors: runtime.NumCPU(), Kernel: unix.ByteSliceToString(uts.Release[:]), Go: runtime.Version(),
		Sysctls: map[string]string{}}
	m.Processor = field("/proc/cpuinfo", "model name")
	m.Virtual = strings.Contains(" "+field("/proc/cpuinfo", "flags")+" ", " hypervisor ")
	if kib, _, ok := strings.Cut(field("/proc/meminfo", "MemTotal"), " "); ok {
		n, _ := strconv.ParseInt(kib, 10, 64)
		m.Memory = n << 10
	}
	m.Distribution = field("/etc/os-release", "PRETTY_NAME")
	m.Governor = content("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
	for _, key := range sysctls {
		if v := content("/proc/sys/" + strings.ReplaceAll(key, ".", "/")); v != "" {
			m.Sysctls[key] = strings.Join(strings.Fields(v), " ")
		}
	}
	var err error
	m.Busy, err = busy(500 * time.Millisecond)
	return m, err
}

// busy returns the share of all processors that is in use while this process sleeps.
func busy(span time.Duration) (float64, error) {
	before, err := machineTime()
	if err != nil {
		return 0, err
	}
	began := time.Now()
	time.Sleep(span)
	after, err := machineTime()
	if err != nil {
		return 0, err
	}
	return (after - before).Seconds() / time.Since(began).Seconds() / float64(runtime.NumCPU()), nil
}

// field returns the first value of a key in a file of "key: value" or "KEY=value" lines; "" if there is none.
func field(path, key string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		i := strings.IndexAny(s.Text(), ":=")
		if i > 0 && strings.TrimSpace(s.Text()[:i]) == key {
			return strings.Trim(strings.TrimSpace(s.Text()[i+1:]), `"`)
		}
	}
	return ""
}

func content(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// describeSource reads the program's build information, or the source tree that it is in.
func describeSource(ctx context.Context) Source {
	if s, ok := built(); ok {
		return s
	}
	folders := []string{"."}
	if self, err := os.Executable(); err == nil {
		folders = append(folders, filepath.Dir(self))
	}
	for _, dir := range folders {
		top, err := git(ctx, dir, "rev-parse", "--show-toplevel")
		if err != nil || !strings.HasPrefix(content(filepath.Join(top, "go.mod")), "module baton\n") {
			continue
		}
		revision, err := git(ctx, top, "rev-parse", "HEAD")
		// The results of earlier runs do not count as changes.
		changes, err2 := git(ctx, top, "status", "--porcelain", "--", ".", ":!docs/results")
		if err == nil && err2 == nil {
			return Source{revision, changes != ""}
		}
	}
	return Source{}
}

func built() (s Source, ok bool) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return Source{}, false
	}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			s.Revision = setting.Value
		case "vcs.modified":
			s.Dirty = setting.Value == "true"
		}
	}
	return s, s.Revision != ""
}

func git(ctx context.Context, dir string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...).Output()
	return strings.TrimSpace(string(out)), err
}
