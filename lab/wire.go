package lab

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Impairment is what a wire does to the frames of one direction. The zero value passes all.
type Impairment struct {
	Loss      float64       // share of frames dropped, at random
	Duplicate float64       // share of frames sent twice, at random
	Every     int           // holds every Every-th frame back; 0: none
	Behind    int           // until this many later frames have passed …
	Within    time.Duration // … but no longer than this; 0: 5 ms
	Seed      uint64        // of the random choices; 0: from the clock, and logged
}

// Wire joins two hosts as Link does, by way of a third namespace where a goroutine copies frames and impairs them.
// It carries some hundred thousand frames a second, at most one MTU each: offloads are off along it. Use Lose where
// loss is enough.
type Wire struct {
	AtoB, BtoA Count
}

// Count is what happened in one direction of a wire. It may be read at any time.
type Count struct {
	Passed, Lost, Duplicated, Held atomic.Int64
}

// Wire builds a wire between two ends. It ends with the lab.
func (l *Lab) Wire(a, b End, o LinkOptions, aToB, bToA Impairment) (*Interface, *Interface, *Wire) {
	l.t.Helper()
	o.NoOffloads = true
	middle := l.Host(fmt.Sprintf("wire%d", sequence.Add(1)))
	// A host that answers neighbour solicitations or forwards would not be a wire.
	middle.Sysctl("net.ipv6.conf.all.disable_ipv6", "1")
	middle.Sysctl("net.ipv6.conf.default.disable_ipv6", "1")
	ka := l.Link(a, End{Host: middle, Name: "a"}, o)
	kb := l.Link(b, End{Host: middle, Name: "b"}, o)
	fa, err := middle.packetSocket(ka.B, false)
	if err != nil {
		l.t.Fatalf("lab: wire: %v", err)
	}
	fb, err := middle.packetSocket(kb.B, false)
	if err != nil {
		unix.Close(fa)
		l.t.Fatalf("lab: wire: %v", err)
	}
	w := &Wire{}
	stop := make(chan struct{})
	ended := make(chan struct{}, 2)
	for _, d := range []*direction{
		{from: fa, to: fb, Impairment: aToB, count: &w.AtoB},
		{from: fb, to: fa, Impairment: bToA, count: &w.BtoA},
	} {
		d.prepare(l)
		go func() { d.run(stop); ended <- struct{}{} }()
	}
	l.onClose(func() {
		close(stop)
		<-ended
		<-ended
		unix.Close(fa)
		unix.Close(fb)
	})
	return ka.A, kb.A, w
}

// direction copies frames one way.
type direction struct {
	Impairment
	from, to int
	count    *Count
	random   *rand.Rand
	seen     int
	held     []heldFrame
}

type heldFrame struct {
	frame  []byte
	behind int
	due    time.Time
}

func (d *direction) prepare(l *Lab) {
	if d.Within == 0 {
		d.Within = 5 * time.Millisecond
	}
	if d.Seed == 0 {
		d.Seed = uint64(time.Now().UnixNano())
		if d.Loss > 0 || d.Duplicate > 0 {
			l.Logf("lab: wire: seed %d", d.Seed)
		}
	}
	d.random = rand.New(rand.NewPCG(d.Seed, 0))
}

// stopCheck bounds how long a silent wire takes to see that it should end.
const stopCheck = 100 * time.Millisecond

func (d *direction) run(stop <-chan struct{}) {
	buffer := make([]byte, maxFrame)
	for {
		select {
		case <-stop:
			return
		default:
		}
		wait := stopCheck
		if len(d.held) > 0 {
			wait = min(wait, max(time.Until(d.held[0].due), 0))
		}
		set := []unix.PollFd{{Fd: int32(d.from), Events: unix.POLLIN}}
		ready, err := unix.Poll(set, int((wait+time.Millisecond-1)/time.Millisecond))
		if err != nil && err != unix.EINTR {
			return
		}
		if ready > 0 && !d.drain(buffer) {
			return
		}
		d.release(0)
	}
}

// drain takes the frames that wait in the socket, up to a number that leaves time for those that are held.
func (d *direction) drain(buffer []byte) bool {
	for range 64 {
		n, _, err := unix.Recvfrom(d.from, buffer, unix.MSG_DONTWAIT)
		switch err {
		case nil:
			d.pass(buffer[:n])
		case unix.EAGAIN, unix.EINTR:
			return true
		case unix.ENETDOWN: // the interface was taken down; frames come again when it is up
			return true
		default:
			return false
		}
	}
	return true
}

func (d *direction) pass(frame []byte) {
	d.seen++
	if d.Loss > 0 && d.random.Float64() < d.Loss {
		d.count.Lost.Add(1)
		return
	}
	if d.Every > 0 && d.seen%d.Every == 0 {
		d.held = append(d.held, heldFrame{append([]byte(nil), frame...), max(d.Behind, 1), time.Now().Add(d.Within)})
		d.count.Held.Add(1)
		return
	}
	d.send(frame)
	if d.Duplicate > 0 && d.random.Float64() < d.Duplicate {
		d.count.Duplicated.Add(1)
		d.send(frame)
	}
	d.release(1)
}

// release sends the held frames that enough later frames have passed, or whose time has come.
func (d *direction) release(passed int) {
	if len(d.held) == 0 {
		return
	}
	now := time.Now()
	kept := d.held[:0]
	for _, h := range d.held {
		h.behind -= passed
		if h.behind <= 0 || !now.Before(h.due) {
			d.send(h.frame)
		} else {
			kept = append(kept, h)
		}
	}
	d.held = kept
}

func (d *direction) send(frame []byte) {
	for {
		_, err := unix.Write(d.to, frame)
		switch err {
		case nil:
			d.count.Passed.Add(1)
			return
		case unix.EINTR:
		case unix.ENOBUFS, unix.EAGAIN: // the far queue is full: wait for it rather than lose what was not to be lost
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(d.to), Events: unix.POLLOUT}}, 1)
		default:
			return // the far interface is down: a wire that is cut loses frames
		}
	}
}
