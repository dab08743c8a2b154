package lab

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Commands of linux/ethtool.h whose argument is one value.
const (
	ethtoolSetRxChecksum = 0x15
	ethtoolSetTxChecksum = 0x17
	ethtoolSetSG         = 0x19
	ethtoolSetTSO        = 0x1f
	ethtoolSetGSO        = 0x24
	ethtoolSetGRO        = 0x2c
)

// Offloads switches checksum, scatter-gather, TSO, GSO and GRO offloads together. Without them every frame on the
// wire is at most one MTU long and carries its whole checksum; with them a veth carries 64 KiB frames whose TCP
// checksum holds only the pseudo header's sum.
func (n *Interface) Offloads(on bool) {
	n.Host.lab.t.Helper()
	if err := n.setOffloads(on); err != nil {
		n.Host.lab.t.Fatalf("lab: host %s: %v", n.Host.name, err)
	}
}

func (n *Interface) setOffloads(on bool) error {
	value := uint32(0)
	if on {
		value = 1
	}
	order := []uint32{ethtoolSetTxChecksum, ethtoolSetSG, ethtoolSetTSO, ethtoolSetGSO, ethtoolSetGRO}
	return n.Host.Do(func() error {
		for _, command := range order {
			if err := ethtool(n.Name, command, value); err != nil {
				return fmt.Errorf("offload %#x=%d of %s: %w", command, value, n.Name, err)
			}
		}
		// A veth's receive checksum flag is fixed on some kernels, and without the sender's offload it is moot.
		_ = ethtool(n.Name, ethtoolSetRxChecksum, value)
		return nil
	})
}

func ethtool(name string, command, value uint32) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	argument := struct{ command, value uint32 }{command, value}
	request := struct { // struct ifreq with ifr_data
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}{data: unsafe.Pointer(&argument)}
	copy(request.name[:unix.IFNAMSIZ-1], name)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request)))
	if errno != 0 {
		return errno
	}
	return nil
}
