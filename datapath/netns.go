package datapath

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// OwnNetns is the cookie of the network namespace of this thread, which programs tell namespaces apart by.
func OwnNetns() (uint64, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("find the network namespace: %w", err)
	}
	defer unix.Close(fd)
	cookie, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err != nil {
		return 0, fmt.Errorf("find the network namespace: %w", err)
	}
	return cookie, nil
}
