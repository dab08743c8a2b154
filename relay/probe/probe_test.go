package probe

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// quick are measurements of n SYNs without waiting.
func quick(n int) Options { return Options{Count: n, Every: 1, Timeout: 200 * time.Millisecond} }

// listen returns a listening port of loopback; hear, if not nil, is given each connection.
func listen(t *testing.T, address string, hear func(net.Conn)) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	if hear != nil {
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				hear(c)
			}
		}()
	}
	return l.Addr().(*net.TCPAddr).AddrPort()
}

// descriptors fails the test if it has left any open.
func descriptors(t *testing.T) {
	t.Helper()
	count := func() int {
		open, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(open)
	}
	before := count()
	t.Cleanup(func() {
		for deadline := time.Now().Add(10 * time.Second); count() > before; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Errorf("%d descriptors are open, %d were before", count(), before)
				return
			}
		}
	})
}

func whole(t *testing.T, r Result) {
	t.Helper()
	if r.Min <= 0 || r.Median < r.Min || r.Median > time.Second {
		t.Errorf("min %s, median %s", r.Min, r.Median)
	}
}

func TestAccepted(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		descriptors(t)
		const n = 10
		ends := make(chan error, n)
		target := listen(t, address, func(c net.Conn) {
			_, err := c.Read(make([]byte, 1))
			c.Close()
			ends <- err
		})
		r, err := RTT(t.Context(), target, quick(n))
		if err != nil || r.Accepted != n || r.Refused+r.Lost != 0 || r.Why != "" {
			t.Fatalf("%s: %+v, %v, want %d accepted", target, r, err, n)
		}
		whole(t, r)
		for range n {
			if err := <-ends; !errors.Is(err, unix.ECONNRESET) {
				t.Errorf("%s: a connection ends by %v at the other end, want a reset", target, err)
			}
		}
	}
}

func TestRefused(t *testing.T) {
	descriptors(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	r, err := RTT(t.Context(), l.Addr().(*net.TCPAddr).AddrPort(), quick(10))
	if err != nil || r.Refused != 10 || r.Accepted+r.Lost != 0 {
		t.Fatalf("%+v, %v, want 10 refused", r, err)
	}
	whole(t, r)
}

// full returns a port whose queue of connections is full, so that its kernel drops SYNs.
func full(t *testing.T) netip.AddrPort {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	target := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(name.(*unix.SockaddrInet4).Port))
	c, err := net.Dial("tcp", target.String()) // the one that a backlog of 0 has room for
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return target
}

func TestLost(t *testing.T) {
	descriptors(t)
	r, err := RTT(t.Context(), full(t), Options{Count: 4, Every: 1, Timeout: 30 * time.Millisecond})
	want := Result{Lost: 4, Why: "no answer"}
	if err != nil || r != want {
		t.Errorf("%+v, %v, want %+v", r, err, want)
	}
}

func TestCancelled(t *testing.T) {
	descriptors(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	r, err := RTT(ctx, full(t), Options{Count: 1000, Every: time.Millisecond})
	if !errors.Is(err, context.DeadlineExceeded) || r.Accepted+r.Refused+r.Lost > 0 {
		t.Errorf("%+v, %v, want the context's end", r, err)
	}
}

// TestOwnFaults: what this host cannot do is no loss.
func TestOwnFaults(t *testing.T) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	target := listen(t, "127.0.0.1:0", nil)
	lower := limit
	lower.Cur = 0
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &lower); err != nil {
		t.Fatal(err)
	}
	r, err := RTT(t.Context(), target, quick(3))
	if e := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); e != nil {
		t.Fatal(e)
	}
	if !errors.Is(err, unix.EMFILE) || r.Lost > 0 || !strings.HasPrefix(err.Error(), "probe "+target.String()+": ") {
		t.Errorf("%+v, %v, want too many open files", r, err)
	}
}

func TestRefusedOptions(t *testing.T) {
	port := netip.MustParseAddrPort("127.0.0.1:1")
	tests := []struct {
		name    string
		target  netip.AddrPort
		options Options
		want    string
	}{
		{"no address", netip.AddrPort{}, Options{}, "probe invalid AddrPort: no address and port"},
		{"no port", netip.MustParseAddrPort("[::1]:0"), Options{}, "probe [::1]:0: no address and port"},
		{"count", port, Options{Count: 1001}, "probe 127.0.0.1:1: 1001 SYNs: want 1 to 1000"},
		{"every", port, Options{Every: -1}, "probe 127.0.0.1:1: every -1ns: want no less than 0"},
		{"timeout", port, Options{Timeout: 2 * time.Second}, "probe 127.0.0.1:1: timeout 2s: want 0 to 1s"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := RTT(t.Context(), tt.target, tt.options); err == nil || err.Error() != tt.want {
				t.Errorf("%v, want %s", err, tt.want)
			}
		})
	}
}

func TestLeast(t *testing.T) {
	for _, tt := range []struct {
		rtts          []time.Duration
		first, median time.Duration
	}{
		{nil, 0, 0}, {[]time.Duration{7}, 7, 7}, {[]time.Duration{9, 3}, 3, 6},
		{[]time.Duration{5, 9, 3}, 3, 5}, {[]time.Duration{8, 2, 6, 4}, 2, 5},
	} {
		if first, median := least(tt.rtts); first != tt.first || median != tt.median {
			t.Errorf("%d: least %d, median %d, want %d and %d", tt.rtts, first, median, tt.first, tt.median)
		}
	}
}

func TestLossIsNoFault(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{unix.EHOSTUNREACH, "no route to host"}, {unix.EACCES, "permission denied"}, {context.DeadlineExceeded, "no answer"},
		{unix.EMFILE, ""}, {unix.EADDRNOTAVAIL, ""}, {unix.EAFNOSUPPORT, ""}, {nil, ""},
	} {
		if got := lost(&net.OpError{Op: "dial", Err: tt.err}); got != tt.want {
			t.Errorf("%v is lost by %q, want %q", tt.err, got, tt.want)
		}
	}
}
