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

// Probe refuses a kernel or a user that the router's data path cannot work with, and says what is missing.
func Probe() error {
	if err := datapath.Require(append(slices.Clone(datapath.Needed), datapath.Capability{Bit: unix.CAP_NET_RAW, Name: "CAP_NET_RAW", Why: "to open server legs"})); err != nil {
		return err
	}
	if err := features.HaveProgramHelper(ebpf.SchedCLS, asm.FnTcpRawGenSyncookieIpv4); err != nil {
		return fmt.Errorf("the kernel cannot make SYN cookies for BPF (CONFIG_SYN_COOKIES): %w", err)
	}
	return nil
}

// CanAssign reports whether a connection that the kernel program has answered can be given to a listening socket
// (bpf_sk_assign_tcp_reqsk, Linux 6.9). Without it, what cannot be spliced is reset.
func CanAssign() bool {
	return datapath.KernelIs(6, 9)
}
