package balance

import (
	"slices"
	"testing"

	"baton/datapath/kerneltest"

	"golang.org/x/sys/unix"
)

// socketMark is that of a socket which is made now.
func socketMark(t *testing.T) uint32 {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	m, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(m)
}

// TestApplications marks the sockets of the whole host, which nobody looks at, for a moment.
func TestApplications(t *testing.T) {
	kerneltest.Need(t)
	const mask, first, second = 0xff000000, 0x41000000, 0x42000000
	a := &Applications{Mask: mask, Least: first}
	defer a.Close()
	before := kerneltest.Programs(t, "application_mark")
	set := func(want uint32, all ...Application) {
		t.Helper()
		if err := a.Set(all); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Attach(); err != nil {
			t.Fatal(err)
		}
		if got := socketMark(t); got != want {
			t.Errorf("%v: mark %#x, want %#x", all, got, want)
		}
	}
	if got := socketMark(t); got != 0 {
		t.Skipf("SKIP: sockets have the mark %#x on this host", got)
	}
	set(0)
	set(second, Application{"/", second})
	set(first, Application{"/", second}, Application{"/", first})
	set(first, Application{"/", first}, Application{"/", second})
	set(second, Application{"/", second}, Application{"/baton-no-such-group", first})
	if missing, err := a.Attach(); err != nil || !slices.Equal(missing, []string{"/baton-no-such-group"}) {
		t.Errorf("missing %q, %v", missing, err)
	}
	if now := kerneltest.Programs(t, "application_mark"); now != before+2 {
		t.Errorf("%d programs, want %d", now, before+2)
	}
	set(0)
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}
