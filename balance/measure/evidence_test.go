package measure

import (
	"net/netip"
	"testing"
	"time"

	"baton/sockdiag"
)

// received is a connection that has been sent that much, with a round trip of now.
func received(link int, cookie, bytes uint64, least, now time.Duration, outOfOrder uint32) Flow {
	return flow(link, cookie, sockdiag.TCP{MinRTT: least, ReceiveRTT: now, BytesReceived: bytes, OutOfOrder: outOfOrder})
}

// TestAlone: one connection that waits in a queue may wait at its server: it takes longer until it is believed that the link has become slower.
func TestAlone(t *testing.T) {
	for _, tt := range []struct {
		connections uint64
		seconds     int
		want        float64
	}{{1, 8, 40 * mbit}, {1, 13, 8 * mbit}, {2, 8, 8 * mbit}} {
		s := newScript()
		s.second()
		var bytes uint64
		several := func(n, each uint64) {
			s.links[0].Received += n * each
			bytes += each
			var flows []Flow
			for i := range n {
				flows = append(flows, received(0, i, bytes, 20*ms, 60*ms, 0))
			}
			s.second(flows...)
		}
		for range 5 {
			several(2, 2.5e6)
		}
		near(t, "before", s.Figures()[0].Down, 40*mbit)
		for range tt.seconds {
			several(tt.connections, 1e6/tt.connections)
		}
		near(t, "after", s.Figures()[0].Down, tt.want)
	}
}

// TestBurst: what had waited and comes at once is no rate of the link, nor a bound.
func TestBurst(t *testing.T) {
	m := New(1)
	var c Counters
	for at := 200 * ms; at < time.Minute; at += 200 * ms {
		switch (at / (200 * ms)) % 10 {
		case 7:
			c.Received += 150e3
		case 8:
			c.Received += 650e3
		default:
			c.Received += 400e3
		}
		m.Add(Sample{At: at, Links: []Counters{c}, Listed: at%time.Second == 0})
	}
	if d := m.Figures()[0].Down; d.Rate != 16*mbit {
		t.Errorf("%+v", d)
	}
}

// TestFullFromTheBeginning: connections to a server that was near before do not take the queue that they begin in for the way.
func TestFullFromTheBeginning(t *testing.T) {
	s := newScript()
	s.second()
	s.second(received(0, 1, 1000, 20*ms, 20*ms, 0), received(1, 2, 1000, 120*ms, 120*ms, 0))
	for i := range uint64(20) {
		s.links[0].Received += 1e6
		s.links[1].Received += 1e6
		s.second(received(0, 2*i+10, 1e6, 120*ms, 120*ms, 0), received(1, 2*i+11, 1e6, 120*ms, 120*ms, 0))
	}
	f := s.Figures()
	near(t, "one that is full", f[0].Down, 8*mbit)
	if f[1].Down.Known() {
		t.Errorf("one that is far: %+v", f[1].Down)
	}
}

// TestLost: several connections without a queue fill a link if they lose something.
func TestLost(t *testing.T) {
	s := newScript()
	s.second()
	var bytes uint64
	for i := range uint32(20) {
		bytes += 250e3
		var flows []Flow
		for k := range uint64(4) {
			lost := i
			if k > 1 {
				lost = 0 // half of them
			}
			flows = append(flows, received(0, k, bytes, 20*ms, 21*ms, lost), received(1, 10+k, bytes, 20*ms, 21*ms, 0))
		}
		s.links[0].Received += 1e6
		s.links[1].Received += 1e6
		s.second(flows...)
	}
	f := s.Figures()
	near(t, "with losses", f[0].Down, 8*mbit)
	if f[1].Down.Known() || f[1].Down.Rate != 8*mbit {
		t.Errorf("without: %+v", f[1].Down)
	}
}

// TestRemotes: the least round trips of a few thousand servers are kept, those that are in use.
func TestRemotes(t *testing.T) {
	var l trips
	for i := range 3 * mostRemotes {
		at := time.Duration(i) * 200 * ms
		l.base(at, netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)}), 20*ms)
		l.base(at, netip.AddrFrom4([4]byte{192, 0, 2, 1}), time.Duration(i%1000+1)*ms)
	}
	if n := len(l.remotes); n > mostRemotes || n < 1000 {
		t.Errorf("%d servers are kept", n)
	}
	if got := l.base(3*mostRemotes*200*ms, netip.AddrFrom4([4]byte{192, 0, 2, 1}), time.Second); got != ms {
		t.Errorf("the least of one in use: %v", got)
	}
}

// TestHeard: new data of a connection says that its server has answered by the link; what the link could say by itself does not.
func TestHeard(t *testing.T) {
	before := sockdiag.TCP{BytesAcked: 1000, BytesReceived: 1000, DataOut: 10}
	for _, tt := range []struct {
		name  string
		after sockdiag.TCP
		want  time.Duration
	}{
		{"nothing", before, 0},
		{"data", sockdiag.TCP{BytesAcked: 1000, BytesReceived: 1001, DataOut: 10, SinceReceived: 700 * ms}, 1300 * ms},
		{"it says that none has come for long", sockdiag.TCP{BytesAcked: 1000, BytesReceived: 1001, SinceReceived: time.Hour}, time.Second},
		{"data came again, or with other numbers", sockdiag.TCP{BytesAcked: 1000, BytesReceived: 1000, DataOut: 10, OutOfOrder: 5}, 0},
		{"what was sent is acknowledged", sockdiag.TCP{BytesAcked: 2000, BytesReceived: 1000, DataOut: 11}, 0},
		{"it is sent again", sockdiag.TCP{BytesAcked: 1000, BytesReceived: 1000, DataOut: 12, Retransmitted: 2}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newScript()
			s.second(flow(0, 1, before))
			if s.links[1].Received += 1000; s.Figures()[0].Heard != 0 { // bytes of whoever
				t.Error("heard with nothing to compare with")
			}
			s.second(flow(0, 1, tt.after), flow(1, 2, sockdiag.TCP{BytesAcked: 1})) // the latter's handshake has ended
			s.second(flow(0, 1, tt.after))
			if f := s.Figures(); f[0].Heard != tt.want || f[1].Heard != 0 {
				t.Errorf("heard %v and %v, want %v and nothing", f[0].Heard, f[1].Heard, tt.want)
			}
			s.Forget(0)
			if f := s.Figures(); f[0].Heard != 0 {
				t.Errorf("another link was heard %v", f[0].Heard)
			}
		})
	}
}
