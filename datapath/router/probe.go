package router

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/features"
	"golang.org/x/sys/unix"

	"baton/datapath"
)

// Probe reports what the kernel or the user's capabilities lack for the router's data path.
func Probe() error {
	if err := datapath.Require(append(slices.Clone(datapath.Needed),
		datapath.Capability{Bit: unix.CAP_NET_RAW, Name: "CAP_NET_RAW", Why: "to open server legs"},
		datapath.Capability{Bit: unix.CAP_PERFMON, Name: "CAP_SYS_ADMIN", Why: "to load programs without the checks that Linux makes of strangers' ones"}, // in which the verifier of Linux 6.18 fails
	)); err != nil {
		return err
	}
	if err := features.HaveProgramHelper(ebpf.SchedCLS, asm.FnTcpRawGenSyncookieIpv4); err != nil {
		return fmt.Errorf("the kernel cannot make SYN cookies for BPF (CONFIG_SYN_COOKIES): %w", err)
	}
	return nil
}

// CanAssign reports whether a connection that the kernel program has accepted can be assigned to a listening socket
// (bpf_sk_assign_tcp_reqsk, Linux 6.9). Without it, connections that cannot be spliced are reset.
func CanAssign() bool {
	return datapath.KernelIs(6, 9)
}
