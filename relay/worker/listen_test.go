package worker

import (
	"log/slog"
	"net/netip"
	"testing"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"baton/relay/config"
)

// The first worker makes its listeners of entries that intercept known, once they listen, where it has the descriptor that this needs.
func TestListenersAreMadeKnown(t *testing.T) {
	kept, err := unix.MemfdCreate("kept", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(kept)
	for index, want := range []int{1, 0} {
		var known []netip.AddrPort
		set := func(fd int, at netip.AddrPort) error {
			known = append(known, at)
			listens, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
			if err != nil || listens != 1 {
				t.Errorf("made known before it listens: %v", err)
			}
			_, err = unix.Write(kept, []byte{1})
			return err
		}
		w, err := New(Options{Index: index, Of: 2, Log: slog.New(slog.DiscardHandler), Listeners: &Listeners{FD: kept, Set: set}}, defaults())
		if err != nil {
			t.Fatal(err)
		}
		var running errgroup.Group
		running.Go(w.Run)
		plain := config.Entry{Name: "plain", Mode: config.Plain, Listen: reservePort(t)}
		steered := config.Entry{Name: "steered", Mode: config.Plain, Listen: reservePort(t), Intercept: new(config.Intercept)}
		for _, e := range []*config.Entry{&plain, &steered} {
			if err := w.Listen(e); err != nil {
				t.Errorf("worker %d: %v", index, err)
			}
		}
		w.Close()
		if err := running.Wait(); err != nil {
			t.Error(err)
		}
		if len(known) != want || want == 1 && known[0] != steered.Listen {
			t.Errorf("worker %d made %v known", index, known)
		}
	}
}
