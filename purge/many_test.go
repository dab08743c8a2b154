package purge

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"baton/api"
	"baton/lab"
)

// TestMany is the same as TestManyAtOnce with fewer connections.
func TestMany(t *testing.T) {
	t.Parallel()
	many(t, 2000, 100)
}

// many has dormant connections beside idle ones, all due at once, and returns how long it takes to end them.
func many(t *testing.T, dormant, idle int) (took time.Duration) {
	t.Helper()
	const ports = 6
	n := newNetwork(t)
	n.level = "info"
	for i := range ports {
		n.closer(7000 + i)
	}
	s := n.writer(n.a, 7100)
	var kept []net.Conn
	for range idle {
		kept = append(kept, n.connectTo(vip4, 7100).conn)
		s.accept()
	}
	const policy = "policies: [{name: all, ports: [7000-7100], "
	p := n.purge(n.a, policy+"max_retries: 15, ceiling: 1h}]\n") // none is dormant
	// right behind the server's host, so that what others do with the resets costs nothing here
	n.drop(n.fromA, "meta l4proto tcp tcp flags & syn == 0 tcp sport != 7100")
	if err := n.client.Do(func() error { return vanishing(dormant, ports) }); err != nil {
		t.Fatal(err)
	}
	lab.Eventually(t, time.Minute, func() error { // each has had a timeout
		out, err := n.a.Exec(t.Context(), "ss", "-Htno", "state", "fin-wait-1")
		if err == nil && (strings.Count(out, "\n") < dormant*9/10 || strings.Contains(out, ",0)")) { // the kernel ends orphans when they are too many
			err = fmt.Errorf("%d connections", strings.Count(out, "\n"))
		}
		return err
	})
	open := uint64(len(n.orphans()))
	p.configure(policy + "wait: 0%, floor: 1ms}]\n")
	before, err := p.CPU()
	if err != nil {
		t.Fatal(err)
	}
	client := api.NewClient(p.socket)
	defer client.Close()
	begun := time.Now()
	if _, err := client.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	found := time.Since(begun)
	lab.Eventually(t, time.Minute, func() error {
		if got := &p.status().Policies[0]; got.Ended+got.Gone < open {
			return fmt.Errorf("of %d: %+v", open, got)
		}
		return nil
	})
	took = time.Since(begun)
	after, err := p.CPU()
	if err != nil {
		t.Fatal(err)
	}
	got := p.status()
	t.Logf("%d of %d ended in %v, found in %v; %v of processor time; %v", got.Policies[0].Ended, open, took, found, after-before, got.Verdicts)
	if left := n.orphans(); len(left) > 0 {
		t.Errorf("%d are left of %d", len(left), open)
	}
	for _, c := range kept {
		if _, err := c.Write([]byte{1}); err != nil {
			t.Fatalf("an idle connection: %v", err)
		}
	}
	if left := len(s.sockets()); left != idle {
		t.Errorf("%d of %d idle connections are left", left, idle)
	}
	return took
}

// closer is a server that sends something and closes, so that its connections need no descriptor.
func (n *network) closer(port int) {
	n.t.Helper()
	l, err := n.a.Listen("tcp", fmt.Sprintf("0.0.0.0:%d", port))
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write(make([]byte, 100))
			c.Close()
		}
	}()
}

// vanishing opens connections and forgets them.
func vanishing(connections, ports int) error {
	for i := range connections {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
		if err == nil {
			err = unix.Bind(fd, &unix.SockaddrInet4{Port: 10_000 + i/ports}) // no port twice, as nothing here remembers it
		}
		if err == nil {
			err = unix.Connect(fd, &unix.SockaddrInet4{Port: 7000 + i%ports, Addr: [4]byte{10, 9, 9, 9}})
		}
		if err == nil {
			err = unix.SetsockoptInt(fd, unix.SOL_TCP, unix.TCP_REPAIR, 1)
		}
		unix.Close(fd)
		if err != nil {
			return fmt.Errorf("connection %d: %w", i, err)
		}
	}
	return nil
}

// orphans lists a's connections that wait for an acknowledgement without an application.
func (n *network) orphans() []string {
	n.t.Helper()
	out, err := n.a.Exec(n.t.Context(), "ss", "-Htn", "state", "fin-wait-1")
	if err != nil {
		n.t.Fatal(err)
	}
	return slices.Collect(strings.Lines(out))
}
