package datapath

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// hierarchy is that of control groups (version 2), as it is mounted, or by a mount of our own that nobody sees, which needs CAP_SYS_ADMIN.
type hierarchy struct {
	mount *os.File // nil: of others
}

// dir is where a control group is, or would be.
func (h *hierarchy) dir(group string) (string, error) {
	mounts, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return "", fmt.Errorf("find the control group: %w", err)
	}
	defer mounts.Close()
	var lines []string
	for s := bufio.NewScanner(mounts); s.Scan(); {
		lines = append(lines, s.Text())
	}
	dir, err := cgroupDir(lines, "0::"+group)
	if err == nil || !errors.Is(err, errNotMounted) {
		return dir, err
	}
	if h.mount == nil {
		fd, failed := detachedCgroup()
		if failed != nil {
			return "", fmt.Errorf("%w; and to mount it here: %w", err, failed)
		}
		h.mount = os.NewFile(uintptr(fd), "cgroup2")
	}
	return filepath.Join(fmt.Sprintf("/proc/thread-self/fd/%d", h.mount.Fd()), group), nil
}

func (h *hierarchy) close() error {
	if h.mount == nil {
		return nil
	}
	err := h.mount.Close()
	h.mount = nil
	return err
}
