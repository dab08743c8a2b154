package lab

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"baton/lab/emulator"
)

// Tap makes a TAP device on the host, up, and returns a file for each of its queues. The device lives as long as they are open: the caller
// closes them, or gives them to a process first.
func (h *Host) Tap(name string, queues int) ([]*os.File, error) {
	var files []*os.File
	for range queues {
		fd, err := emulator.Port{Netns: netnsDir + "/" + h.netns, Name: name, Several: queues > 1}.Open()
		if err != nil {
			for _, f := range files {
				f.Close()
			}
			return nil, fmt.Errorf("host %s: %w", h.name, err)
		}
		if err := unix.SetNonblock(fd, false); err != nil {
			return nil, fmt.Errorf("host %s: tap %s: %w", h.name, name, err)
		}
		files = append(files, os.NewFile(uintptr(fd), name))
	}
	n, err := h.lookup(name)
	if err != nil {
		return nil, err
	}
	return files, n.configure(nil, LinkOptions{})
}
