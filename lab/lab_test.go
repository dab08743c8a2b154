package lab_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"baton/lab"
)

const long = 20 * time.Second // for what takes milliseconds on an idle machine

// pair is a client and a server behind a router, both families.
func pair(t *testing.T, o lab.LinkOptions) (client, router, server *lab.Host) {
	t.Helper()
	l := lab.New(t)
	client, router, server = l.Host("client"), l.Host("router"), l.Host("server")
	l.Link(lab.End{Host: client, Addrs: []string{"10.1.0.2/24", "fd01::2/64"}},
		lab.End{Host: router, Addrs: []string{"10.1.0.1/24", "fd01::1/64"}}, o)
	l.Link(lab.End{Host: server, Addrs: []string{"10.2.0.2/24", "fd02::2/64"}},
		lab.End{Host: router, Addrs: []string{"10.2.0.1/24", "fd02::1/64"}}, o)
	router.Forward()
	client.Route("default", "10.1.0.1")
	client.Route("default", "fd01::1")
	server.Route("default", "10.2.0.1")
	server.Route("default", "fd02::1")
	return client, router, server
}

func TestHostsReachEachOtherThroughARouter(t *testing.T) {
	client, _, server := pair(t, lab.LinkOptions{MTU: 1400, TxQueueLen: 100, Queues: 2})
	for _, addr := range []string{"10.2.0.2:80", "[fd02::2]:80"} {
		ln, err := server.Listen("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		go http.Serve(ln, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, r.RemoteAddr)
		}))
		resp, err := client.HTTPClient(long).Get("http://" + addr + "/")
		if err != nil {
			t.Fatalf("get from %s: %v", addr, err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if host, _, err := net.SplitHostPort(string(body)); err != nil || host != "10.1.0.2" && host != "fd01::2" {
			t.Errorf("server at %s saw %q, want a client's address", addr, body)
		}
	}
	if mtu := client.Interface("eth0"); mtu.MAC == nil || mtu.Index == 0 {
		t.Errorf("interface has no identity: %+v", mtu)
	}
	out, err := client.Exec(t.Context(), "ip", "-o", "link", "show", "eth0")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"mtu 1400", "qlen 100"} {
		if !strings.Contains(out, want) {
			t.Errorf("link is %q, want %q in it", out, want)
		}
	}
}

func TestHostsAreSeenByIPNetns(t *testing.T) {
	l := lab.New(t)
	h := l.Host("seen")
	out, err := exec.Command("ip", "netns", "list").Output()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(out), h.Netns()) {
		t.Errorf("ip netns list = %q, want %s in it", out, h.Netns())
	}
}

func TestBridgeJoinsHosts(t *testing.T) {
	l := lab.New(t)
	outer, a, b := l.Host("outer"), l.Host("a"), l.Host("b")
	br := outer.Bridge("br0", "10.3.0.1/24")
	for i, h := range []*lab.Host{a, b} {
		port := l.Link(lab.End{Host: outer}, lab.End{Host: h, Addrs: []string{fmt.Sprintf("10.3.0.%d/24", i+2)}}, lab.LinkOptions{}).A
		port.Attach(br)
	}
	ln, err := b.Listen("tcp", "10.3.0.3:80")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	for _, from := range []*lab.Host{a, outer} {
		c, err := from.Dial(t.Context(), "tcp", "10.3.0.3:80")
		if err != nil {
			t.Fatalf("from %s: %v", from.Name(), err)
		}
		c.Close()
	}
}

func TestDoReturnsTheThread(t *testing.T) {
	l := lab.New(t)
	h := l.Host("h")
	before, _ := os.Readlink("/proc/thread-self/ns/net")
	var namespace string
	wanted := errors.New("from f")
	err := h.Do(func() error {
		namespace, _ = os.Readlink("/proc/thread-self/ns/net")
		return wanted
	})
	after, _ := os.Readlink("/proc/thread-self/ns/net")
	if err != wanted {
		t.Errorf("Do returned %v, want f's error", err)
	}
	if namespace == before || namespace == "" {
		t.Errorf("f ran in %q, the namespace of the test", namespace)
	}
	if after != before {
		t.Errorf("namespace after Do = %q, want %q", after, before)
	}
}

func TestSysctlsBelongToTheHost(t *testing.T) {
	l := lab.New(t)
	a, b := l.Host("a"), l.Host("b")
	a.Sysctl("net.ipv4.tcp_sack", "0")
	for h, want := range map[*lab.Host]string{a: "0", b: "1"} {
		out, err := h.Exec(t.Context(), "cat", "/proc/sys/net/ipv4/tcp_sack")
		if err != nil || strings.TrimSpace(out) != want {
			t.Errorf("tcp_sack on %s = %q (%v), want %s", h.Name(), out, err, want)
		}
	}
}

func TestProcessOutputStatusAndSignals(t *testing.T) {
	l := lab.New(t)
	h := l.Host("h")
	out, err := h.Exec(t.Context(), "sh", "-c", "echo out; echo err >&2; exit 3")
	if out != "out\n" || lab.ExitCode(err) != 3 || !strings.Contains(err.Error(), "err") {
		t.Errorf("exec = %q, %v; want out, status 3, err in the error", out, err)
	}
	if _, err := h.Start(lab.Program{Path: "/nonexistent"}); err == nil {
		t.Error("a program that does not exist was started")
	}

	p, err := h.Start(lab.Program{Path: "sh", Args: []string{"-c", `trap 'echo bye; exit 0' TERM; echo "$WORD"; cat; while :; do read x <&3; done`},
		Env: []string{"WORD=ready"}, Stdin: strings.NewReader("typed\n"), Files: []*os.File{idlePipe(t)}})
	if err != nil {
		t.Fatal(err)
	}
	lab.Eventually(t, long, func() error {
		if got := p.Stdout(); got != "ready\ntyped\n" {
			return fmt.Errorf("output so far %q", got)
		}
		return nil
	})
	if err := p.Stop(long); err != nil {
		t.Error(err)
	}
	if got := p.Log(); !strings.HasSuffix(got, "bye\n") {
		t.Errorf("log %q, want the handler's bye at its end", got)
	}
}

// idlePipe returns the end of a pipe on which nothing is sent during the test.
func idlePipe(t *testing.T) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r
}

func TestExecStopsWithItsContext(t *testing.T) {
	l := lab.New(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := l.Host("h").Exec(ctx, "sleep", "600")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want the deadline's", err)
	}
}

func TestCPUCountsDescendants(t *testing.T) {
	l := lab.New(t)
	p, err := l.Host("h").Start(lab.Program{Path: "sh", Args: []string{"-c", `sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo spent; read x <&3' & wait`},
		Files: []*os.File{idlePipe(t)}})
	if err != nil {
		t.Fatal(err)
	}
	lab.Eventually(t, long, func() error {
		if p.Stdout() == "" {
			return errors.New("still counting")
		}
		return nil
	})
	if used, err := p.CPU(); err != nil || used < lab.Tick {
		t.Errorf("cpu = %v, %v; want the child's loop in it", used, err)
	}
}

func TestNothingIsLeft(t *testing.T) {
	lab.NeedRoot(t)
	var prefix, dir string
	var pid int
	err := lab.Run(io.Discard, func(l *lab.Lab) error {
		prefix, dir = l.Prefix(), l.Dir()
		h := l.Host("h")
		if err := os.WriteFile(filepath.Join(l.BPFFS(), "file"), nil, 0o600); err == nil {
			t.Error("bpffs takes an ordinary file: it is not a bpffs")
		}
		if err := os.Mkdir(filepath.Join(l.BPFFS(), "pins"), 0o700); err != nil {
			return err
		}
		// A daemon that leaves its parent, its session and its process group.
		p, err := h.Start(lab.Program{Path: "sh", Args: []string{"-c", "setsid sleep 601 & exec sleep 602"}})
		if err != nil {
			return err
		}
		pid = p.Pid()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	checkGone(t, prefix, dir)
	if err := syscall.Kill(pid, 0); err == nil {
		t.Errorf("process %d is still there", pid)
	}
}

func checkGone(t *testing.T, prefix, dir string) {
	t.Helper()
	if left, _ := filepath.Glob("/run/netns/" + prefix + "*"); len(left) > 0 {
		t.Errorf("namespaces left: %v", left)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Errorf("folder left: %s", dir)
	}
	if mounts, _ := os.ReadFile("/proc/mounts"); bytes.Contains(mounts, []byte(prefix)) {
		t.Errorf("mount left with %s", prefix)
	}
}

func TestRunReturnsTheBuildersFailure(t *testing.T) {
	lab.NeedRoot(t)
	err := lab.Run(io.Discard, func(l *lab.Lab) error {
		l.Host("h").Route("default", "192.0.2.1")
		t.Error("a route through an unreachable gateway was made")
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "192.0.2.1") {
		t.Errorf("error %v, want one that names the gateway", err)
	}
}

func TestLeakIsReported(t *testing.T) {
	lab.NeedRoot(t)
	release := make(chan struct{})
	entered := make(chan struct{})
	left := make(chan struct{})
	err := lab.Run(io.Discard, func(l *lab.Lab) error {
		h := l.Host("h")
		go func() {
			defer close(left)
			h.Do(func() error { close(entered); <-release; return nil })
		}()
		<-entered
		return nil
	})
	close(release)
	<-left
	if err == nil || !strings.Contains(err.Error(), "leak: thread") {
		t.Errorf("error %v, want the thread that was left inside", err)
	}
}

// TestKilledOwnerLeavesNothing kills a process that has a lab with a daemon, and looks for remains.
func TestKilledOwnerLeavesNothing(t *testing.T) {
	if private := os.Getenv("LAB_TEST_VICTIM"); private != "" {
		l := lab.New(t)
		h := l.Host("h")
		h.Private(private)
		l.BPFFS()
		p, err := h.Start(lab.Program{Path: "sh", Args: []string{"-c", "setsid sleep 603 & touch " + private + "/state; echo up; exec sleep 604"}})
		if err != nil {
			t.Fatal(err)
		}
		lab.Eventually(t, long, func() error {
			if p.Stdout() == "" {
				return errors.New("not up")
			}
			return nil
		})
		fmt.Println("victim", l.Prefix(), l.Dir(), h.Netns())
		select {}
	}
	l := lab.New(t)
	victim := exec.Command(os.Args[0], "-test.run=^TestKilledOwnerLeavesNothing$", "-test.timeout=60s")
	private := t.TempDir()
	victim.Env = append(os.Environ(), "LAB_TEST_VICTIM="+private)
	out, err := victim.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	var prefix, dir, name string
	if _, err := fmt.Fscanf(out, "victim %s %s %s\n", &prefix, &dir, &name); err != nil {
		victim.Process.Kill()
		t.Fatalf("victim's report: %v", err)
	}
	ns, err := os.Stat("/run/netns/" + name)
	if err != nil {
		t.Fatal(err)
	}
	victim.Process.Kill()
	defer victim.Wait() // it stays a zombie until then
	if err := unix.Waitid(unix.P_PID, victim.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}

	lab.Eventually(t, long, func() error {
		procs, _ := filepath.Glob("/proc/[0-9]*/ns/net")
		for _, p := range procs {
			if st, err := os.Stat(p); err == nil && os.SameFile(st, ns) {
				return fmt.Errorf("%s is still in the namespace", p)
			}
		}
		return nil
	})
	removed, err := lab.Sweep()
	if err != nil {
		t.Fatal(err)
	}
	// Another lab on the machine may have swept first.
	want := []lab.Remains{{Kind: "namespace", Name: name}, {Kind: "mount", Name: dir + "/bpf"}, {Kind: "mount", Name: dir},
		{Kind: "folder", Name: dir}}
	for _, r := range removed {
		if strings.Contains(r.Name, prefix) && !slices.Contains(want, r) {
			t.Errorf("the sweep removed a %v, which the victim did not have", r)
		}
	}
	checkGone(t, prefix, dir)
	if left, err := os.ReadDir(private); err != nil || len(left) > 0 {
		t.Errorf("the host's own folder has left %v, %v", left, err)
	}
	if _, err := os.Stat("/run/netns/" + l.Host("alive").Netns()); err != nil {
		t.Errorf("the sweep touched a living lab: %v", err)
	}
}

// TestCongestionControl: connections of either end use their host's setting, not the machine's default.
func TestCongestionControl(t *testing.T) {
	for _, name := range []string{"reno", "cubic"} {
		t.Run(name, func(t *testing.T) {
			a, b, _ := emulated(t, lab.LinkOptions{})
			b.Route("default", "10.1.0.1")
			b.CongestionControl(name)
			for _, address := range []string{"10.1.0.2:7", "[fd01::2]:7"} {
				echo(t, b, address)
				c, err := a.Dial(t.Context(), "tcp", address)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				roundTrip(t, c)
			}
			out, err := b.Exec(t.Context(), "ss", "-tinH", "state", "established")
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Count(out, " "+name+" "); got != 2 {
				t.Errorf("%d connections use %s, want 2:\n%s", got, name, out)
			}
		})
	}
}

// TestRate: what a limited end sends takes its time, but for what the bucket takes at once.
func TestRate(t *testing.T) {
	const bits, bytes, atOnce = 20_000_000, 1_000_000, 256 << 10
	client, _, server := pair(t, lab.LinkOptions{Rate: bits})
	ln, err := server.Listen("tcp", "10.2.0.2:80")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		if c, err := ln.Accept(); err == nil {
			_, _ = c.Write(make([]byte, bytes))
			c.Close()
		}
	}()
	began := time.Now()
	c, err := client.Dial(t.Context(), "tcp", "10.2.0.2:80")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if n, err := io.Copy(io.Discard, c); n != bytes || err != nil {
		t.Fatalf("%d bytes, %v", n, err)
	}
	least := time.Duration(float64(bytes-atOnce) * 8 / bits * float64(time.Second))
	if took := time.Since(began); took < least {
		t.Errorf("took %v, less than %v", took, least)
	}
}
