package emulator

import (
	"math"
	"slices"
	"testing"
	"time"
)

// TestCoDel overloads a link by half with two disciplines: drop-tail fills its queue, CoDel keeps the delay low.
func TestCoDel(t *testing.T) {
	delay := func(d Discipline) (last int64, dropped int64) {
		r := newRig(t, Shape{Rate: 10e6, Queue: Queue{Packets: 1000, Discipline: d}})
		const every = 800 * us // 1250 bytes take 1 ms
		for i := range 20_000 {
			r.send(int64(i)*every, plain(1250, uint32(i)))
		}
		r.run(time.Hour.Nanoseconds())
		waits := []int64{}
		for _, a := range r.out[len(r.out)*3/4:] {
			waits = append(waits, a.at-int64(number(a.frame))*every)
		}
		slices.Sort(waits)
		return waits[len(waits)/2], r.line.counts.Dropped
	}
	full, _ := delay(DropTail)
	kept, dropped := delay(CoDel)
	if full < 900*ms {
		t.Errorf("drop-tail: a median delay of %v; want a full queue, 1 s", time.Duration(full))
	}
	// CoDel is slow against a source that does not listen, and must still win.
	if kept > 500*ms || dropped < 3000 || dropped > 5000 {
		t.Errorf("CoDel: a median delay of %v with %d dropped; want less than 500 ms, and about 4000", time.Duration(kept), dropped)
	}
}

// TestCoDelLaw: while the delay stays above the target, the n-th drop follows its predecessor by 100 ms / √n (RFC 8289 5.4).
func TestCoDelLaw(t *testing.T) {
	var c codel
	var drops []int64
	for now := int64(0); now < 1000*ms; now += 100 * us {
		if c.drop(now, 6*ms, 10*fullPacket) {
			drops = append(drops, now)
		}
	}
	at := 100 * ms
	for n := 1; n <= len(drops); n++ {
		if got := drops[n-1]; got < at || got > at+int64(n)*100*us {
			t.Errorf("drop %d at %v, want %v", n, time.Duration(got), time.Duration(at))
		}
		at += int64(100 * float64(ms) / math.Sqrt(float64(n)))
	}
	if len(drops) < 20 {
		t.Errorf("%d drops within a second", len(drops))
	}
	if c.drop(1000*ms, 4*ms, 10*fullPacket) || c.drop(1000*ms, 9*ms, 100) {
		t.Error("a packet goes that waited for less than the target, or the last one in the queue")
	}
}

// TestCoDelLeavesBurstsAlone: a queue that empties again within the interval loses nothing.
func TestCoDelLeavesBurstsAlone(t *testing.T) {
	r := newRig(t, Shape{Rate: 10e6, Queue: Queue{Packets: 1000, Discipline: CoDel}})
	for burst := range 20 {
		for i := range 50 { // 50 ms of the link's time, every 200 ms
			r.send(int64(burst)*200*ms, plain(1250, uint32(i)))
		}
	}
	r.run(time.Hour.Nanoseconds())
	if r.line.counts.Dropped != 0 {
		t.Errorf("%d packets dropped", r.line.counts.Dropped)
	}
}
