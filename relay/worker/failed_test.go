package worker

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"baton/relay/config"
)

// crammed has an end say what the other does not read, until no more is taken: most of it is in the relay's socket then. It returns how
// many bytes the relay has.
func crammed(t *testing.T, from, to *net.TCPConn) int {
	t.Helper()
	if err := to.SetReadBuffer(128 << 10); err != nil {
		t.Fatal(err)
	}
	if err := from.SetWriteDeadline(time.Now().Add(500 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	n, err := from.Write(make([]byte, 64<<20))
	if err == nil {
		t.Fatalf("%d bytes were taken for an end that reads nothing", n)
	}
	raw, err := from.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var left int
	if failed := raw.Control(func(fd uintptr) { left, err = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) }); failed != nil || err != nil {
		t.Fatal(failed, err)
	}
	return n - left
}

func smallPipes(reset time.Duration) *config.Config {
	cfg := defaults()
	cfg.Limits.Pipe = 4 << 10
	cfg.Timeouts.Reset = reset
	return cfg
}

// What a server said in front of its reset is not lost because something was to be written to it.
func TestAnswerInFrontOfFailedWrite(t *testing.T) {
	r := newRelay(t, 1, smallPipes(soon))
	client, server := r.pair()
	had := crammed(t, server, client)
	reset(t, server)
	say(t, client, "more of the request")
	time.Sleep(20 * time.Millisecond) // the relay has tried to pass it on
	got, err := io.Copy(io.Discard, client)
	if !errors.Is(err, unix.ECONNRESET) || int(got) < had {
		t.Errorf("got %d bytes, %v, want %d and a reset", got, err, had)
	}
	r.settled()
}

// An end that was reset is not kept for one that takes nothing of what it had said.
func TestResetBehindStalledEnd(t *testing.T) {
	for _, which := range []string{"client", "server"} {
		t.Run(which, func(t *testing.T) {
			r := newRelay(t, 1, smallPipes(300*time.Millisecond))
			gone, stalled := r.pair()
			if which == "server" {
				gone, stalled = stalled, gone
			}
			crammed(t, gone, stalled)
			reset(t, gone)
			r.settled()
			if _, err := io.Copy(io.Discard, stalled); !errors.Is(err, unix.ECONNRESET) {
				t.Errorf("the end that had stalled: %v, want a reset", err)
			}
		})
	}
}
