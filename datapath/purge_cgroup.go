package datapath

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// AttachCgroup has the connections watched that the processes of a control group (version 2) and of those below it accept from now on;
// of those that are there, Arm has it done. group is its path in the hierarchy, as in /proc/PID/cgroup: "/" is the whole host. Where no
// hierarchy is mounted, it is looked at by a mount that nobody sees, which needs CAP_SYS_ADMIN.
func (p *Purge) AttachCgroup(group string) error {
	dir, err := groupDir(group)
	if err == nil {
		return p.attach(dir, group)
	}
	if !errors.Is(err, errNotMounted) {
		return err
	}
	mount, failed := detachedCgroup()
	if failed != nil {
		return fmt.Errorf("%w; and to mount it here: %w", err, failed)
	}
	defer unix.Close(mount)
	return p.attach(filepath.Join(fmt.Sprintf("/proc/self/fd/%d", mount), group), group)
}

func (p *Purge) attach(dir, group string) error {
	l, err := link.AttachCgroup(link.CgroupOptions{Path: dir, Attach: ebpf.AttachCGroupSockOps, Program: p.objects.PurgeWatch})
	if err != nil {
		return fmt.Errorf("attach to the control group %s: %w", group, err)
	}
	p.cgroups = append(p.cgroups, l)
	return nil
}

// groupDir is where a control group is mounted.
func groupDir(group string) (string, error) {
	mounts, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return "", fmt.Errorf("find the control group: %w", err)
	}
	defer mounts.Close()
	var lines []string
	for s := bufio.NewScanner(mounts); s.Scan(); {
		lines = append(lines, s.Text())
	}
	return cgroupDir(lines, "0::"+group)
}
