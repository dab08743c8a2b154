package network

import (
	"testing"
	"time"

	"baton/controller/switches"
	"baton/packet"
)

func TestBucket(t *testing.T) {
	b := bucket{rate: 10, size: 5, tokens: 5}
	now := time.Unix(1000, 0)
	take := func(n int) (taken int) {
		for range n {
			if b.take(now) {
				taken++
			}
		}
		return taken
	}
	if n := take(20); n != 5 {
		t.Errorf("%d at once, want 5", n)
	}
	now = now.Add(200 * time.Millisecond)
	if n := take(20); n != 2 {
		t.Errorf("%d after 0.2 s at 10 a second, want 2", n)
	}
	now = now.Add(time.Hour)
	if n := take(20); n != 5 {
		t.Errorf("%d after an hour, want 5", n)
	}
}

func TestWaiting(t *testing.T) {
	w := newWaiting()
	now := time.Unix(1000, 0)
	to := func(n int) switches.Packet {
		b := make([]byte, packet.EthernetSize)
		packet.Ethernet(b).SetDst(packet.MAC{2, 0, 0, 0, byte(n >> 8), byte(n)})
		return switches.Packet{Data: b}
	}
	for i := range mostForOne + 1 {
		if first, kept := w.add(now, to(1)); first != (i == 0) || kept != (i < mostForOne) {
			t.Errorf("packet %d for one: %v, %v", i, first, kept)
		}
	}
	kept := mostForOne
	for i := 2; i < mostForAll+10; i++ {
		if _, ok := w.add(now.Add(waitTime/2), to(i)); ok {
			kept++
		}
	}
	if kept != mostForAll || w.count != mostForAll {
		t.Errorf("%d are kept, %d counted, want %d", kept, w.count, mostForAll)
	}
	if n := len(w.take(packet.MAC{2, 0, 0, 0, 0, 2})); n != 1 {
		t.Errorf("took %d", n)
	}
	if n := w.expire(now.Add(waitTime)); n != mostForOne {
		t.Errorf("%d have expired, want %d", n, mostForOne)
	}
	if n := w.expire(now.Add(2 * waitTime)); n != mostForAll-mostForOne-1 || w.count != 0 || len(w.packets) != 0 {
		t.Errorf("%d have expired, %d are counted", n, w.count)
	}
}
