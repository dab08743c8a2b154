package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// confined in the environment has the test's binary become the program of its arguments with what a unit leaves to it: a confinement in
// JSON.
const confined = "BATON_TEST_CONFINED"

// confinement is what systemd does to a service before it starts it.
type confinement struct {
	User         int
	Capabilities []int // ambient, and the bounding set
	Calls        []int // numbers of the system calls that it may make; others fail with EPERM
}

func init() {
	text := os.Getenv(confined)
	if text == "" {
		return
	}
	fmt.Fprintln(os.Stderr, "cannot become the program:", become(text, os.Args[1:]))
	os.Exit(1)
}

func become(text string, args []string) error {
	var c confinement
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	runtime.LockOSThread() // what follows is this thread's, and the program's
	if err := c.user(); err != nil {
		return err
	}
	filter := c.filter()
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	env := slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, confined+"=") })
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no new privileges: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0); err != nil {
		return fmt.Errorf("seccomp: %w", err)
	}
	return fmt.Errorf("exec: %w", unix.Exec(args[0], args, env))
}

// user makes the thread that of another user with some capabilities, as AmbientCapabilities= does.
func (c *confinement) user() error {
	for bit := range unix.CAP_LAST_CAP + 1 {
		if !slices.Contains(c.Capabilities, bit) && bit != unix.CAP_SETPCAP {
			if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(bit), 0, 0, 0); err != nil {
				return fmt.Errorf("drop capability %d: %w", bit, err)
			}
		}
	}
	if err := unix.Prctl(unix.PR_CAPBSET_DROP, unix.CAP_SETPCAP, 0, 0, 0); err != nil {
		return fmt.Errorf("drop CAP_SETPCAP: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_KEEPCAPS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("keep capabilities: %w", err)
	}
	for name, call := range map[string][2]uintptr{"setgroups": {unix.SYS_SETGROUPS, 0}, "setresgid": {unix.SYS_SETRESGID, uintptr(c.User)}} {
		if _, _, errno := unix.RawSyscall(call[0], call[1], call[1], call[1]); errno != 0 {
			return fmt.Errorf("%s: %w", name, errno)
		}
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(c.User), uintptr(c.User), uintptr(c.User)); errno != 0 {
		return fmt.Errorf("setresuid: %w", errno)
	}
	var data [2]unix.CapUserData
	for _, bit := range c.Capabilities {
		d := &data[bit/32]
		d.Effective |= 1 << (bit % 32)
		d.Permitted, d.Inheritable = d.Effective, d.Effective
	}
	if err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &data[0]); err != nil {
		return fmt.Errorf("capset: %w", err)
	}
	for _, bit := range c.Capabilities {
		if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, uintptr(bit), 0, 0); err != nil {
			return fmt.Errorf("raise capability %d: %w", bit, err)
		}
	}
	return nil
}

// filter is the program that SystemCallFilter= makes, less its sorting.
func (c *confinement) filter() []unix.SockFilter {
	out := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}} // seccomp_data.nr
	for _, number := range c.Calls {
		out = append(out,
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: uint32(number), Jf: 1},
			unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
	}
	return append(out, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)})
}

// systemCalls returns the numbers of what a SystemCallFilter= lets pass. systemd says what its groups are.
func systemCalls(t *testing.T, names []string) []int {
	t.Helper()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("SKIP: systemd-analyze is not installed")
	}
	out, err := exec.CommandContext(t.Context(), "systemd-analyze", "syscall-filter", "--no-pager").Output()
	if err != nil {
		t.Fatal(err)
	}
	groups, group := make(map[string][]string), ""
	for lines := bufio.NewScanner(strings.NewReader(string(out))); lines.Scan(); {
		switch line := strings.TrimSpace(lines.Text()); {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(lines.Text(), "@"):
			group = line
		default:
			groups[group] = append(groups[group], line)
		}
	}
	module, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "golang.org/x/sys").Output()
	if err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(module)), "unix", "zsysnum_linux_"+runtime.GOARCH+".go"))
	if err != nil {
		t.Fatal(err)
	}
	number := make(map[string]int)
	for _, m := range regexp.MustCompile(`SYS_(\w+)\s+= (\d+)`).FindAllStringSubmatch(string(table), -1) {
		if number[strings.ToLower(m[1])], err = strconv.Atoi(m[2]); err != nil {
			t.Fatal(err)
		}
	}
	var numbers []int
	var add func(names []string)
	add = func(names []string) {
		for _, name := range names {
			if strings.HasPrefix(name, "@") {
				if len(groups[name]) == 0 {
					t.Fatalf("systemd has no group %s", name)
				}
				add(groups[name])
			} else if n, ok := number[name]; ok { // or of another architecture
				numbers = append(numbers, n)
			}
		}
	}
	add(append(names, "@default")) // which is always among them
	slices.Sort(numbers)
	return slices.Compact(numbers)
}
