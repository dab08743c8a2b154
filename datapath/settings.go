package datapath

import (
	"fmt"
	"os"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"
)

// Setting is one of a host's that matters for programs: what it is now, and why it matters.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"` // "": the host does not say
	About string `json:"about"`
}

// Settings are those of this host. None of them decides anything here: features are tried.
func Settings() []Setting {
	return []Setting{
		{"lockdown", lockdown(), "Baton works in each: none, integrity, confidentiality"},
		{"net.core.bpf_jit_enable", sysctl("net/core/bpf_jit_enable"), "0: programs are interpreted, and may neither call functions of the kernel nor be called back"},
		{"kernel.unprivileged_bpf_disabled", sysctl("kernel/unprivileged_bpf_disabled"), "Baton does not need it: its programs are loaded with capabilities"},
		{"cgroups", cgroups(), "services in version 1 are in no group of version 2: policies and rules for their groups find none"},
		{"memory lock", memoryLock(), "Linux counts BPF maps to the control group's memory instead"},
	}
}

func sysctl(name string) string {
	text, err := os.ReadFile("/proc/sys/" + name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

func lockdown() string {
	text, err := os.ReadFile("/sys/kernel/security/lockdown")
	if err != nil {
		return "" // no such module, or securityfs is not mounted
	}
	return chosen(string(text))
}

// chosen is the word in brackets: "none [integrity] confidentiality".
func chosen(text string) string {
	if m := regexp.MustCompile(`\[(\w+)\]`).FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return ""
}

func cgroups() string {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return ""
	}
	return cgroupVersions(string(text))
}

// cgroupVersions is by cgroups(7): version 2 is hierarchy 0, the others are of version 1.
func cgroupVersions(own string) string {
	var one, two bool
	for line := range strings.Lines(own) {
		if strings.HasPrefix(line, "0::") {
			two = true
		} else {
			one = true
		}
	}
	switch {
	case one && two:
		return "v1 and v2"
	case one:
		return "v1"
	case two:
		return "v2"
	}
	return "none"
}

func memoryLock() string {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		return ""
	}
	if limit.Cur == unix.RLIM_INFINITY {
		return "unlimited"
	}
	return fmt.Sprintf("%d KiB", limit.Cur>>10)
}
