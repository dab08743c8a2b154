package measure

import (
	"net/netip"
	"testing"
	"time"

	"baton/sockdiag"
)

// script feeds a Measure of two links by hand: a second a step.
type script struct {
	*Measure
	at    time.Duration
	links []Counters
}

func newScript() *script { return &script{Measure: New(2), links: make([]Counters, 2)} }

func (s *script) second(flows ...Flow) {
	s.at += time.Second
	links := append([]Counters(nil), s.links...)
	s.Add(Sample{At: s.at, Links: links, Listed: true, Flows: flows})
}

func flow(link int, cookie uint64, t sockdiag.TCP) Flow {
	t.Cookie = cookie
	t.Remote = netip.MustParseAddrPort("192.0.2.1:443")
	return Flow{Link: link, TCP: t}
}

func TestRates(t *testing.T) {
	s := newScript()
	s.links[0] = Counters{Sent: 1e9, Received: 5e9} // what was before is not counted
	s.second()
	for range 5 {
		s.links[0].Sent += 1000
		s.links[0].Received += 5000
		s.second()
	}
	f := s.Figures()
	if f[0].SentRate != 8000 || f[0].ReceivedRate != 40000 || f[1].SentRate != 0 {
		t.Errorf("%+v", f)
	}
	s.links[0] = Counters{Received: 3000} // they have begun anew
	s.second()
	for range 2 {
		s.links[0].Received += 3000
		s.second()
	}
	if f := s.Figures()[0]; f.ReceivedRate != 24000 || f.SentRate != 0 {
		t.Errorf("after counters began anew: %+v", f)
	}
	for range 3 {
		s.second()
	}
	if f := s.Figures()[0]; f.ReceivedRate != 0 {
		t.Errorf("idle: %+v", f)
	}
	s.at += time.Hour // the host slept; or something has hindered us
	s.links[0].Received += 1e12
	s.second()
	if f := s.Figures()[0]; f.ReceivedRate != 0 || f.Down.Rate > 1e6 {
		t.Errorf("after a sleep: %+v", f)
	}
}

// TestRoundTrips: the smoothed one is the median's of connections that were acknowledged something, the least that of the last minutes.
func TestRoundTrips(t *testing.T) {
	s := newScript()
	s.second()
	var acked uint64
	three := func(middle time.Duration) {
		acked += 1000
		s.second(
			flow(0, 1, sockdiag.TCP{RTT: 5 * ms, MinRTT: 4 * ms, BytesAcked: acked}),
			flow(0, 2, sockdiag.TCP{RTT: middle, MinRTT: middle - ms, BytesAcked: acked}),
			flow(0, 3, sockdiag.TCP{RTT: 900 * ms, MinRTT: 800 * ms, BytesAcked: acked}),
			flow(0, 4, sockdiag.TCP{RTT: ms, MinRTT: ms}), // idle
		)
	}
	three(50 * ms)
	if f := s.Figures()[0]; f.RTT != 50*ms || f.MinRTT != 4*ms {
		t.Errorf("%v, %v", f.RTT, f.MinRTT)
	}
	for range 60 {
		three(100 * ms)
	}
	if f := s.Figures(); f[0].RTT < 99*ms || f[0].RTT > 100*ms || f[1].RTT != 0 {
		t.Errorf("%v, %v", f[0].RTT, f[1].RTT)
	}
	for range 2 * int(leastWindow/time.Second) { // the near server is not used any more
		acked += 1000
		s.second(flow(0, 3, sockdiag.TCP{RTT: 900 * ms, MinRTT: 800 * ms, BytesAcked: acked}))
	}
	if f := s.Figures()[0]; f.MinRTT != 800*ms {
		t.Errorf("least %v", f.MinRTT)
	}
}

func TestLoss(t *testing.T) {
	s := newScript()
	s.second(flow(0, 1, sockdiag.TCP{DataOut: 1e6, Retransmitted: 1e6})) // from before
	var sent, repeated uint32 = 1e6, 1e6
	for range 60 {
		sent, repeated = sent+1000, repeated+20
		s.links[1].SYNs, s.links[1].SYNRepeats = s.links[1].SYNs+90, s.links[1].SYNRepeats+10
		s.second(flow(0, 1, sockdiag.TCP{DataOut: sent, Retransmitted: repeated}))
	}
	f := s.Figures()
	if f[0].Loss < 0.019 || f[0].Loss > 0.02 {
		t.Errorf("2 in 100: %v", f[0].Loss)
	}
	if f[1].Loss < 0.09 || f[1].Loss > 0.12 {
		t.Errorf("of SYNs, 1 in 10: %v", f[1].Loss)
	}
	for range 120 { // another connection, which is whole
		sent += 1000
		s.second(flow(0, 1, sockdiag.TCP{DataOut: sent, Retransmitted: repeated}))
	}
	if f := s.Figures()[0]; f.Loss > 0.001 {
		t.Errorf("two minutes later: %v", f.Loss)
	}
	one := newScript()
	one.second()
	one.second(flow(0, 1, sockdiag.TCP{DataOut: 2, Retransmitted: 1}))
	if f := one.Figures()[0]; f.Loss > 0.02 {
		t.Errorf("of 2 segments: %v", f.Loss)
	}
}

// TestForget: what is known of a link goes, of others stays; Take moves it.
func TestForget(t *testing.T) {
	n := newSimulation(20*mbit, 100*ms)
	for range 3 {
		n.connect(20*ms, 0)
	}
	n.run(20 * time.Second)
	other := New(3)
	other.Take(2, n.measure, 0)
	if f := other.Figures(); !f[2].Down.Known() || f[0].Down.Rate != 0 {
		t.Errorf("taken: %+v", f)
	}
	n.measure.Forget(0)
	if f := n.measure.Figures()[0]; f != (Figures{}) {
		t.Errorf("%+v", f)
	}
	n.rate = 5 * mbit
	n.run(20 * time.Second)
	near(t, "the link that is in its place", n.down(), 5*mbit)
}

// TestOthersRTT: where the memory of flows is not known, a round trip that others measure shows queues.
func TestOthersRTT(t *testing.T) {
	s := newScript()
	for i := range 60 {
		for l, rtt := range []time.Duration{20 * ms, 20 * ms} {
			s.links[l].RTT = rtt
			s.links[l].Received += 1e6
		}
		if i > 20 {
			s.links[1].RTT = 120 * ms
		}
		s.second()
	}
	f := s.Figures()
	if f[0].Down.Known() || !f[1].Down.Known() || f[1].Down.Rate != 8e6 {
		t.Errorf("%+v, %+v", f[0].Down, f[1].Down)
	}
}

// TestBlocked: applications that do not read, and peers that do not, are no measure of the link.
func TestBlocked(t *testing.T) {
	s := newScript()
	s.second()
	var bytes uint64
	for range 30 {
		bytes += 1e6
		s.links[0].Received, s.links[0].Sent = bytes, bytes
		s.links[1] = s.links[0]
		limited := time.Duration(bytes/1e6) * 900 * ms
		s.second(
			flow(0, 1, sockdiag.TCP{MinRTT: 10 * ms, RTT: 100 * ms, ReceiveRTT: 100 * ms, BytesReceived: bytes, ReceiveQueue: 900_000}),
			flow(0, 2, sockdiag.TCP{MinRTT: 10 * ms, RTT: 100 * ms, BytesAcked: bytes, ReceiverLimited: limited}),
			flow(1, 3, sockdiag.TCP{MinRTT: 10 * ms, RTT: 100 * ms, ReceiveRTT: 100 * ms, BytesReceived: bytes}),
			flow(1, 4, sockdiag.TCP{MinRTT: 10 * ms, RTT: 100 * ms, BytesAcked: bytes, ApplicationLimited: true}),
		)
	}
	f := s.Figures()
	if f[0].Down.Known() || f[0].Up.Known() || !f[1].Down.Known() || f[1].Up.Known() {
		t.Errorf("%+v\n%+v", f[0], f[1])
	}
}

// TestTakesNothingAmiss: samples that cannot be do no harm.
func TestTakesNothingAmiss(t *testing.T) {
	m := New(1)
	m.Add(Sample{At: time.Second, Links: make([]Counters, 5), Listed: true, Flows: []Flow{flow(3, 1, sockdiag.TCP{}), flow(-1, 2, sockdiag.TCP{})}})
	m.Add(Sample{At: time.Second, Listed: true})
	m.Add(Sample{At: 0, Links: []Counters{{Sent: 1e18}}, Listed: true})
	m.Add(Sample{At: 2 * time.Second, Links: []Counters{{Received: 10}}, Listed: true})
	if f := m.Figures(); len(f) != 1 || f[0].Down.Rate > 80 || f[0].Up.Rate != 0 {
		t.Errorf("%+v", f)
	}
}
