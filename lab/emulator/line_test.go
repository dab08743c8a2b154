package emulator

import (
	"bytes"
	"math"
	"slices"
	"testing"
	"time"
)

const (
	us = int64(time.Microsecond)
	ms = int64(time.Millisecond)
)

// rig drives a line as its thread would, with a clock of its own.
type rig struct {
	t     *testing.T
	pool  pool
	line  *line
	clock int64
	out   []arrival
}

type arrival struct {
	at    int64
	frame []byte
}

func newRig(t *testing.T, s Shape) *rig {
	t.Helper()
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	if s.Seed == 0 {
		s.Seed = uint64(time.Now().UnixNano())
		t.Logf("seed %d", s.Seed)
	}
	r := &rig{t: t}
	r.line = newLine(s, &r.pool)
	return r
}

// run delivers, each at its time, all that is due until then.
func (r *rig) run(until int64) {
	for {
		due, any := r.line.next()
		if !any || due > until {
			break
		}
		r.clock = max(r.clock, due)
		r.line.deliver(r.clock, r.take)
	}
	r.clock = until
	r.line.deliver(r.clock, r.take)
}

func (r *rig) take(frame []byte) { r.out = append(r.out, arrival{r.clock, bytes.Clone(frame)}) }

// send gives the line a frame at a time.
func (r *rig) send(at int64, frame []byte) {
	r.run(at)
	r.line.arrive(at, own(&r.pool, frame))
}

func (r *rig) numbers() (list []int) {
	for _, a := range r.out {
		list = append(list, number(a.frame))
	}
	return list
}

func TestDelay(t *testing.T) {
	r := newRig(t, Shape{Delay: 10 * time.Millisecond})
	for i := range 5 {
		r.send(int64(i)*3*ms, plain(100, uint32(i)))
	}
	r.run(time.Second.Nanoseconds())
	for i, a := range r.out {
		if want := int64(i)*3*ms + 10*ms; a.at != want || number(a.frame) != i {
			t.Errorf("arrival %d: frame %d at %v, want at %v", i, number(a.frame), time.Duration(a.at), time.Duration(want))
		}
	}
	if len(r.out) != 5 {
		t.Errorf("%d of 5 frames arrived", len(r.out))
	}
}

func TestRate(t *testing.T) {
	// 1250 bytes take 100 µs at 100 Mbit/s.
	r := newRig(t, Shape{Rate: 100e6, Delay: 5 * time.Millisecond})
	for i := range 10 {
		r.send(0, plain(1250, uint32(i)))
	}
	r.send(2*ms, plain(1250, 10)) // when the link has been idle
	r.run(time.Second.Nanoseconds())
	var got []int64
	for _, a := range r.out {
		got = append(got, a.at-5*ms)
	}
	want := []int64{100 * us, 200 * us, 300 * us, 400 * us, 500 * us, 600 * us, 700 * us, 800 * us, 900 * us, 1000 * us, 2100 * us}
	if !slices.Equal(got, want) {
		t.Errorf("sent at %v, want %v", got, want)
	}
}

func TestRateOfGSOFrames(t *testing.T) {
	tests := []struct {
		rate   Rate
		pieces int // of a frame of 40 packets
	}{
		{10e6, 40},         // 1.2 ms a packet
		{100e6, 40},        // 0.12 ms
		{1e9, 3},           // 12 µs: 16 packets take 0.2 ms
		{100e9, 1},         //
		{2_000_000_000, 2}, // 33 packets
	}
	for _, tt := range tests {
		t.Run(tt.rate.String(), func(t *testing.T) {
			r := newRig(t, Shape{Rate: tt.rate, Queue: Queue{Packets: 1000}})
			f := gsoFrame{size: 1448, payload: 40 * 1448, options: 12}
			frame := f.build()
			r.send(0, frame)
			r.run(time.Minute.Nanoseconds())
			if len(r.out) != tt.pieces {
				t.Errorf("%d pieces, want %d", len(r.out), tt.pieces)
			}
			var payload []byte
			for _, a := range r.out {
				payload = append(payload, a.frame[divide(frame).headers+vnetLen:]...)
			}
			if !bytes.Equal(payload, frame[divide(frame).headers+vnetLen:]) {
				t.Error("the pieces do not carry the payload")
			}
			bits := float64(divide(frame).wire(frame) * 8)
			if got, want := float64(r.out[len(r.out)-1].at), bits/float64(tt.rate)*1e9; math.Abs(got-want) > 100 {
				t.Errorf("the last piece came after %.0f ns, want %.0f", got, want)
			}
		})
	}
}

func TestDropTail(t *testing.T) {
	tests := []struct {
		name  string
		queue Queue
		want  int // of 30 packets of 1000 bytes at once, those that pass: one more than the queue holds
	}{
		{"packets", Queue{Packets: 7}, 8},
		{"bytes", Queue{Bytes: 12_500}, 13},
		{"both", Queue{Packets: 20, Bytes: 5_000}, 6},
		{"by default 100 ms", Queue{}, 16}, // 15,140 bytes at the least
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, Shape{Rate: 1e6, Queue: tt.queue})
			for i := range 30 {
				r.send(0, plain(1000, uint32(i)))
			}
			r.run(time.Minute.Nanoseconds())
			if len(r.out) != tt.want || r.line.counts.Dropped != int64(30-tt.want) {
				t.Errorf("%d passed and %d were dropped, want %d to pass", len(r.out), r.line.counts.Dropped, tt.want)
			}
		})
	}
}

// TestDropTailCutsFrames: a queue that can take a part of a GSO frame takes that part.
func TestDropTailCutsFrames(t *testing.T) {
	r := newRig(t, Shape{Rate: 1e9, Queue: Queue{Packets: 10}})
	r.send(0, gsoFrame{size: 1000, payload: 25_000}.build())
	r.run(time.Minute.Nanoseconds())
	if c := r.line.counts; c.Packets != 10 || c.Dropped != 15 {
		t.Errorf("%d packets passed and %d were dropped, want 10 and 15", c.Packets, c.Dropped)
	}
}

// near reports whether a count of independent events is what their chance makes of it, within 6 standard deviations.
func near(t *testing.T, what string, got, of int64, share float64) {
	t.Helper()
	want := share * float64(of)
	if slack := 6 * math.Sqrt(want*(1-share)); math.Abs(float64(got)-want) > slack {
		t.Errorf("%s: %d of %d, want %.0f ± %.0f", what, got, of, want, slack)
	}
}

func TestChances(t *testing.T) {
	const sent = 200_000
	r := newRig(t, Shape{Loss: 0.02, Duplicate: 0.01, Corrupt: 0.005, Reorder: 0.003})
	for i := range sent {
		r.send(int64(i)*us, plain(60, uint32(i)))
	}
	r.run(time.Minute.Nanoseconds())
	c := r.line.counts
	near(t, "lost", c.Lost, sent, 0.02)
	near(t, "duplicated", c.Duplicated, sent-c.Lost, 0.01)
	near(t, "corrupted", c.Corrupted, sent-c.Lost, 0.005)
	near(t, "held back", c.Held, sent-c.Lost, 0.003)
	if want := sent - c.Lost + c.Duplicated; c.Packets != want || int64(len(r.out)) != want {
		t.Errorf("%d packets came (%d counted), want %d", len(r.out), c.Packets, want)
	}
}

// TestLossInFrames: of a GSO frame single packets are lost, and the rest goes on in as few pieces as that leaves.
func TestLossInFrames(t *testing.T) {
	r := newRig(t, Shape{Loss: 0.02, Delay: time.Millisecond})
	f := gsoFrame{size: 1448, payload: 40 * 1448, options: 12}
	frame := f.build()
	const frames = 2000
	for i := range frames {
		r.send(int64(i)*us, frame)
	}
	r.run(time.Minute.Nanoseconds())
	c := r.line.counts
	near(t, "lost", c.Lost, frames*40, 0.02)
	if c.Packets+c.Lost != frames*40 {
		t.Errorf("%d packets came and %d were lost of %d", c.Packets, c.Lost, frames*40)
	}
	if pieces := int64(len(r.out)); pieces > frames+c.Lost {
		t.Errorf("%d pieces of %d frames with %d losses", pieces, frames, c.Lost)
	}
	bytes := 0
	for _, a := range r.out {
		p := divide(a.frame)
		bytes += p.wire(a.frame)
		if p.count == 1 {
			readPacket(t, f, a.frame)
		}
	}
	if c.Bytes != int64(bytes) {
		t.Errorf("%d bytes counted, %d came", c.Bytes, bytes)
	}
}

func TestBursts(t *testing.T) {
	const sent = 300_000
	r := newRig(t, Shape{Loss: 0.03, Burst: 5})
	for i := range sent {
		r.send(int64(i)*us, plain(60, uint32(i)))
	}
	r.run(time.Minute.Nanoseconds())
	gaps, next := 0, 0
	for _, n := range r.numbers() {
		if n != next {
			gaps++
		}
		next = n + 1
	}
	lost := float64(r.line.counts.Lost)
	if math.Abs(lost/sent-0.03) > 0.004 {
		t.Errorf("%.2f %% lost, want 3 %%", lost/sent*100)
	}
	if mean := lost / float64(gaps); math.Abs(mean-5) > 0.5 {
		t.Errorf("bursts of %.2f packets, want 5", mean)
	}
}

func TestCorruption(t *testing.T) {
	r := newRig(t, Shape{Corrupt: 1})
	f := gsoFrame{size: 1000, payload: 5000}
	frame := f.build()
	r.send(0, frame)
	r.run(ms)
	if len(r.out) != 5 {
		t.Fatalf("%d packets, want 5", len(r.out))
	}
	p := divide(frame)
	for i, a := range r.out {
		want := p.cut(make([]byte, maxFrame), frame, i, i+1)
		complete(want)
		bits := 0
		for j := range want {
			for d := want[j] ^ a.frame[j]; d != 0; d &= d - 1 {
				bits++
			}
		}
		if bits != 1 || !bytes.Equal(want[:vnetLen+ethernetLen], a.frame[:vnetLen+ethernetLen]) {
			t.Errorf("packet %d: %d bits flipped; want one, behind the Ethernet header", i, bits)
		}
	}
}

func TestReorderBehind(t *testing.T) {
	r := newRig(t, Shape{Reorder: 0.1, Behind: 4, Within: time.Second})
	const sent = 5000
	for i := range sent {
		r.send(int64(i)*us, plain(60, uint32(i)))
	}
	r.run(time.Minute.Nanoseconds())
	// A packet is behind those later ones that came before it; of them only those count that were not held themselves.
	moved := 0
	seen := map[int]bool{}
	highest := -1
	for _, n := range r.numbers() {
		if n < highest {
			moved++
			passed := 0
			for later := n + 1; later <= highest; later++ {
				if seen[later] {
					passed++
				}
			}
			atEnd := n >= sent-20 // too few came later: its time was over
			if passed < 4 && !atEnd || passed > 8 {
				t.Errorf("packet %d came behind %d later ones, want 4 (or a few more that were held themselves)", n, passed)
			}
		}
		highest = max(highest, n)
		seen[n] = true
	}
	near(t, "moved", int64(moved), sent, 0.1)
	if len(r.out) != sent {
		t.Errorf("%d of %d packets came", len(r.out), sent)
	}
}

func TestReorderWithin(t *testing.T) {
	r := newRig(t, Shape{Reorder: 1, Behind: 1 << 30, Within: 7 * time.Millisecond})
	r.send(3*ms, plain(60, 0))
	r.run(time.Second.Nanoseconds())
	if len(r.out) != 1 || r.out[0].at != 10*ms {
		t.Errorf("arrivals %v, want one at 10 ms", r.out)
	}
}

func TestJitterKeepsOrder(t *testing.T) {
	r := newRig(t, Shape{Delay: 20 * time.Millisecond, Jitter: 20 * time.Millisecond})
	const sent = 100_000
	for i := range sent {
		r.send(int64(i)*20*us, plain(60, uint32(i)))
	}
	r.run(time.Minute.Nanoseconds())
	shortest, longest := int64(math.MaxInt64), int64(0)
	for i, a := range r.out {
		if number(a.frame) != i {
			t.Fatalf("packet %d came in place of %d", number(a.frame), i)
		}
		d := a.at - int64(i)*20*us
		shortest, longest = min(shortest, d), max(longest, d)
	}
	if len(r.out) != sent || shortest < 0 || longest > 40*ms+1 || longest-shortest < 30*ms {
		t.Errorf("%d packets with delays of %v to %v, want all within 20 ± 20 ms, and most of that", len(r.out), time.Duration(shortest), time.Duration(longest))
	}
}

func TestSetWhileRunning(t *testing.T) {
	r := newRig(t, Shape{Delay: 50 * time.Millisecond})
	r.send(0, plain(60, 0))
	r.run(10 * ms)
	r.line.set(10*ms, Shape{Delay: time.Millisecond})
	r.send(11*ms, plain(60, 1))
	r.run(49 * ms)
	if len(r.out) != 0 {
		t.Errorf("%v came before the time of the first", r.numbers())
	}
	r.send(60*ms, plain(60, 2))
	r.run(time.Second.Nanoseconds())
	var at []int64
	for _, a := range r.out {
		at = append(at, a.at)
	}
	if want := []int64{50 * ms, 50 * ms, 61 * ms}; !slices.Equal(at, want) || !slices.Equal(r.numbers(), []int{0, 1, 2}) {
		t.Errorf("%v came at %v, want 0 1 2 at %v", r.numbers(), at, want)
	}

	// What waits for a slow link goes at the new rate.
	r = newRig(t, Shape{Rate: 1e6, Queue: Queue{Packets: 100}})
	for i := range 11 {
		r.send(0, plain(1250, uint32(i))) // 10 ms each
	}
	r.run(15 * ms)
	r.line.set(15*ms, Shape{Rate: 100e6})
	r.run(time.Second.Nanoseconds())
	if last := r.out[len(r.out)-1].at; len(r.out) != 11 || last != 20*ms+9*100*us {
		t.Errorf("%d packets, the last at %v; want 11 until 20.9 ms", len(r.out), time.Duration(last))
	}
}

func TestCutLink(t *testing.T) {
	r := newRig(t, Shape{Rate: 1e6, Delay: 30 * time.Millisecond, Reorder: 0.5, Queue: Queue{Packets: 100}})
	for i := range 10 {
		r.send(0, plain(1250, uint32(i)))
	}
	r.run(25 * ms)
	r.line.cut(25*ms, true)
	r.send(26*ms, plain(60, 10))
	r.run(100 * ms)
	if c := r.line.counts; len(r.out) != 0 || c.Cut != 11 {
		t.Errorf("%v came over a link that is down, %d were cut off; want 11", r.numbers(), c.Cut)
	}
	r.line.set(100*ms, Shape{})
	r.line.cut(100*ms, false)
	r.send(101*ms, plain(60, 11))
	r.run(time.Second.Nanoseconds())
	if !slices.Equal(r.numbers(), []int{11}) {
		t.Errorf("%v came after the link was up again, want 11", r.numbers())
	}
}

// TestBuffersGoRound: what a line was given comes back to its pool, whatever happened to it.
func TestBuffersGoRound(t *testing.T) {
	r := newRig(t, Shape{Rate: 1e9, Delay: time.Millisecond, Loss: 0.1, Corrupt: 0.1, Duplicate: 0.1, Reorder: 0.1, Queue: Queue{Packets: 50}})
	frame := gsoFrame{size: 1448, payload: 30 * 1448, options: 12}.build()
	round := func() (int, int) {
		for i := range 200 {
			r.send(r.clock+20*us, frame)
			r.send(r.clock+20*us, plain(60, uint32(i)))
		}
		r.run(r.clock + 100*ms)
		r.out = nil
		return len(r.pool.small), len(r.pool.large)
	}
	round()
	for range 5 {
		round()
	}
	s0, l0 := round()
	for range 20 {
		round()
	}
	if s, l := round(); s > s0*2 || l > l0*2 {
		t.Errorf("%d small and %d large buffers, %d and %d some rounds before: they leak", s, l, s0, l0)
	}
	if r.line.flightBytes != 0 || r.line.queued != 0 || r.line.queueBytes != 0 {
		t.Errorf("an empty line counts %d bytes in flight, %d packets of %d bytes waiting", r.line.flightBytes, r.line.queued, r.line.queueBytes)
	}
}

func BenchmarkLine(b *testing.B) {
	var p pool
	l := newLine(Shape{Delay: 10 * time.Millisecond}, &p)
	frame := plain(60, 0)
	clock := int64(0)
	b.ReportAllocs()
	for b.Loop() {
		clock += 5 * us
		l.arrive(clock, own(&p, frame))
		l.deliver(clock, func([]byte) {})
	}
}
