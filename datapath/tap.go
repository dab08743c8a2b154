package datapath

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Tap is a device whose frames user space reads and writes.
type Tap struct {
	file    *os.File
	Ifindex int
	Name    string
}

// VnetHeader is the length of the virtio-net header in front of each frame.
const VnetHeader = 10

// OpenTap makes a tap, whose frames carry a virtio-net header in front, so that segmentation offload and unfinished checksums survive the
// way. It goes with the process.
func OpenTap(name string) (_ *Tap, err error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open the tap: /dev/net/tun: %w", err)
	}
	defer func() {
		if err != nil {
			unix.Close(fd)
		}
	}()
	req, err := unix.NewIfreq(name)
	if err != nil {
		return nil, fmt.Errorf("open the tap: %w", err)
	}
	req.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, req); err != nil {
		return nil, fmt.Errorf("open the tap %s: %w", name, err)
	}
	const offloads = unix.TUN_F_CSUM | unix.TUN_F_TSO4 | unix.TUN_F_TSO6 | unix.TUN_F_TSO_ECN
	if err := unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, offloads); err != nil {
		return nil, fmt.Errorf("open the tap %s: offloads: %w", name, err)
	}
	t, err := NewTap(fd, req.Name())
	if err != nil {
		return nil, fmt.Errorf("open the tap %s: %w", req.Name(), err)
	}
	return t, nil
}

// NewTap brings up a device that was made with a descriptor (TUNSETIFF), which is the Tap's from now on unless it fails.
func NewTap(fd int, name string) (*Tap, error) {
	if err := SetUp(name); err != nil {
		return nil, err
	}
	dev, err := net.InterfaceByName(name)
	if err != nil {
		return nil, err
	}
	return &Tap{file: os.NewFile(uintptr(fd), name), Ifindex: dev.Index, Name: name}, nil
}

// SetUp brings an interface up. It gets no link-local address, as nobody is to be met there.
func SetUp(name string) error {
	_ = os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/addr_gen_mode", []byte("1"), 0o644) // a kernel without IPv6 has no such file
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var req struct {
		name  [unix.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}
	copy(req.name[:unix.IFNAMSIZ-1], name)
	req.flags = unix.IFF_UP | unix.IFF_NOARP
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&req))); errno != 0 {
		return fmt.Errorf("bring up: %w", errno)
	}
	return nil
}

// Read reads one frame, with the header in front that the device was made with, into b, which holds at least 64 KiB and the headers.
func (t *Tap) Read(b []byte) (int, error) { return t.file.Read(b) }

// Write has a frame come in by the device.
func (t *Tap) Write(b []byte) error {
	if _, err := t.file.Write(b); err != nil {
		return fmt.Errorf("write to the tap: %w", err)
	}
	return nil
}

// SetReadDeadline bounds a Read that waits. The device must have been opened without blocking.
func (t *Tap) SetReadDeadline(at time.Time) error { return t.file.SetReadDeadline(at) }

// Close ends a Read that waits.
func (t *Tap) Close() error {
	if err := t.file.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}
