package router

import (
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"baton/packet"
)

// A leg gets the band of its first client, which is that of the client's handshake.
func TestBandOfTheFirstClient(t *testing.T) {
	for _, tc := range []struct {
		rtt  time.Duration
		band uint8
	}{
		{0, 1}, {249 * time.Microsecond, 1}, {250 * time.Microsecond, 2}, {time.Millisecond, 4}, {3999 * time.Microsecond, 5},
		{4 * time.Millisecond, 6}, {31 * time.Millisecond, 12}, {32 * time.Millisecond, 13}, {63 * time.Millisecond, 20},
		{64 * time.Millisecond, 21}, {127 * time.Millisecond, 28}, {128 * time.Millisecond, BandFar}, {time.Minute, BandFar},
	} {
		t.Run(tc.rtt.String(), func(t *testing.T) {
			k, f := newRig(t), families[0]
			k.vip(f)
			s := k.idle(1, f)
			c := newClient(k, f, f.usual())
			c.rtt = tc.rtt
			c.connect(routerVerdictSYN_ANSWERED)
			s.takes(c.send(packet.ACK, plainRequest, routerVerdictHANDOFF, actRedirect))
			if got := k.splice(1); got.Band != tc.band || got.ClientBand != tc.band {
				t.Errorf("band: got %d, the client's %d; want %d", got.Band, got.ClientBand, tc.band)
			}
			if n := k.surrogate(1); n.Fresh[f.class()] != 0 || n.PoppedFresh[f.class()] != 1 {
				t.Errorf("counters: %+v", n)
			}
		})
	}
}

// The handshake ends with its first ACK, no matter when the request comes.
func TestHandshakeIsTimed(t *testing.T) {
	k, f := newRig(t), families[0]
	k.vip(f)
	const done = 1 << 63
	entry := func(c *client) uint64 {
		var v routerHandshake
		k.must(k.maps.Handshakes.Lookup(uint32(c.ack-1)*2654435761>>16, &v))
		return v.Timed
	}
	c := newClient(k, f, f.usual())
	synack := k.want(packet.Build(c.syn()), routerVerdictSYN_ANSWERED, actRedirect).parsed(t)
	c.seq, c.ack = c.seq+1, synack.TCP().Seq()+1
	c.tsecr, _, _ = synack.TCP().Options().Timestamps()
	if v := entry(c); packet.Seq(v) != c.ack-1 || v&done != 0 {
		t.Errorf("after the SYN: %#x, want cookie %#x, not done", v, c.ack-1)
	}
	c.send(packet.ACK, "", routerVerdictHANDSHAKE_ACK, actShot)
	v := entry(c)
	if packet.Seq(v) != c.ack-1 || v&done == 0 {
		t.Errorf("after the ACK: %#x, want cookie %#x, done", v, c.ack-1)
	}
	c.send(packet.ACK, "", routerVerdictHANDSHAKE_ACK, actShot)
	if again := entry(c); again != v {
		t.Errorf("after a second ACK: %#x, want %#x", again, v)
	}
}

// A client whose handshake record was overwritten may be anywhere: it gets a fresh leg, which then counts as nearest.
func TestClientOfUnknownBand(t *testing.T) {
	k, f := newRig(t), families[0]
	k.vip(f)
	k.idle(2, f, func(s *routerSplice) { s.Band = BandNearest })
	s := k.idle(1, f)
	c := newClient(k, f, f.usual())
	c.connect(routerVerdictSYN_ANSWERED)
	another := routerHandshake{Timed: 1<<63 | uint64(c.ack)}
	k.must(k.maps.Handshakes.Update(uint32(c.ack-1)*2654435761>>16, another, ebpf.UpdateAny))
	exchange(c, s, plainRequest, plainResponse, routerVerdictHANDOFF)
	if got := k.splice(1); got.Band != BandNearest || got.ClientBand != 0 {
		t.Errorf("band: got %d, the client's %d; want %d and 0", got.Band, got.ClientBand, BandNearest)
	}
}

// A client gets a leg of its own band, else a fresh one, but never one of another band.
func TestLegOfTheBand(t *testing.T) {
	const far, farther = 17, 18
	for _, tc := range []struct {
		name    string
		bands   []uint8 // of legs 1, 2, …
		takes   int     // 0: none
		verdict routerVerdict
	}{
		{"of its own", []uint8{BandFresh, BandNearest, far, farther}, 3, routerVerdictHANDOFF},
		{"fresh", []uint8{BandNearest, BandFresh, farther}, 2, routerVerdictHANDOFF},
		{"none that fits", []uint8{BandNearest, farther}, 0, routerVerdictUPCALL},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k, f := newRig(t), families[0]
			k.vip(f)
			k.must(k.SetConfig(Config{MSS: testMSS, TSOffset: 0x7fff0000, Tap: 1}))
			legs := []*surrogate{nil}
			for i, band := range tc.bands {
				k.must(k.MakeQueues([]LegQueue{{1, f.class(), band}}))
				legs = append(legs, k.idle(uint32(i+1), f, func(s *routerSplice) { s.Band = band }))
				t.Cleanup(func() { _, _, _ = k.PopIdle(1, f.class(), band) })
			}
			c := newClient(k, f, f.usual())
			c.rtt = 50 * time.Millisecond
			c.connect(routerVerdictSYN_ANSWERED)
			r := c.send(packet.ACK, plainRequest, tc.verdict, actRedirect)
			n := k.surrogate(1)
			if tc.takes == 0 {
				if n.Missed[f.class()] != 1 || n.Idle[f.class()] != len(tc.bands) {
					t.Errorf("counters: %+v", n)
				}
				if p, ok := k.pending(f.client, f.vip); !ok || p.Band != far {
					t.Errorf("what user space is told: %+v, %t", p, ok)
				}
				return
			}
			legs[tc.takes].takes(r)
			if n.Idle[f.class()] != len(tc.bands)-1 {
				t.Errorf("counters: %+v", n)
			}
		})
	}
}

// What a surrogate has learnt of a far client's path would affect the next client; a near one's is soon corrected.
func TestLegOfAFarClient(t *testing.T) {
	const rtt = 50 * time.Millisecond
	for _, tc := range []struct {
		name    string
		rtt     time.Duration
		after   time.Duration // the response
		change  func(*rig, *surrogate)
		recycle bool
	}{
		{"little", rtt, rtt, func(*rig, *surrogate) {}, true},
		{"much", rtt, rtt, carried, false},
		{"much, near", time.Millisecond, time.Millisecond, carried, true},
		{"repeated bytes", rtt, rtt, repeated, false},
		{"repeated bytes, near", time.Millisecond, time.Millisecond, repeated, true},
		{"nearer than its handshake", rtt, rtt / 5, func(*rig, *surrogate) {}, false},
		{"farther than its handshake", rtt, 5 * rtt, func(*rig, *surrogate) {}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k, f := newRig(t), families[0]
			k.vip(f)
			s := k.idle(1, f)
			c := newClient(k, f, f.usual())
			c.rtt = tc.rtt
			c.connect(routerVerdictSYN_ANSWERED)
			s.takes(c.send(packet.ACK, plainRequest, routerVerdictHANDOFF, actRedirect))
			c.takes(s.send(packet.ACK, plainResponse, routerVerdictTO_CLIENT, actRedirect))
			band := k.splice(1).Band
			k.must(k.MakeQueues([]LegQueue{{1, f.class(), band}}))
			tc.change(k, s)
			c.tsecr -= uint32(tc.after.Milliseconds())
			c.send(packet.ACK|packet.FIN, "", routerVerdictRECYCLED, actRedirect)
			n, ok, err := k.PopIdle(1, f.class(), band)
			if err != nil || ok != tc.recycle || ok && n != 1 {
				t.Errorf("queue of band %d: got leg %d, %t, %v; want 1: %t", band, n, ok, err, tc.recycle)
			}
			want := Dead
			if tc.recycle {
				want = Idle
			}
			if got := State(k.splice(1).State); got != want {
				t.Errorf("leg: got %v, want %v", got, want)
			}
		})
	}
}

// carried makes leg 1 have sent much to its client.
func carried(k *rig, _ *surrogate) {
	s := k.splice(1)
	s.BytesToClient = 1 << 20
	k.must(k.maps.Splices.Update(uint32(1), s, ebpf.UpdateAny))
}

// repeated makes the surrogate retransmit its last bytes.
func repeated(k *rig, s *surrogate) {
	s.seq -= 2
	s.send(packet.ACK, "ok", routerVerdictTO_CLIENT, actRedirect)
}
