package datapath

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/features"
	"golang.org/x/sys/unix"
)

// MinimumKernel is the first Linux with tcx.
const MinimumKernel = "6.6"

// Probe refuses a kernel or a user that the router's data path cannot work with, and says what is missing.
func Probe() error {
	if err := probe(append(slices.Clone(needed), capability{unix.CAP_NET_RAW, "CAP_NET_RAW", "to open server legs"})); err != nil {
		return err
	}
	if err := features.HaveProgramHelper(ebpf.SchedCLS, asm.FnTcpRawGenSyncookieIpv4); err != nil {
		return fmt.Errorf("the kernel cannot make SYN cookies for BPF (CONFIG_SYN_COOKIES): %w", err)
	}
	return nil
}

// probe refuses a user without some capabilities, and a kernel without tcx.
func probe(needed []capability) error {
	if err := capabilities(needed); err != nil {
		return err
	}
	major, minor, release, err := kernel()
	if err != nil {
		return err
	}
	if major < 6 || major == 6 && minor < 6 {
		return fmt.Errorf("this is Linux %s; the data path needs %s or newer (tcx)", release, MinimumKernel)
	}
	return nil
}

// CanAssign reports whether a connection that the kernel program has answered can be given to a listening socket
// (bpf_sk_assign_tcp_reqsk, Linux 6.9). Without it, what cannot be spliced is reset.
func CanAssign() bool {
	major, minor, _, err := kernel()
	return err == nil && (major > 6 || major == 6 && minor >= 9)
}

func kernel() (major, minor int, release string, err error) {
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		return 0, 0, "", fmt.Errorf("read the kernel's version: %w", err)
	}
	release = unix.ByteSliceToString(uts.Release[:])
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil {
		return 0, 0, release, fmt.Errorf("read the kernel's version %q: %w", release, err)
	}
	return major, minor, release, nil
}

type capability struct {
	bit  int
	name string
	why  string
}

// needed is what every data path needs.
var needed = []capability{
	{unix.CAP_NET_ADMIN, "CAP_NET_ADMIN", "to attach programs and make the tap"},
	{unix.CAP_BPF, "CAP_BPF", "to load programs and maps"},
}

func capabilities(needed []capability) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return fmt.Errorf("read capabilities: %w", err)
	}
	has := func(bit int) bool { return data[bit/32].Effective&(1<<(bit%32)) != 0 }
	var missing []string
	for _, c := range needed {
		if !has(c.bit) && !(c.bit == unix.CAP_PERFMON && has(unix.CAP_SYS_ADMIN)) { // as capable.h has it
			missing = append(missing, c.name+" ("+c.why+")")
		}
	}
	if len(missing) > 0 {
		return errors.New("missing capability: " + strings.Join(missing, ", ") + "; run as root")
	}
	return nil
}

const bpffs = "/sys/fs/bpf"

// ensureBPFFS makes sure that dir is on a BPF file system, and mounts the usual one when nobody has.
func ensureBPFFS(dir string) error {
	onBPFFS := func(dir string) bool {
		var st unix.Statfs_t
		return unix.Statfs(dir, &st) == nil && st.Type == unix.BPF_FS_MAGIC
	}
	if onBPFFS(dir) {
		return nil
	}
	if clean := filepath.Clean(dir); clean != bpffs && !strings.HasPrefix(clean, bpffs+"/") {
		return fmt.Errorf("state directory: %s is not on a BPF file system (mount -t bpf bpf %s)", dir, dir)
	}
	if !onBPFFS(bpffs) {
		if err := unix.Mount("bpf", bpffs, "bpf", 0, "mode=0700"); err != nil {
			return fmt.Errorf("mount the BPF file system at %s: %w", bpffs, err)
		}
	}
	if err := unix.Mkdir(dir, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("make %s: %w", dir, err)
	}
	return nil
}
