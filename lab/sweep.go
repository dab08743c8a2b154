package lab

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// netnsDir is where iproute2 looks for named namespaces.
const netnsDir = "/run/netns"

func stateRoot() string { return filepath.Join(os.TempDir(), "baton-lab") }

// owner is a process, told from a later one with the same pid by its start time (clock ticks after boot).
type owner struct {
	pid   int
	start uint64
}

func (o owner) prefix() string {
	return fmt.Sprintf("baton-%d-%s-", o.pid, strconv.FormatUint(o.start, 36))
}

var ownerPattern = regexp.MustCompile(`^baton-(\d+)-([0-9a-z]+)-\d+`)

func ownerOf(name string) (owner, bool) {
	m := ownerPattern.FindStringSubmatch(name)
	if m == nil {
		return owner{}, false
	}
	pid, err1 := strconv.Atoi(m[1])
	start, err2 := strconv.ParseUint(m[2], 36, 64)
	return owner{pid, start}, err1 == nil && err2 == nil
}

func selfOwner() (owner, error) {
	pid := os.Getpid()
	start, err := startTime(pid)
	if err != nil {
		return owner{}, fmt.Errorf("read own start time: %w", err)
	}
	return owner{pid, start}, nil
}

// alive is false for a zombie too: it may wait long for a busy parent.
func (o owner) alive() bool {
	fields, err := statFields(o.pid)
	if err != nil || fields[0] == "Z" && fields[17] == "1" { // state, threads
		return false
	}
	start, err := strconv.ParseUint(fields[19], 10, 64)
	return err == nil && start == o.start
}

// startTime reads field 22 of proc_pid_stat(5); fields are counted after the command, which may contain anything.
func startTime(pid int) (uint64, error) {
	fields, err := statFields(pid)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(fields[19], 10, 64)
}

// statFields returns the fields of /proc/pid/stat from the third (state) on.
func statFields(pid int) ([]string, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(fields) < 22 {
		return nil, fmt.Errorf("read /proc/%d/stat: %d fields", pid, len(fields))
	}
	return fields, nil
}

// Sweep removes what labs of dead processes have left: namespaces, processes in them, mounts and folders. New and
// Run call it; labs of living processes are not touched.
func Sweep() error {
	var errs []error
	for _, name := range entries(netnsDir) {
		if o, ours := ownerOf(name); ours && !o.alive() {
			killInside(filepath.Join(netnsDir, name))
			if err := removeNamespace(name); err != nil {
				errs = append(errs, err)
			}
		}
	}
	for _, name := range entries(stateRoot()) {
		if o, ours := ownerOf(name); ours && !o.alive() {
			if err := removeState(filepath.Join(stateRoot(), name)); err != nil {
				errs = append(errs, err)
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("sweep stale labs: %w", err)
	}
	return nil
}

func entries(dir string) []string {
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil // nothing has been made there yet
	}
	names := make([]string, 0, len(list))
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

func removeNamespace(name string) error {
	path := filepath.Join(netnsDir, name)
	if err := unix.Unmount(path, unix.MNT_DETACH); err != nil && err != unix.EINVAL && err != unix.ENOENT {
		return fmt.Errorf("unmount %s: %w", path, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove namespace: %w", err)
	}
	return nil
}

// removeState unmounts what is mounted under dir, deepest first, and removes dir.
func removeState(dir string) error {
	mounts := mountsUnder(dir)
	for i := len(mounts) - 1; i >= 0; i-- {
		if err := unix.Unmount(mounts[i], unix.MNT_DETACH); err != nil && err != unix.EINVAL {
			return fmt.Errorf("unmount %s: %w", mounts[i], err)
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove the lab's folder: %w", err)
	}
	_ = os.Remove(stateRoot()) // succeeds for the last lab only
	return nil
}

func mountsUnder(dir string) []string {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	defer f.Close()
	var found []string
	for s := bufio.NewScanner(f); s.Scan(); {
		if fields := strings.Fields(s.Text()); len(fields) > 4 && strings.HasPrefix(fields[4], dir+"/") {
			found = append(found, fields[4])
		}
	}
	return found
}

func killInside(path string) {
	ns, err := inode(path)
	if err != nil {
		return
	}
	for _, pid := range processesIn("net", ns) {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
}

func inode(path string) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return 0, fmt.Errorf("stat %s: %w", path, err)
	}
	return st.Ino, nil
}

// processesIn lists the processes whose namespace of that kind ("net", "pid") has the inode.
func processesIn(kind string, ns uint64) []int {
	var found []int
	for _, name := range entries("/proc") {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if i, err := inode(filepath.Join("/proc", name, "ns", kind)); err == nil && i == ns {
			found = append(found, pid)
		}
	}
	return found
}
