package lab

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// netnsDir is where iproute2 looks for named namespaces.
const netnsDir = "/run/netns"

// stateName is the folder of all labs' folders.
const stateName = "baton-lab"

func stateRoot() string { return filepath.Join(os.TempDir(), stateName) }

// owner is a process, distinguished from a later one with the same pid by its start time (clock ticks after boot).
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

// Remains is something that the lab of a dead process has left.
type Remains struct {
	Kind string `json:"kind"` // process, namespace, mount or folder
	Name string `json:"name"` // "<pid> <command>", the name in /run/netns, or the path
}

func (r Remains) String() string { return r.Kind + " " + r.Name }

// Sweep removes what labs of dead processes have left, namespaces, processes in them, mounts and folders, and returns
// what it has removed. New and Run call it; labs of living processes are not touched.
func Sweep() ([]Remains, error) {
	var removed []Remains
	var errs []error
	note := func(kind string, names ...string) {
		for _, name := range names {
			removed = append(removed, Remains{kind, name})
		}
	}
	for _, name := range entries(netnsDir) {
		if o, ours := ownerOf(name); ours && !o.alive() {
			if ns, err := inode(filepath.Join(netnsDir, name)); err == nil {
				killed, err := killMatching(func(pid int) bool { return inNamespace(pid, "net", ns) })
				note("process", killed...)
				errs = append(errs, err)
			}
			there, err := removeNamespace(name)
			if there {
				note("namespace", name)
			}
			errs = append(errs, err)
		}
	}
	for _, dir := range folders() {
		if o, ours := ownerOf(filepath.Base(dir)); ours && !o.alive() {
			mounts, there, err := removeState(dir)
			note("mount", mounts...)
			if there {
				note("folder", dir)
			}
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return removed, fmt.Errorf("sweep stale labs: %w", err)
	}
	return removed, nil
}

// folders are those of all labs: under this process's folder for temporary files, and, as they are mounts, under that of
// any other.
func folders() []string {
	var dirs []string
	for _, name := range entries(stateRoot()) {
		dirs = append(dirs, filepath.Join(stateRoot(), name))
	}
	for _, m := range mountsUnder("/") {
		_, ours := ownerOf(filepath.Base(m))
		if ours && filepath.Base(filepath.Dir(m)) == stateName && !slices.Contains(dirs, m) {
			dirs = append(dirs, m)
		}
	}
	return dirs
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

// removeNamespace returns whether the name was there: another process may have removed it.
func removeNamespace(name string) (there bool, err error) {
	path := filepath.Join(netnsDir, name)
	if err := unix.Unmount(path, unix.MNT_DETACH); err != nil && err != unix.EINVAL && err != unix.ENOENT {
		return false, fmt.Errorf("unmount %s: %w", path, err)
	}
	if err := os.Remove(path); errors.Is(err, os.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("remove namespace: %w", err)
	}
	return true, nil
}

// removeState unmounts a lab's folder and what is mounted under it, deepest first, and removes it. It returns what it
// has unmounted, and whether the folder was there.
func removeState(dir string) (unmounted []string, there bool, err error) {
	for _, m := range slices.Backward(mountsUnder(dir)) {
		if err := unix.Unmount(m, unix.MNT_DETACH); err == unix.EINVAL || err == unix.ENOENT {
			continue // another process was first
		} else if err != nil {
			return unmounted, false, fmt.Errorf("unmount %s: %w", m, err)
		}
		unmounted = append(unmounted, m)
	}
	_, err = os.Lstat(dir)
	there = err == nil
	if err := os.RemoveAll(dir); err != nil {
		return unmounted, false, fmt.Errorf("remove the lab's folder: %w", err)
	}
	_ = os.Remove(filepath.Dir(dir)) // succeeds for the last lab only
	return unmounted, there, nil
}

var unescapeMount = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// mountsUnder lists where something is mounted at the folder or under it, in the order of the mounts.
func mountsUnder(dir string) []string {
	f, err := os.Open("/proc/thread-self/mountinfo")
	if err != nil {
		return nil
	}
	defer f.Close()
	var found []string
	for s := bufio.NewScanner(f); s.Scan(); {
		fields := strings.Fields(s.Text())
		if len(fields) < 5 {
			continue
		}
		if at := unescapeMount.Replace(fields[4]); at == dir || strings.HasPrefix(at, strings.TrimSuffix(dir, "/")+"/") {
			found = append(found, at)
		}
	}
	return found
}

// killMatching kills the processes that match, also those that they start meanwhile, and returns them. It returns when they have ended.
func killMatching(match func(pid int) bool) (killed []string, err error) {
	names := map[int]string{}
	err = Poll(10*time.Second, func() error {
		left := 0
		for _, name := range entries("/proc") {
			pid, err := strconv.Atoi(name)
			if err != nil || pid == os.Getpid() || !match(pid) {
				continue
			}
			comm, _ := os.ReadFile(filepath.Join("/proc", name, "comm"))
			names[pid] = strings.TrimSpace(name + " " + string(comm))
			_ = unix.Kill(pid, unix.SIGKILL) // it may have ended
			left++
		}
		if left > 0 {
			return fmt.Errorf("processes %v do not end", slices.Collect(maps.Values(names)))
		}
		return nil
	})
	return slices.Sorted(maps.Values(names)), err
}

func inode(path string) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return 0, fmt.Errorf("stat %s: %w", path, err)
	}
	return st.Ino, nil
}

func inNamespace(pid int, kind string, ns uint64) bool {
	i, err := inode(fmt.Sprintf("/proc/%d/ns/%s", pid, kind))
	return err == nil && i == ns
}

// processesIn lists the processes whose namespace of that kind ("net", "pid") has the inode.
func processesIn(kind string, ns uint64) []int {
	var found []int
	for _, name := range entries("/proc") {
		if pid, err := strconv.Atoi(name); err == nil && inNamespace(pid, kind, ns) {
			found = append(found, pid)
		}
	}
	return found
}
