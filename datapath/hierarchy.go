package datapath

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Hierarchy is that of control groups (version 2), as it is mounted, or by a mount of our own that nobody sees, which needs CAP_SYS_ADMIN.
type Hierarchy struct {
	mount *os.File // nil: of others
}

// Dir is where a control group is, or would be.
func (h *Hierarchy) Dir(group string) (string, error) {
	mounts, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return "", fmt.Errorf("find the control group: %w", err)
	}
	defer mounts.Close()
	var lines []string
	for s := bufio.NewScanner(mounts); s.Scan(); {
		lines = append(lines, s.Text())
	}
	dir, err := cgroupDir(lines, group)
	if err == nil || !errors.Is(err, errNotMounted) {
		return dir, err
	}
	if h.mount == nil {
		fd, failed := detachedCgroup()
		if failed != nil {
			return "", fmt.Errorf("%w, and none can be mounted: %w", err, failed)
		}
		h.mount = os.NewFile(uintptr(fd), "cgroup2")
	}
	return filepath.Join(fmt.Sprintf("/proc/thread-self/fd/%d", h.mount.Fd()), group), nil
}

// Close undoes the mount of our own.
func (h *Hierarchy) Close() error {
	if h.mount == nil {
		return nil
	}
	err := h.mount.Close()
	h.mount = nil
	return err
}

// detachedCgroup mounts the hierarchy in no place. The caller closes the descriptor, and with it the mount.
func detachedCgroup() (int, error) {
	fs, err := unix.Fsopen("cgroup2", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("fsopen: %w", err)
	}
	defer unix.Close(fs)
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, fmt.Errorf("fsconfig: %w", err)
	}
	mount, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("fsmount: %w", err)
	}
	return mount, nil
}

var errNotMounted = errors.New("no version 2 is mounted")

// OwnCgroup is the path of this process's control group (version 2) in the hierarchy.
func OwnCgroup() (string, error) {
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", fmt.Errorf("find the control group: %w", err)
	}
	return ownGroup(string(groups))
}

// ownGroup finds it in what cgroups(7) describes.
func ownGroup(groups string) (string, error) {
	for line := range strings.Lines(groups) {
		if own, found := strings.CutPrefix(strings.TrimSpace(line), "0::"); found {
			return own, nil
		}
	}
	return "", errors.New("find the control group: the kernel has no version 2 (CONFIG_CGROUPS)")
}

// cgroupDir finds a group's directory in what proc(5) describes.
func cgroupDir(mountinfo []string, group string) (string, error) {
	for _, line := range mountinfo {
		before, after, _ := strings.Cut(line, " - ")
		f := strings.Fields(before)
		if !strings.HasPrefix(after, "cgroup2 ") || len(f) < 5 {
			continue
		}
		below, err := filepath.Rel(f[3], group)
		if err != nil || below == ".." || strings.HasPrefix(below, "../") {
			continue // another part of the hierarchy is mounted there
		}
		return filepath.Join(f[4], below), nil
	}
	return "", fmt.Errorf("find the control group: %w", errNotMounted)
}
