package measure

import (
	"math/rand/v2"
	"net/netip"
	"time"

	"baton/sockdiag"
)

const ms = time.Millisecond

// network is a link with a queue and connections over it, as a fluid, a millisecond after the other: each sends its window in a round trip,
// grows by a segment (or doubles, at first), and halves when the queue is full.
type network struct {
	now      time.Duration
	rate     float64 // bits per second
	buffer   float64 // bytes
	queue    float64
	sent     float64 // bytes, over the link
	flows    []*connection
	finished func(*connection)
	upload   bool
	cookie   uint64
	random   *rand.Rand
	measure  *Measure
}

type connection struct {
	sockdiag.TCP
	base                   time.Duration // round trip without queues
	window, left           float64       // bytes
	most                   float64       // bits per second that its server sends at; 0: all it can
	slowStart              bool
	carried                float64
	smooth, least, stepped time.Duration
	halved                 time.Duration
	on, off                time.Duration // it sends and pauses, each for that long; 0: it does not pause
}

func newSimulation(rate float64, buffer time.Duration) *network {
	return &network{
		rate: rate, buffer: max(rate/8*buffer.Seconds(), 20*1500), random: rand.New(rand.NewPCG(1, 2)), measure: New(1),
	}
}

// connect begins a connection of that many bytes; 0: it never ends.
func (n *network) connect(base time.Duration, bytes float64) *connection {
	n.cookie++
	c := &connection{base: base, window: 10 * 1460, left: bytes, slowStart: true, stepped: n.now}
	if bytes == 0 {
		c.left = 1e18
	}
	c.Cookie = n.cookie
	c.Remote = netip.AddrPortFrom(netip.AddrFrom4([4]byte{198, 51, 100, byte(n.cookie % 7)}), 443)
	c.smooth = n.roundTrip(c)
	c.least = c.smooth
	c.RTT = c.smooth
	n.flows = append(n.flows, c)
	return c
}

func (n *network) roundTrip(c *connection) time.Duration {
	return c.base + time.Duration(n.queue*8/n.rate*float64(time.Second))
}

// run goes on for a time, and has the measure see it: counters five times a second, connections once.
func (n *network) run(long time.Duration) {
	for end := n.now + long; n.now < end; {
		n.step()
		if n.now%(200*ms) == 0 {
			n.sample(n.now%time.Second == 0)
		}
	}
}

func (n *network) step() {
	const step = ms
	n.now += step
	offered := make([]float64, len(n.flows))
	var all float64
	for i, c := range n.flows {
		rtt := n.roundTrip(c)
		bytes := c.window / rtt.Seconds() * step.Seconds()
		if c.most > 0 {
			bytes = min(bytes, c.most/8*step.Seconds())
		}
		if c.on > 0 && n.now%(c.on+c.off) >= c.on {
			bytes = 0
		}
		offered[i] = min(bytes, c.left)
		all += offered[i]
	}
	served := min(n.queue+all, n.rate/8*step.Seconds())
	n.queue += all - served
	n.sent += served
	full := n.queue > n.buffer
	n.queue = min(n.queue, n.buffer)
	kept := n.flows[:0]
	for i, c := range n.flows {
		if all > 0 {
			got := served * offered[i] / all
			c.carried += got
			c.left -= got
			rtt := n.roundTrip(c)
			c.smooth += (rtt - c.smooth) / 50
			c.least = min(c.least, rtt)
		}
		n.control(c, full && n.random.IntN(3) == 0, offered[i] > 0)
		if c.left > 1 {
			kept = append(kept, c)
		} else if n.finished != nil {
			defer n.finished(c)
		}
	}
	clear(n.flows[len(kept):])
	n.flows = kept
}

// control is how a connection's window follows.
func (n *network) control(c *connection, lost, sends bool) {
	rtt := n.roundTrip(c)
	if lost && n.now-c.halved > rtt {
		c.window, c.slowStart, c.halved = max(c.window/2, 2*1460), false, n.now
		c.Retransmitted++
		c.OutOfOrder++
	}
	if n.now-c.stepped < rtt || !sends {
		return
	}
	c.stepped = n.now
	switch paced := c.most > 0 && c.window/rtt.Seconds()*8 > 2*c.most; {
	case paced:
	case c.slowStart:
		c.window *= 2
	default:
		c.window += 1460 * max(1, c.window/1460/50) // somewhat as CUBIC on long ways
	}
}

func (n *network) sample(listed bool) {
	s := Sample{At: n.now, Listed: listed}
	bytes, few := uint64(n.sent), uint64(n.sent/40)
	if n.upload {
		s.Links = []Counters{{Sent: bytes, Received: few}}
	} else {
		s.Links = []Counters{{Sent: few, Received: bytes}}
	}
	if listed {
		for _, c := range n.flows {
			t := c.TCP
			t.MinRTT = c.least
			if n.upload {
				t.RTT, t.BytesAcked, t.DataOut = c.smooth, uint64(c.carried), uint32(c.carried/1460)
			} else {
				t.ReceiveRTT, t.BytesReceived = c.smooth, uint64(c.carried)
				t.BytesAcked, t.DataOut = 500, 1
			}
			s.Flows = append(s.Flows, Flow{TCP: t})
		}
	}
	n.measure.Add(s)
}

func (n *network) down() Capacity { return n.measure.Figures()[0].Down }
