package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"baton/cmd/cli"
	"baton/lab"
	"baton/lab/keeper"
)

// asBaton in the environment makes the test's binary be baton-lab.
const asBaton = "BATON_TEST_IS_BATON_LAB"

func TestMain(m *testing.M) {
	if os.Getenv(asBaton) != "" {
		main()
	}
	os.Exit(m.Run())
}

const long = 20 * time.Second // for what takes a moment on an idle machine

// batonLab runs the command to its end, in a folder of the test's own.
func batonLab(t *testing.T, dir string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*long)
	defer cancel()
	cmd := command(ctx, dir, args...)
	var out, errors bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errors
	err := cmd.Run()
	if ctx.Err() != nil {
		t.Fatalf("baton-lab %v does not end: %s", args, errors.String())
	}
	return out.String(), errors.String(), lab.ExitCode(err)
}

func command(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), asBaton+"=1")
	cmd.Dir = dir
	return cmd
}

// must runs a command that has to succeed.
func must(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, stderr, code := batonLab(t, dir, args...)
	if code != 0 {
		t.Fatalf("baton-lab %v: exit code %d: %s", args, code, stderr)
	}
	return out
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

const small = `hosts:
  client:
  router: {forward: true}
  server: {processes: {talker: "echo ready; exec sleep 1000"}}
links:
  - {a: client, b: router, delay: 5ms}
  - {a: router, b: server}
`

// upLab starts a lab with a name of this test's own, which is down when the test ends.
func upLab(t *testing.T, topology string) (dir, name string) {
	t.Helper()
	lab.NeedRoot(t)
	dir, name = t.TempDir(), fmt.Sprintf("test-%d", os.Getpid())
	write(t, filepath.Join(dir, "t.yaml"), topology)
	must(t, dir, "lab", "up", "t.yaml", "--name", name)
	t.Cleanup(func() {
		if r, err := keeper.Find(name); err == nil {
			if err := keeper.Stop(r); err != nil {
				t.Error(err)
			}
		}
	})
	return dir, name
}

func TestLabUpExecSetDown(t *testing.T) {
	dir, name := upLab(t, small)
	r, err := keeper.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	traces := tracesOf(r)
	if out := must(t, dir, "lab", "list"); !strings.Contains(out, name) {
		t.Errorf("list is %q, want %s in it", out, name)
	}

	// exec: the host's network, names and host name; the command's exit code, input and output.
	if out := must(t, dir, "lab", "exec", "--lab", name, "client", "hostname"); out != "client\n" {
		t.Errorf("host name is %q", out)
	}
	must(t, dir, "lab", "exec", "--lab", name, "client", "ping", "-4", "-c", "1", "-W", "10", "server")
	must(t, dir, "lab", "exec", "--lab", name, "client", "ping", "-6", "-c", "1", "-W", "10", "server")
	cmd := command(t.Context(), dir, "lab", "exec", "--lab", name, "server", "sh", "-c", "cat; pwd; exit 7")
	cmd.Stdin = strings.NewReader("through\n")
	out, err := cmd.Output()
	if want := "through\n" + dir + "\n"; string(out) != want || lab.ExitCode(err) != 7 {
		t.Errorf("exec gives %q and %v, want %q and 7", out, err, want)
	}

	// set: both directions, one of them, and what is refused.
	if out := must(t, dir, "lab", "set", "client-router", "--lab", name, "--delay", "40ms", "--loss", "0"); out != "client to router: 40ms\nrouter to client: 40ms\n" {
		t.Errorf("set says %q", out)
	}
	if out := must(t, dir, "lab", "set", "client-router", "--lab", name, "--from", "router", "--rate", "1mbit", "--queue-packets", "9"); out !=
		"client to router: 40ms\nrouter to client: 1mbit, 40ms, queue 9 packets\n" {
		t.Errorf("set says %q", out)
	}
	refused := []struct {
		args []string
		want string
	}{
		{[]string{"set", "client-router", "--rate", "fast"}, `--rate: "fast": want a number and one of bit, kbit, mbit, gbit, up to 100gbit`},
		{[]string{"set", "client-router", "--jitter", "50ms"}, `link client-router: jitter 50ms: more than the delay, 40ms`},
		{[]string{"set", "client-router"}, `nothing to set: give --delay, --loss, --rate, …`},
		{[]string{"set", "router-server", "--loss", "1%"}, "link router-server is not emulated: give it a shape or `emulated: true` in t.yaml"},
		{[]string{"set", "x", "--loss", "1%"}, `there is no link "x" in lab ` + name + " (one of client-router, router-server)"},
		{[]string{"set", "client-router", "--from", "server", "--loss", "1%"}, `link client-router joins client and router, not "server"`},
		{[]string{"link", "client-router", "sideways"}, `a link goes up or down, not "sideways"`},
		{[]string{"exec", "nobody", "true"}, `there is no host "nobody" in lab ` + name + " (one of client, router, server)"},
		{[]string{"exec", "rooter", "true"}, `there is no host "rooter" in lab ` + name + " (did you mean router?)"},
		{[]string{"logs", "server", "x"}, `host server of lab ` + name + ` has no process "x" (one of talker)`},
		{[]string{"capture", "router", "--write", "x"}, `router has the interfaces [eth0 eth1]: choose one`},
		{[]string{"capture", "router", "eth7", "--write", "x"}, `router has no interface "eth7"; there are [eth0 eth1]`},
	}
	for _, tt := range refused {
		args := slices.Insert(append([]string{"lab"}, tt.args...), 2, "--lab", name)
		if _, stderr, code := batonLab(t, dir, args...); stderr != "baton-lab: "+tt.want+"\n" || code != cli.Usage {
			t.Errorf("%v: exit code %d, %q, want %q", tt.args, code, stderr, tt.want)
		}
	}

	// link down and up.
	must(t, dir, "lab", "link", "client-router", "down", "--lab", name)
	if out := must(t, dir, "lab", "exec", "--lab", name, "client", "cat", "/sys/class/net/eth0/carrier"); out != "0\n" {
		t.Errorf("carrier is %q with the cable pulled", out)
	}
	must(t, dir, "lab", "link", "client-router", "up", "--lab", name)

	var s keeper.Status
	if err := json.Unmarshal([]byte(must(t, dir, "lab", "show", "--json", "--lab", name)), &s); err != nil {
		t.Fatal(err)
	}
	if k := s.Topology.Link("client-router"); k.BToA.Rate != 1e6 || s.Links[0].AToB.Packets == 0 || len(s.Processes) != 1 || s.Processes[0].Exited {
		t.Errorf("status is %+v", s)
	}
	lab.Eventually(t, long, func() error {
		if out := must(t, dir, "lab", "logs", "server", "--lab", name); out != "ready\n" {
			return fmt.Errorf("log is %q", out)
		}
		return nil
	})
	if out := must(t, dir, "lab", "show", "--lab", name); !strings.Contains(out, "1mbit, 40ms, queue 9 packets") {
		t.Errorf("show lacks the link's shape:\n%s", out)
	}
	if out := must(t, dir, "lab", "graph", "--dot", "--lab", name); !strings.Contains(out, "to client: 1mbit, 40ms, queue 9 packets") {
		t.Errorf("graph lacks the link's shape:\n%s", out)
	}

	// down, with a foreign process that ignores signals.
	foreign := command(t.Context(), dir, "lab", "exec", "--lab", name, "client", "sh", "-c", "trap '' HUP TERM INT; echo in; read x; sleep 1000")
	foreign.Stdin, _ = io.Pipe()
	output, _ := foreign.StdoutPipe()
	if err := foreign.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := output.Read(make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	traces.pids = append(traces.pids, foreign.Process.Pid)
	if out := must(t, dir, "lab", "down", name); out != "lab "+name+" is down\n" {
		t.Errorf("down says %q", out)
	}
	if state, _ := foreign.Process.Wait(); state.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("the foreign process has ended with %v", state)
	}
	traces.gone(t)
	if _, stderr, code := batonLab(t, dir, "lab", "down", name); code != cli.Failure || !strings.Contains(stderr, "no lab "+name) {
		t.Errorf("down again: exit code %d, %q", code, stderr)
	}
}

func TestLabCapture(t *testing.T) {
	dir, name := upLab(t, small)
	cmd := command(t.Context(), dir, "lab", "capture", "client", "--lab", name, "--write", "c.pcap", "--count", "4")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	lab.Eventually(t, 2*long, func() error {
		must(t, dir, "lab", "exec", "--lab", name, "client", "ping", "-c", "1", "-W", "10", "router")
		select {
		case err := <-ended:
			ended <- err
			return nil
		default:
			return fmt.Errorf("the capture goes on")
		}
	})
	if err := <-ended; err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	b, err := os.ReadFile(filepath.Join(dir, "c.pcap"))
	if err != nil || len(b) < 24+4*(16+42) || !bytes.Equal(b[:4], []byte{0x4d, 0x3c, 0xb2, 0xa1}) {
		t.Errorf("the file is %d bytes of no capture: %v", len(b), err)
	}
}

func TestLabNamesAreOnce(t *testing.T) {
	dir, name := upLab(t, "hosts: {a: }\n")
	_, stderr, code := batonLab(t, dir, "lab", "up", "t.yaml", "--name", name)
	if want := "baton-lab: a lab " + name + " is up: baton-lab lab down " + name + " takes it down, --name gives this one another name\n"; stderr != want || code != cli.Failure {
		t.Errorf("exit code %d, %q, want %q", code, stderr, want)
	}
	if _, err := keeper.Find(name); err != nil {
		t.Errorf("the first lab is gone: %v", err)
	}
}

// What cannot be built, or fails while it is built, leaves nothing.
func TestLabUpRefuses(t *testing.T) {
	dir := t.TempDir()
	tests := []struct {
		name, topology, want string
		code                 int
	}{
		{"bad input", "hosts: {a: }\nlinks: [{a: a, b: b}]\n", `t.yaml:2:19: links[0].b: there is no host "b"`, cli.Usage},
		{"no program", "hosts: {a: {processes: {p: [/no/such/program]}}}\n", "process p: start /no/such/program on a: ", cli.Failure},
		{"server that ends", "hosts: {a: {processes: {p: {command: echo too bad >&2; exit 3, listens: 80}}}}\n",
			"process p on a has ended before it listened on port 80: too bad\n", cli.Failure},
		{"no such setting", "hosts: {a: {sysctls: {net.ipv4.no_such_setting: 1}}}\n", "lab: host a: sysctl net.ipv4.no_such_setting=1: ", cli.Failure},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.code != cli.Usage {
				lab.NeedRoot(t)
			}
			write(t, filepath.Join(dir, "t.yaml"), tt.topology)
			name := fmt.Sprintf("test-%d", os.Getpid())
			_, stderr, code := batonLab(t, dir, "lab", "up", "t.yaml", "--name", name)
			if !strings.HasPrefix(stderr, "baton-lab: "+tt.want) || strings.Count(stderr, "\n") != 1 || code != tt.code {
				t.Errorf("exit code %d, %q, want %q", code, stderr, tt.want)
			}
			if r, err := keeper.Find(name); err == nil {
				t.Errorf("a lab is up: %+v", r)
			}
		})
	}
	if _, stderr, code := batonLab(t, dir, "lab", "up", "none.yaml"); stderr != "baton-lab: read topology: open none.yaml: no such file or directory\n" || code != cli.Usage {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}

func TestLabNeedsRoot(t *testing.T) {
	lab.NeedRoot(t) // to be somebody else
	dir := t.TempDir()
	write(t, filepath.Join(dir, "t.yaml"), small)
	binary := filepath.Join(dir, "baton")
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(binary, self, 0o755); err != nil {
		t.Fatal(err)
	}
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		_ = os.Chmod(d, 0o755)
	}
	for _, args := range [][]string{{"up", "t.yaml"}, {"list"}, {"down", "--all"}} {
		cmd := exec.CommandContext(t.Context(), binary, append([]string{"lab"}, args...)...)
		cmd.Env, cmd.Dir = append(os.Environ(), asBaton+"=1"), dir
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := cmd.CombinedOutput()
		if want := "baton-lab: network namespaces need root (CAP_SYS_ADMIN, CAP_NET_ADMIN): try sudo\n"; string(out) != want || lab.ExitCode(err) != cli.Failure {
			t.Errorf("%v: %v, %q", args, err, out)
		}
	}
}

// traces are what a lab has made on the machine.
type traces struct {
	prefix string // of names
	pids   []int
}

// tracesOf notes the processes of a lab: the keeper and all that it has started.
func tracesOf(r keeper.Record) *traces {
	x := &traces{prefix: filepath.Base(filepath.Dir(r.Dir)), pids: []int{r.PID}}
	for i := 0; i < len(x.pids); i++ {
		x.pids = append(x.pids, children(x.pids[i])...)
	}
	return x
}

func children(pid int) []int {
	var pids []int
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, f := range files {
		b, _ := os.ReadFile(f)
		for _, word := range strings.Fields(string(b)) {
			if n, err := strconv.Atoi(word); err == nil {
				pids = append(pids, n)
			}
		}
	}
	return pids
}

// gone waits until nothing of it is left.
func (x *traces) gone(t *testing.T) {
	t.Helper()
	lab.Eventually(t, long, func() error {
		names, _ := filepath.Glob("/run/netns/" + x.prefix + "*")
		folders, _ := filepath.Glob(filepath.Join(os.TempDir(), "baton-lab", x.prefix+"*"))
		mounts, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			return err
		}
		if len(names)+len(folders) > 0 || bytes.Contains(mounts, []byte(x.prefix)) {
			return fmt.Errorf("namespaces %v, folders %v or mounts are left", names, folders)
		}
		for _, pid := range x.pids {
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			if err == nil && !bytes.Contains(stat, []byte(") Z ")) {
				return fmt.Errorf("process %d is left: %s", pid, stat)
			}
		}
		return nil
	})
}

// Whatever is killed, and whenever: down --all leaves nothing. It would take down labs that are up for another reason.
func TestLabDownAllAfterKills(t *testing.T) {
	lab.NeedRoot(t)
	for _, r := range keeper.Running() {
		if !strings.HasPrefix(r.Name, "test-") {
			t.Skipf("SKIP: lab %s is up, which this test would take down", r.Name)
		}
	}
	emulator := func(x *traces) int {
		at := slices.IndexFunc(x.pids, func(pid int) bool {
			b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			return bytes.HasPrefix(b, []byte("baton-link-emulator"))
		})
		if at < 0 {
			t.Fatalf("no emulator among %v", x.pids)
		}
		return x.pids[at]
	}
	for name, victim := range map[string]func(x *traces) int{"keeper": func(x *traces) int { return x.pids[0] }, "emulator": emulator} {
		t.Run(name, func(t *testing.T) {
			dir, name := upLab(t, small)
			r, err := keeper.Find(name)
			if err != nil {
				t.Fatal(err)
			}
			x := tracesOf(r)
			foreign := command(t.Context(), dir, "lab", "exec", "--lab", name, "client", "sleep", "1000")
			if err := foreign.Start(); err != nil {
				t.Fatal(err)
			}
			go foreign.Wait()
			x.pids = append(x.pids, foreign.Process.Pid)
			lab.Eventually(t, long, func() error {
				if out, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", foreign.Process.Pid)); err != nil || string(out) != "sleep\n" {
					return fmt.Errorf("the foreign process is still %q: %v", out, err)
				}
				return nil
			})
			if err := syscall.Kill(victim(x), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			must(t, dir, "lab", "down", "--all")
			x.gone(t)
		})
	}
	var text strings.Builder // what takes a moment to build
	text.WriteString("hosts: {r: {forward: true}")
	for i := range 60 {
		fmt.Fprintf(&text, ", h%d: ", i)
	}
	text.WriteString("}\nlinks:\n")
	for i := range 60 {
		fmt.Fprintf(&text, "- {a: r, b: h%d, delay: 1ms}\n", i)
	}
	for _, victim := range []string{"up", "keeper"} {
		t.Run(victim+" on its way", func(t *testing.T) {
			dir, name := t.TempDir(), fmt.Sprintf("test-%d", os.Getpid())
			write(t, filepath.Join(dir, "t.yaml"), text.String())
			up := command(t.Context(), dir, "lab", "up", "t.yaml", "--name", name)
			if err := up.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- up.Wait() }()
			var r keeper.Record
			lab.Eventually(t, long, func() (err error) { r, err = keeper.Find(name); return err })
			x := tracesOf(r)
			if r.State != keeper.Building {
				t.Logf("the lab was up before it could be killed on its way")
			}
			pid := up.Process.Pid
			if victim == "keeper" {
				pid = r.PID
			}
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
				t.Fatal(err)
			}
			<-ended
			must(t, dir, "lab", "down", "--all")
			x.gone(t)
		})
	}
}

// Ctrl-C while a lab is being built leaves nothing of it.
func TestLabUpIsInterrupted(t *testing.T) {
	lab.NeedRoot(t)
	dir, name := t.TempDir(), fmt.Sprintf("test-%d", os.Getpid())
	write(t, filepath.Join(dir, "t.yaml"), "hosts: {a: {processes: {p: {command: sleep 1000, listens: 80}}}}\n")
	up := command(t.Context(), dir, "lab", "up", "t.yaml", "--name", name)
	var stderr bytes.Buffer
	up.Stderr = &stderr
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	var r keeper.Record
	lab.Eventually(t, long, func() (err error) { r, err = keeper.Find(name); return err })
	x := tracesOf(r)
	if err := up.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := up.Wait(); stderr.String() != "baton-lab: interrupted\n" || lab.ExitCode(err) != cli.Failure {
		t.Errorf("%v, %q", err, stderr.String())
	}
	x.gone(t)
}

// A lab in the foreground goes with Ctrl-C.
func TestLabInForeground(t *testing.T) {
	lab.NeedRoot(t)
	dir, name := t.TempDir(), fmt.Sprintf("test-%d", os.Getpid())
	write(t, filepath.Join(dir, "t.yaml"), small)
	cmd := command(t.Context(), dir, "lab", "up", "--foreground", "t.yaml", "--name", name)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var r keeper.Record
	lab.Eventually(t, long, func() (err error) {
		if r, err = keeper.Find(name); err == nil && r.State != keeper.Up {
			err = fmt.Errorf("it is %s", r.State)
		}
		return err
	})
	x := tracesOf(r)
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("%v: %s", err, stderr.String())
		}
	case <-time.After(2 * long):
		t.Fatal("it does not end")
	}
	x.gone(t)
}
