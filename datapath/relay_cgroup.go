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

// AttachOwnCgroup has the sockets of this process's control group (version 2) looked at; see AttachCgroup. Where none is mounted, as in a
// mount namespace of its own, it is looked at by a mount that nobody sees, which needs CAP_SYS_ADMIN.
func (r *Relay) AttachOwnCgroup() error {
	dir, err := OwnCgroup()
	if err == nil {
		return r.AttachCgroup(dir)
	}
	if !errors.Is(err, errNotMounted) {
		return err
	}
	mount, failed := detachedCgroup()
	if failed != nil {
		return fmt.Errorf("%w; and to mount it here: %w", err, failed)
	}
	defer unix.Close(mount)
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return fmt.Errorf("find the control group: %w", err)
	}
	own, err := ownGroup(string(groups))
	if err != nil {
		return err
	}
	return r.AttachCgroup(filepath.Join(fmt.Sprintf("/proc/thread-self/fd/%d", mount), own))
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

var errNotMounted = errors.New("no version 2 is mounted (mount -t cgroup2 none /sys/fs/cgroup)")

// ownGroup is the path of a process's control group in its hierarchy, from what cgroups(7) describes.
func ownGroup(groups string) (string, error) {
	for line := range strings.Lines(groups) {
		if own, found := strings.CutPrefix(strings.TrimSpace(line), "0::"); found {
			return own, nil
		}
	}
	return "", errors.New("find the control group: the kernel has no version 2 (CONFIG_CGROUPS)")
}

// OwnCgroup finds the directory of this process's control group (version 2).
func OwnCgroup() (string, error) {
	mounts, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return "", fmt.Errorf("find the control group: %w", err)
	}
	defer mounts.Close()
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", fmt.Errorf("find the control group: %w", err)
	}
	var lines []string
	for s := bufio.NewScanner(mounts); s.Scan(); {
		lines = append(lines, s.Text())
	}
	return cgroupDir(lines, string(groups))
}

// cgroupDir finds the directory in what proc(5) and cgroups(7) describe.
func cgroupDir(mountinfo []string, groups string) (string, error) {
	own, err := ownGroup(groups)
	if err != nil {
		return "", err
	}
	for _, line := range mountinfo {
		before, after, _ := strings.Cut(line, " - ")
		f := strings.Fields(before)
		if !strings.HasPrefix(after, "cgroup2 ") || len(f) < 5 {
			continue
		}
		below, err := filepath.Rel(f[3], own)
		if err != nil || below == ".." || strings.HasPrefix(below, "../") {
			continue // another part of the hierarchy is mounted there
		}
		return filepath.Join(f[4], below), nil
	}
	return "", fmt.Errorf("find the control group: %w", errNotMounted)
}
