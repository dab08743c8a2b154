package legs

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"baton/router/config"
)

// TestQueuesAreMadeTogether: the kernel takes as long for the queues of many surrogates as for one.
func TestQueuesAreMadeTogether(t *testing.T) {
	w := newWorld(t, single, config.ReuseAlways)
	all := make([]Surrogate, mostQueues)
	for i := range all {
		address := netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2 + byte(i>>8), byte(i)}), 80)
		all[i] = Surrogate{ID: uint16(i), Name: fmt.Sprint(i), Address: address, Legs: single}
	}
	if err := w.m.Update(all, 1500); err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		w.m.SetUsable(s.ID, true)
	}
	w.m.Tick()
	if want := []int{mostQueues, mostQueues}; !slices.Equal(w.made, want) {
		t.Errorf("made %v at once, want %v", w.made, want)
	}
}

// TestQueueOfAWaitingRequest: it is made before the leg is opened, without the lock, and without waiting for a tick.
func TestQueueOfAWaitingRequest(t *testing.T) {
	w := newWorld(t, single, config.ReuseAlways)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.m.WaitIdle(ctx, surrogateID, plain); err == nil {
		t.Error("a leg before its SYN was answered")
	}
	if want := []int{2}; !slices.Equal(w.made, want) {
		t.Errorf("made %v at once, want %v", w.made, want)
	}
	if got := w.said(); got != "SYN, attach 3, limit 0, open class 0, paths [3]" {
		t.Errorf("did %q", got)
	}
}
