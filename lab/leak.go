package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// leaks names what is left of a lab after its removal.
func (l *Lab) leaks(hosts []*Host) []error {
	var errs []error
	for _, name := range entries(netnsDir) {
		if strings.HasPrefix(name, l.prefix+"-") {
			errs = append(errs, fmt.Errorf("leak: namespace %s", name))
		}
	}
	if _, err := os.Stat(l.dir); err == nil {
		errs = append(errs, fmt.Errorf("leak: folder %s", l.dir))
	}
	for _, m := range mountsUnder(l.dir) {
		errs = append(errs, fmt.Errorf("leak: mount %s", m))
	}
	for _, h := range hosts {
		// A process that was killed leaves its namespace a moment after it was reaped.
		err := Poll(2*time.Second, func() error {
			pids := processesIn("net", h.inode)
			pids = slices.DeleteFunc(pids, func(pid int) bool { return pid == os.Getpid() }) // threadsIn says more
			if len(pids) > 0 {
				return fmt.Errorf("leak: processes %v in namespace %s", pids, h.netns)
			}
			return threadsIn(h)
		})
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// threadsIn finds threads of this process that were left in the host's namespace: a Do that has not returned.
func threadsIn(h *Host) error {
	for _, task := range entries("/proc/self/task") {
		if i, err := inode(filepath.Join("/proc/self/task", task, "ns/net")); err == nil && i == h.inode {
			return fmt.Errorf("leak: thread %s in namespace %s", task, h.netns)
		}
	}
	return nil
}
