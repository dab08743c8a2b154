package datapath

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// MinimumKernel is the oldest Linux that Baton is tested on. What an older one lacks is not tried one by one.
const MinimumKernel = "6.12"

// The features of a host that the parts use. Each is tried in a way that leaves nothing behind.
var (
	Kernel = &Feature{"Linux " + MinimumKernel, KernelVersion, tryKernel, newerKernel}

	BPF = &Feature{"bpf()", KernelFeature, tryBPF, say("a container needs --privileged, or --security-opt seccomp=unconfined with the capabilities, " +
		"and no user namespace; a kernel CONFIG_BPF_SYSCALL=y")}
	JIT = &Feature{"BPF JIT", KernelFeature, tryJIT, say("sysctl net.core.bpf_jit_enable=1")}
	BTF = &Feature{"BTF", KernelFeature, tryBTF, say("make /sys/kernel/btf/vmlinux visible (in a container: -v /sys/kernel/btf:/sys/kernel/btf:ro), " +
		"or boot a kernel with CONFIG_DEBUG_INFO_BTF=y")}
	TCX        = &Feature{"tcx", KernelFeature, tryTCX, say("boot a kernel with CONFIG_NET_XGRESS=y (it comes with CONFIG_NET_CLS_ACT)")}
	SYNCookies = &Feature{"SYN cookies", KernelFeature, tryHelper(ebpf.SchedCLS, asm.FnTcpRawGenSyncookieIpv4), say("boot a kernel with CONFIG_SYN_COOKIES=y")}
	AssignTCP  = &Feature{"bpf_sk_assign_tcp_reqsk", KernelFeature, tryFunction("bpf_sk_assign_tcp_reqsk"), say("boot a kernel with CONFIG_SYN_COOKIES=y")}
	SockOps    = &Feature{"cgroup BPF", KernelFeature, tryType(ebpf.SockOps), say("boot a kernel with CONFIG_CGROUP_BPF=y")}
	SockCreate = &Feature{"cgroup BPF for sockets", KernelFeature, tryType(ebpf.CGroupSock), say("boot a kernel with CONFIG_CGROUP_BPF=y")}
	IPv6       = &Feature{"IPv6", KernelFeature, tryIPv6, say("boot without ipv6.disable=1, with CONFIG_IPV6")}

	BPFFileSystem = &Feature{"BPF file system", FileSystem, tryBPFFS, say("mount -t bpf bpf /sys/fs/bpf (in a container: -v /sys/fs/bpf:/sys/fs/bpf)")}
	Cgroup2       = &Feature{"cgroup v2", FileSystem, tryCgroup2, say("mount -t cgroup2 none /sys/fs/cgroup; " +
		"a host whose services are in version 1: boot with systemd.unified_cgroup_hierarchy=1")}
	Tun = &Feature{"/dev/net/tun", Device, tryTun, say("modprobe tun (in a container: --device /dev/net/tun)")}

	CapBPF      = capability("CAP_BPF", unix.CAP_BPF)
	CapNetAdmin = capability("CAP_NET_ADMIN", unix.CAP_NET_ADMIN)
	CapNetRaw   = capability("CAP_NET_RAW", unix.CAP_NET_RAW)
	CapNetBind  = capability("CAP_NET_BIND_SERVICE", unix.CAP_NET_BIND_SERVICE)
	CapPerfmon  = capability("CAP_PERFMON", unix.CAP_PERFMON)
)

// EndSockets is the feature to end connections of this host. try is sockdiag's.
func EndSockets(try func() error) *Feature {
	return &Feature{"INET_DIAG_DESTROY", KernelFeature, try, say("boot a kernel with CONFIG_INET_DIAG_DESTROY=y")}
}

// ProgramsOf is the feature that a part's programs load here.
func ProgramsOf(part string, spec func() (*ebpf.CollectionSpec, error)) *Feature {
	return &Feature{"programs of the " + part, Programs, func() error { return tryPrograms(spec) }, say("")}
}

func say(remedy string) func() string { return func() string { return remedy } }

func tryKernel() error {
	release, is, err := kernel()
	if err != nil {
		return err
	}
	var major, minor int
	if _, err := fmt.Sscanf(MinimumKernel, "%d.%d", &major, &minor); err != nil {
		return err
	}
	if !is(major, minor) {
		return fmt.Errorf("this is %s", release)
	}
	return nil
}

// smallest is a program that does nothing.
func smallest() (*ebpf.Program, error) {
	return ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}})
}

func tryBPF() error {
	p, err := smallest()
	if err == nil {
		return p.Close()
	}
	if errors.Is(err, unix.EPERM) && has(unix.CAP_BPF) && has(unix.CAP_NET_ADMIN) {
		return errors.New("it is forbidden though the capabilities are there, by a seccomp filter or a user namespace") // not EPERM: that is known
	}
	return fmt.Errorf("load a program that does nothing: %w", err)
}

func tryJIT() error {
	p, err := smallest()
	if err != nil {
		return fmt.Errorf("load a program that does nothing: %w", err)
	}
	defer p.Close()
	info, err := p.Info()
	if err != nil {
		return err
	}
	if size, err := info.JitedSize(); size > 0 || err != nil && !errors.Is(err, ebpf.ErrNotSupported) {
		return err
	}
	return errors.New("programs are interpreted (net.core.bpf_jit_enable=0)")
}

func tryBTF() error {
	_, err := btf.LoadKernelSpec()
	if errors.Is(err, ebpf.ErrNotSupported) {
		return errors.New("there is no /sys/kernel/btf/vmlinux")
	}
	if err != nil {
		return fmt.Errorf("read /sys/kernel/btf/vmlinux: %w", err)
	}
	return nil
}

// tryTCX attaches to an interface that does not exist: a kernel with tcx looks for it.
func tryTCX() error {
	p, err := smallest()
	if err != nil {
		return fmt.Errorf("load a program that does nothing: %w", err)
	}
	defer p.Close()
	l, err := link.AttachTCX(link.TCXOptions{Interface: math.MaxInt32, Program: p, Attach: ebpf.AttachTCXIngress})
	if err == nil {
		return l.Close()
	}
	if errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}

func tryHelper(in ebpf.ProgramType, helper asm.BuiltinFunc) func() error {
	return func() error { return features.HaveProgramHelper(in, helper) }
}

func tryType(t ebpf.ProgramType) func() error {
	return func() error { return features.HaveProgramType(t) }
}

// tryFunction looks for a function that the kernel has for programs.
func tryFunction(name string) func() error {
	return func() error {
		spec, err := btf.LoadKernelSpec()
		if err != nil {
			return fmt.Errorf("%w: %w", errUnknown, err)
		}
		var f *btf.Func
		return spec.TypeByName(name, &f)
	}
}

func tryIPv6() error {
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("make a socket: %w", err)
	}
	return unix.Close(fd)
}

// tryBPFFS says nothing where EnsureBPFFS would succeed.
func tryBPFFS() error {
	if onBPFFS(BPFFS) {
		return nil
	}
	fd, err := unix.Fsopen("bpf", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return fmt.Errorf("none is at %s, and none can be mounted: %v", BPFFS, err) // without EPERM: that none is there is known
	}
	return unix.Close(fd)
}

func tryCgroup2() error {
	if _, err := OwnCgroup(); err != nil {
		return err
	}
	var h Hierarchy
	if _, err := h.Dir("/"); err != nil {
		return fmt.Errorf("%v", err) // without EPERM, as above
	}
	return h.Close()
}

func tryTun() error {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.EACCES) {
		return fmt.Errorf("%w: open: %w", errUnknown, err)
	}
	if err != nil {
		return os.NewSyscallError("open", err)
	}
	return unix.Close(fd)
}

// tryPrograms loads programs, and names all that the verifier refuses.
func tryPrograms(read func() (*ebpf.CollectionSpec, error)) error {
	spec, err := read()
	if err != nil {
		return fmt.Errorf("read the program: %w", err)
	}
	for _, m := range spec.Maps {
		if m.Type != ebpf.SkStorage {
			m.MaxEntries = max(m.MaxEntries, 1) // that of some is decided when they are loaded
		}
	}
	var refused []string
	for {
		programs, err := ebpf.NewCollection(spec)
		if err == nil {
			programs.Close()
			break
		}
		err = explain(err)
		var r *Refusal
		if !errors.As(err, &r) || spec.Programs[r.Program] == nil {
			return err
		}
		refused = append(refused, err.Error())
		delete(spec.Programs, r.Program)
	}
	if len(refused) == 0 {
		return nil
	}
	slices.Sort(refused) // they are loaded in no order
	return errors.New(strings.Join(refused, "; "))
}

func capability(name string, bit int) *Feature {
	return &Feature{name, Capability, func() error {
		if !has(bit) {
			return errors.New("the process does not have it")
		}
		return nil
	}, moreRights}
}

// has tells whether the process has a capability. CAP_SYS_ADMIN includes CAP_PERFMON, which was once a part of it (linux/capability.h); so it
// does CAP_BPF, which everybody who loads programs is to have by its name.
func has(bit int) bool {
	var data [2]unix.CapUserData
	if err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &data[0]); err != nil {
		return false
	}
	is := func(bit int) bool { return data[bit/32].Effective&(1<<(bit%32)) != 0 }
	return is(bit) || bit == unix.CAP_PERFMON && is(unix.CAP_SYS_ADMIN)
}

func moreRights() string {
	if os.Geteuid() == 0 {
		return "this root lacks rights, as in a container: give it --privileged, or --cap-add for each"
	}
	return "run as root"
}
