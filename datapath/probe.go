package datapath

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/features"
	"golang.org/x/sys/unix"
)

// MinimumKernel is the first Linux with tcx.
const MinimumKernel = "6.6"

// Require refuses a user without some capabilities, and a kernel without tcx.
func Require(needed []Capability) error {
	if err := RequireCapabilities(needed); err != nil {
		return err
	}
	release, is, err := kernel()
	if err != nil {
		return err
	}
	if !is(6, 6) {
		return fmt.Errorf("this is Linux %s; the data path needs %s or newer (tcx)", release, MinimumKernel)
	}
	return nil
}

// KernelIs reports whether the kernel is of a version or a newer one.
func KernelIs(major, minor int) bool {
	_, is, err := kernel()
	return err == nil && is(major, minor)
}

func kernel() (release string, is func(major, minor int) bool, err error) {
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		return "", nil, fmt.Errorf("read the kernel's version: %w", err)
	}
	release = unix.ByteSliceToString(uts.Release[:])
	var a, b int
	if _, err := fmt.Sscanf(release, "%d.%d", &a, &b); err != nil {
		return release, nil, fmt.Errorf("read the kernel's version %q: %w", release, err)
	}
	return release, func(major, minor int) bool { return a > major || a == major && b >= minor }, nil
}

// Capability is one that a process needs.
type Capability struct {
	Bit  int // CAP_…
	Name string
	Why  string // what it is needed for
}

// Needed is what every data path on interfaces needs.
var Needed = []Capability{
	{unix.CAP_NET_ADMIN, "CAP_NET_ADMIN", "to attach programs and make the tap"},
	{unix.CAP_BPF, "CAP_BPF", "to load programs and maps"},
}

// RequireCapabilities refuses a user without some capabilities, by their names.
func RequireCapabilities(needed []Capability) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return fmt.Errorf("read capabilities: %w", err)
	}
	has := func(bit int) bool { return data[bit/32].Effective&(1<<(bit%32)) != 0 }
	var missing []string
	for _, c := range needed {
		if !has(c.Bit) && !(c.Bit == unix.CAP_PERFMON && has(unix.CAP_SYS_ADMIN)) { // as capable.h has it
			missing = append(missing, c.Name+" ("+c.Why+")")
		}
	}
	if len(missing) > 0 {
		return errors.New("missing capability: " + strings.Join(missing, ", ") + "; run as root")
	}
	return nil
}

// RequireSockets refuses a kernel without programs for the sockets of control groups, or one that does not describe its structures to programs
// that look into sockets.
func RequireSockets() error {
	if _, err := btf.LoadKernelSpec(); err != nil {
		return fmt.Errorf("the kernel does not describe its structures (CONFIG_DEBUG_INFO_BTF): %w", err)
	}
	return RequireCgroups(ebpf.SockOps)
}

// RequireCgroups refuses a kernel without a type of programs for control groups.
func RequireCgroups(t ebpf.ProgramType) error {
	if err := features.HaveProgramType(t); err != nil {
		return fmt.Errorf("the kernel has no programs for sockets of control groups (CONFIG_CGROUP_BPF): %w", err)
	}
	return nil
}
