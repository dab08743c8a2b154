package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/netip"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"baton/api"
	"baton/cmd/cli"
)

// manySessions is a daemon with so many sessions, of clients 10.0.0.0 and up, in turn of surrogates s0 to s3.
func manySessions(t *testing.T, n int, each func(i int)) (socket string) {
	t.Helper()
	list := func(_ context.Context, yield func(api.RouterSession) bool) error {
		for i := range n {
			each(i)
			if !yield(api.RouterSession{
				Client:    netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 40000),
				VIP:       netip.MustParseAddrPort("192.0.2.1:80"),
				Surrogate: fmt.Sprint("s", i%4), State: api.RouterSessionSpliced, Since: time.Now(), IdleFor: 1234567,
				Leg: api.RouterLeg{
					Local: netip.MustParseAddrPort("10.2.1.1:40000"), Remote: netip.MustParseAddrPort("10.2.1.2:80"),
				},
				Received: 1000, Sent: uint64(i), Requests: 1,
			}) {
				break
			}
		}
		return nil
	}
	return serve(t, api.Backend{Part: api.RouterBackend{Sessions: list}})
}

// TestSessions: the flags select, and a table says how many there are.
func TestSessions(t *testing.T) {
	socket := manySessions(t, 1000, func(int) {})
	for _, tt := range []struct {
		args string
		code int
		last string // line of the output, or of the complaint
		all  int    // lines
	}{
		{"", 0, "1000 sessions", 1002},
		{"--client 10.0.0.0/24", 0, "256 sessions", 258},
		{"--client 10.0.0.7", 0, "1 session", 3},
		{"--client 2001:db8::/32", 0, "0 sessions", 2},
		{"--surrogate s1", 0, "250 sessions", 252},
		{"--surrogate nosuch", 0, "0 sessions", 2},
		{"--surrogate s1 --client 10.0.0.0/24", 0, "64 sessions", 66},
		{"--limit 20", 0, "20 of 1000 sessions", 22},
		{"--limit 20 --surrogate s1", 0, "20 of 250 sessions", 22},
		{"--limit 250 --surrogate s1", 0, "250 sessions", 252},
		{"--limit 2000", 0, "1000 sessions", 1002},
		{"--count", 0, "1000", 1},
		{"--count --limit 20 --surrogate s1", 0, "250", 1},
		{"--count -o json", 0, "}", 3},
		{"--limit 20 -o json", 0, `{"client":"10.0.0.19:40000"`, 20},
		{"--client foo", cli.Usage, `baton: --client: "foo" is not an IP address or prefix, such as 192.0.2.7 or 192.0`, 1},
		{"--limit -1", cli.Usage, "baton: --limit: -1 is not a number of sessions, such as 100", 1},
	} {
		args := append([]string{"router", "sessions", "--control", socket}, strings.Fields(tt.args)...)
		code, out, errs := said(t, args...)
		lines := strings.Split(strings.TrimSpace(out+errs), "\n")
		if code != tt.code || len(lines) != tt.all || !strings.HasPrefix(lines[len(lines)-1], tt.last) {
			t.Errorf("%s: status %d, %d lines, the last %q; want %d, %d, %q",
				tt.args, code, len(lines), lines[len(lines)-1], tt.code, tt.all, tt.last)
		}
	}
}

// firstWrite tells of the first write.
type firstWrite struct {
	io.Writer
	done func()
}

func (w *firstWrite) Write(b []byte) (int, error) {
	w.done()
	return w.Writer.Write(b)
}

// TestSessionsStream: sessions are printed while the router looks for more.
func TestSessionsStream(t *testing.T) {
	const many = 5000
	for _, format := range []string{"table", "json", "yaml"} {
		ctx, cancel := context.WithTimeout(t.Context(), long)
		socket := manySessions(t, many, func(i int) {
			if i == many-1 {
				<-ctx.Done()
			}
		})
		var out bytes.Buffer
		began := time.Now()
		args := []string{"router", "sessions", "--control", socket, "-o", format}
		code := run(t.Context(), cli.Env{Out: &firstWrite{&out, cancel}, Err: &out}, args)
		if took := time.Since(began); code != 0 || took >= long {
			t.Errorf("%s: status %d; nothing is printed before the last session is found, after %v", format, code, took)
		}
	}
}

// TestSessionsMemory: a long list is in memory neither in the router nor in the command.
func TestSessionsMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("lists many sessions")
	}
	const many, most = 100_000, 16 << 20
	for _, format := range []string{"table", "json"} {
		var highest atomic.Uint64
		var before runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		socket := manySessions(t, many, func(i int) {
			if i%5000 != 0 {
				return
			}
			var now runtime.MemStats
			runtime.GC() // what is left is in use
			runtime.ReadMemStats(&now)
			highest.Store(max(highest.Load(), now.HeapAlloc))
		})
		began := time.Now()
		args := []string{"router", "sessions", "--control", socket, "-o", format}
		if code := run(t.Context(), cli.Env{Out: io.Discard, Err: io.Discard}, args); code != 0 {
			t.Fatalf("%s: status %d", format, code)
		}
		used := int64(highest.Load()) - int64(before.HeapAlloc)
		took := time.Since(began).Round(time.Millisecond)
		t.Logf("%s: %d sessions in %v, %d KiB in use at most", format, many, took, used>>10)
		if used > most {
			t.Errorf("%s: %d sessions keep %d bytes in memory, want at most %d", format, many, used, most)
		}
	}
}
