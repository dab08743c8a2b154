package sockdiag

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// BenchmarkListTCP lists 100,000 sockets: the two ends of 50,000 connections over loopback. They are held by several processes, as root in a
// container may not open as many files in one.
func BenchmarkListTCP(b *testing.B) {
	const connections, holders = 50_000, 10
	c := open(b)
	for i := range holders {
		hold(b, i, connections/holders)
	}
	filters := map[string]Filter{
		"all":    {},
		"half":   {Local: []netip.Prefix{netip.MustParsePrefix("127.2.0.0/16")}},
		"nobody": {Local: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}},
	}
	want := map[string]int{"all": 2 * connections, "half": connections}
	for name, f := range filters {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				n := 0
				if err := c.ListTCP(f, func(*TCP) { n++ }); err != nil {
					b.Fatal(err)
				}
				if n != want[name] {
					b.Fatalf("%d sockets are listed", n)
				}
			}
		})
	}
}

// holdEnv is set for a process that holds connections: how many, and to which address.
const holdEnv = "BATON_SOCKDIAG_HOLD"

// hold has another process hold connections from 127.2.0.… to 127.1.0.…, until the benchmark ends or the process does.
func hold(b *testing.B, number, connections int) {
	b.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %d", holdEnv, number+1, connections))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			b.Errorf("hold connections: %v", err)
		}
	})
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
		b.Fatalf("hold connections: %v", err)
	}
}

// holding is the other process: it writes a byte when there are all connections, and ends with its standard input.
func holding(what string) error {
	var number byte
	var connections int
	if _, err := fmt.Sscan(what, &number, &connections); err != nil {
		return err
	}
	if err := connectMany(number, connections); err != nil {
		return err
	}
	if _, err := os.Stdout.Write([]byte{0}); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

func connectMany(number byte, connections int) error {
	need := uint64(2*connections + 100)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: need, Max: need}); err != nil {
		return fmt.Errorf("be allowed %d files: %w", need, err)
	}
	listener, err := bound([4]byte{127, 1, 0, number})
	if err != nil {
		return err
	}
	if err := unix.Listen(listener, 16); err != nil {
		return err
	}
	at, err := unix.Getsockname(listener)
	if err != nil {
		return err
	}
	for range connections {
		fd, err := bound([4]byte{127, 2, 0, number})
		if err != nil {
			return err
		}
		if err := unix.Connect(fd, at); err != nil {
			return err
		}
		if _, _, err := unix.Accept4(listener, unix.SOCK_CLOEXEC); err != nil {
			return err
		}
	}
	return nil
}

func bound(to [4]byte) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	return fd, errors.Join(err, unix.Bind(fd, &unix.SockaddrInet4{Addr: to}))
}
