package emulator

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Port is a TAP device to be made: an end of a link.
type Port struct {
	Netns    string // path of the network namespace
	Name     string // of the interface
	Offloads bool   // the host may send GSO frames and leave checksums to be completed
	Several  bool   // each Open adds a queue
}

// Offloads that a TAP device's reader takes care of (TUN_F_* of linux/if_tun.h).
const (
	tunChecksum = 0x01
	tunTSO4     = 0x02
	tunTSO6     = 0x04
	tunTSOECN   = 0x08
	tunUSO4     = 0x20
	tunUSO6     = 0x40
)

// Open makes the device and returns its descriptor. The device lives as long as that.
func (p Port) Open() (fd int, err error) {
	err = inNetns(p.Netns, func() error {
		fd, err = unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open /dev/net/tun: %w", err)
		}
		if err := p.attach(fd); err != nil {
			unix.Close(fd)
			return err
		}
		return nil
	})
	if err != nil {
		return -1, fmt.Errorf("make tap %s: %w", p.Name, err)
	}
	return fd, nil
}

func (p Port) attach(fd int) error {
	request, err := unix.NewIfreq(p.Name)
	if err != nil {
		return err
	}
	flags := uint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
	if p.Several {
		flags |= unix.IFF_MULTI_QUEUE
	} else {
		flags |= unix.IFF_TUN_EXCL
	}
	request.SetUint16(flags)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		return err
	}
	if !p.Offloads {
		return nil
	}
	const all = tunChecksum | tunTSO4 | tunTSO6 | tunTSOECN
	if unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, all|tunUSO4|tunUSO6) == nil {
		return nil
	}
	if err := unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, all); err != nil { // without UDP segments, which are of Linux 6.2
		return fmt.Errorf("set offloads: %w", err)
	}
	return nil
}

// setCarrier plugs the device in or out.
func setCarrier(fd int, on bool) error {
	value := int32(0)
	if on {
		value = 1
	}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TUNSETCARRIER, uintptr(unsafe.Pointer(&value)))
	if errno != 0 {
		return fmt.Errorf("set carrier: %w", errno)
	}
	return nil
}

// inNetns runs f on a thread in a network namespace.
func inNetns(path string, f func() error) error {
	ns, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open namespace: %w", err)
	}
	defer unix.Close(ns)
	home, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open own namespace: %w", err)
	}
	defer unix.Close(home)
	runtime.LockOSThread()
	if err := unix.Setns(ns, unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("enter namespace: %w", err)
	}
	defer func() {
		if unix.Setns(home, unix.CLONE_NEWNET) == nil { // else the thread ends with its goroutine
			runtime.UnlockOSThread()
		}
	}()
	return f()
}
