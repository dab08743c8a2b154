package forwarder

import (
	"fmt"
	"net"

	"golang.org/x/sys/unix"

	"baton/datapath"
)

// openLoop makes the device that copies of packets take on their way back into the forwarder, and that user space writes its own to. It
// outlives the process, since installed flow entries need it, and an earlier process's is taken over.
func openLoop(name string) (_ *datapath.Tap, err error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open the loop device: /dev/net/tun: %w", err)
	}
	defer func() {
		if err != nil {
			unix.Close(fd)
		}
	}()
	req, err := unix.NewIfreq(name)
	if err != nil {
		return nil, fmt.Errorf("open the loop device: %w", err)
	}
	req.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, req); err != nil {
		return nil, fmt.Errorf("open the loop device %s: %w", name, err)
	}
	if err := unix.IoctlSetInt(fd, unix.TUNSETPERSIST, 1); err != nil {
		return nil, fmt.Errorf("open the loop device %s: %w", name, err)
	}
	t, err := datapath.NewTap(fd, name)
	if err != nil {
		return nil, fmt.Errorf("open the loop device %s: %w", name, err)
	}
	return t, nil
}

// removeLoop removes the device if it is there.
func removeLoop(name string) error {
	if _, err := net.InterfaceByName(name); err != nil {
		return nil
	}
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("remove the loop device: /dev/net/tun: %w", err)
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq(name)
	if err != nil {
		return fmt.Errorf("remove the loop device: %w", err)
	}
	req.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, req); err != nil {
		return fmt.Errorf("remove the loop device %s: %w", name, err)
	}
	if err := unix.IoctlSetInt(fd, unix.TUNSETPERSIST, 0); err != nil {
		return fmt.Errorf("remove the loop device %s: %w", name, err)
	}
	return nil
}
