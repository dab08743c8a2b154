package forwarder

import (
	"fmt"
	"net"

	"golang.org/x/sys/unix"

	"baton/datapath"
)

// openLoop makes the device through which copies of packets re-enter the forwarder, and to which user space writes its own. It outlives the
// process, because installed flow entries need it, and the next process takes it over.
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

// removeLoop removes the device if it exists.
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
