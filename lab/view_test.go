package lab_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"baton/lab"
)

func TestHostsSeeTheirOwnMachine(t *testing.T) {
	l := lab.New(t)
	a, b := l.Host("a"), l.Host("b")
	// The C library looks for addresses of the families that a host has.
	l.Link(lab.End{Host: a, Name: "cable", Addrs: []string{"10.9.0.2/24", "fd09::2/64"}},
		lab.End{Host: b, Addrs: []string{"10.9.0.3/24", "fd09::3/64"}}, lab.LinkOptions{})
	a.Hosts(map[string][]netip.Addr{
		"web.example": {netip.MustParseAddr("10.9.0.1"), netip.MustParseAddr("fd09::1")},
		"a":           {netip.MustParseAddr("10.9.0.2")},
	})
	a.Resolv([]netip.Addr{netip.MustParseAddr("10.9.0.53")}, "example", "lab.example")
	pins := filepath.Join(l.BPFFS(), "pins") // mounted when the hosts were there already
	if err := os.Mkdir(pins, 0o700); err != nil {
		t.Fatal(err)
	}
	groups, err := exec.Command("ls", "/sys/fs/cgroup").Output()
	if err != nil {
		t.Fatal(err)
	}
	private := filepath.Join(t.TempDir(), "made")
	a.Private(private)
	tests := []struct {
		name    string
		command string
		a, b    string
	}{
		{"a folder of its own", "touch " + private + "/$(hostname); mountpoint -q " + private + " && echo own || echo shared", "own", "shared"},
		{"what is in it", "ls " + private, "a", "b"},
		{"host name", "hostname", "a", "b"},
		{"interfaces", "ls /sys/class/net | xargs", "cable lo", "eth0 lo"},
		{"control groups", "ls /sys/fs/cgroup", strings.TrimSpace(string(groups)), strings.TrimSpace(string(groups))},
		{"BPF file system", "[ -d " + pins + " ] && stat -f -c %T " + filepath.Dir(pins), "bpf_fs", "bpf_fs"},
		{"own address", "getent ahostsv4 $(hostname) | head -1 | cut -d' ' -f1", "10.9.0.2", "127.0.1.1"},
		{"localhost", "getent hosts localhost | cut -d' ' -f1", "::1", "::1"},
		{"a name, IPv4", "getent ahostsv4 web.example | head -1 | cut -d' ' -f1", "10.9.0.1", ""},
		{"a name, IPv6", "getent ahostsv6 web.example | head -1 | cut -d' ' -f1", "fd09::1", ""},
		{"nameserver", "cat /etc/resolv.conf", "nameserver 10.9.0.53\nsearch example lab.example", ""},
		{"order of look-ups", "grep ^hosts: /etc/nsswitch.conf", "hosts: files dns", "hosts: files dns"},
		{"what a process mounts", "mount -t tmpfs none /mnt && touch /mnt/mine && ls /mnt", "mine", "mine"},
		{"that it stays for the next", "ls /mnt", "mine", "mine"},
	}
	for _, tt := range tests {
		for h, want := range map[*lab.Host]string{a: tt.a, b: tt.b} {
			out, err := h.Exec(t.Context(), "sh", "-c", tt.command)
			if got := strings.TrimSpace(out); err != nil || got != want {
				t.Errorf("%s: %s has %q (%v), want %q", tt.name, h.Name(), got, err, want)
			}
		}
	}
	if _, err := os.Stat("/mnt/mine"); err == nil {
		t.Error("a mount of a host's process is on the machine")
	}
	if text, err := os.ReadFile("/etc/resolv.conf"); err == nil && strings.Contains(string(text), "10.9.0.53") {
		t.Error("the machine's resolv.conf is that of a host")
	}

	// A program that runs sees what changes.
	a.Hosts(map[string][]netip.Addr{"web.example": {netip.MustParseAddr("10.9.0.7")}})
	if out, _ := a.Exec(t.Context(), "getent", "ahostsv4", "web.example"); !strings.HasPrefix(out, "10.9.0.7 ") {
		t.Errorf("after the change web.example is %q", out)
	}
}

func TestProcessesStartInTheOwnersFolder(t *testing.T) {
	l := lab.New(t)
	h := l.Host("h")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "program"), []byte("#!/bin/sh\npwd\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	if out, err := h.Exec(t.Context(), "./program"); err != nil || strings.TrimSpace(out) != dir {
		t.Errorf("a program of the owner's folder says %q, %v; want %s", out, err, dir)
	}
	p, err := h.Start(lab.Program{Path: "pwd", Dir: ".."})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(t.Context()); err != nil || strings.TrimSpace(p.Stdout()) != filepath.Dir(dir) {
		t.Errorf("a relative folder is %q, %v; want %s", p.Stdout(), err, filepath.Dir(dir))
	}
}

func TestLogsAreInFiles(t *testing.T) {
	l := lab.New(t)
	h := l.Host("h")
	run := func(p lab.Program) *lab.Process {
		t.Helper()
		q, err := h.Start(p)
		if err != nil {
			t.Fatal(err)
		}
		if err := q.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		return q
	}
	script := []string{"-c", "echo out; echo err >&2"}
	for _, tt := range []struct {
		program lab.Program
		want    string
	}{
		{lab.Program{Path: "/bin/sh", Args: script}, "sh.log"},
		{lab.Program{Path: "sh", Args: script}, "sh-2.log"},
		{lab.Program{Path: "sh", Args: script, Name: "web"}, "web.log"},
	} {
		p := run(tt.program)
		want := filepath.Join(l.LogDir(), "h", tt.want)
		if p.LogFile() != want {
			t.Errorf("log in %s, want %s", p.LogFile(), want)
		}
		text, err := os.ReadFile(want)
		if err != nil || len(text) != len("out\nerr\n") || len(p.Log()) != len(text) {
			t.Errorf("log %q, %v; want both outputs", text, err)
		}
	}
	if _, err := h.Exec(t.Context(), "echo", "result"); err != nil {
		t.Fatal(err)
	}
	p := run(lab.Program{Path: "sh", Args: script, Unlogged: true})
	if p.LogFile() != "" || p.Stdout() != "out\n" {
		t.Errorf("unlogged process: log in %q, output %q", p.LogFile(), p.Stdout())
	}
	run(lab.Program{Path: "true"})
	if files, _ := filepath.Glob(l.LogDir() + "/*/*"); len(files) != 3 {
		t.Errorf("logs %v, want three", files)
	}
	if _, err := h.Start(lab.Program{Path: "true", Name: "../x"}); err == nil {
		t.Error("a name with a slash was taken")
	}
}

const foreignVariable = "LAB_TEST_FOREIGN"

// foreignProcess runs a shell on a host that another process has made. Its standard output is the shell's.
func foreignProcess(t *testing.T, h *lab.Host, script string) *exec.Cmd {
	t.Helper()
	where, err := json.Marshal(h.Namespaces())
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestForeignProcessSeesTheHost$")
	cmd.Env = append(os.Environ(), foreignVariable+"="+string(where), "LAB_TEST_SCRIPT="+script)
	return cmd
}

func TestForeignProcessSeesTheHost(t *testing.T) {
	if where := os.Getenv(foreignVariable); where != "" {
		runtime.LockOSThread()
		var n lab.Namespaces
		if err := json.Unmarshal([]byte(where), &n); err != nil {
			t.Fatal(err)
		}
		if err := n.Enter(); err != nil {
			t.Fatal(err)
		}
		t.Fatal(unix.Exec("/bin/sh", []string{"sh", "-c", os.Getenv("LAB_TEST_SCRIPT")}, os.Environ()))
	}
	l := lab.New(t)
	h := l.Host("visited")
	h.Bridge("br7")
	h.Resolv([]netip.Addr{netip.MustParseAddr("10.9.0.53")})
	out, err := foreignProcess(t, h, "hostname; ls /sys/class/net | xargs; ip -br link | cut -d' ' -f1 | xargs; cat /etc/resolv.conf").CombinedOutput()
	if want := "visited\nbr7 lo\nlo br7\nnameserver 10.9.0.53\n"; err != nil || string(out) != want {
		t.Errorf("a foreign process sees %q, %v; want %q", out, err, want)
	}
}

func TestForeignProcessEndsWithTheLab(t *testing.T) {
	lab.NeedRoot(t)
	for _, tt := range []struct {
		name   string
		script string
		admit  bool
	}{
		{"admitted", "echo in; exec sleep 605", true},
		{"in a network of its own", "echo in; exec unshare -n sleep 606", true},
		{"not admitted", "echo in; exec sleep 607", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var cmd *exec.Cmd
			err := lab.Run(io.Discard, func(l *lab.Lab) error {
				if tt.admit {
					l.AdmitForeign()
				}
				cmd = foreignProcess(t, l.Host("h"), tt.script)
				out, err := cmd.StdoutPipe()
				if err != nil {
					return err
				}
				if err := cmd.Start(); err != nil {
					return err
				}
				_, err = fmt.Fscanln(out, new(string))
				return err
			})
			if tt.admit {
				if err != nil {
					t.Error(err)
				}
			} else {
				if err == nil || !strings.Contains(err.Error(), "leak: process") {
					t.Errorf("error %v, want the foreign process named", err)
				}
				_ = cmd.Process.Kill()
			}
			if err := cmd.Wait(); err == nil || lab.ExitCode(err) != -1 {
				t.Errorf("the foreign process ended with %v, want a signal", err)
			}
		})
	}
}
