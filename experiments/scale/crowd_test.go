package scale

import (
	"bytes"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"baton/packet"
)

// network carries segments between a crowd and a farm as frames, and loses some.
type network struct {
	t     *testing.T
	crowd *crowd
	farm  *farm
	now   time.Duration
	queue [][]byte
	loses func(frame int) bool
	sent  int
}

func newNetwork(t *testing.T, clients int) *network {
	n := &network{t: t, farm: newFarm(firstServer, servers), loses: func(int) bool { return false }}
	n.crowd = newCrowd(firstClient, clients, func(i int) endpoint { return endpoint{firstServer + uint32(i)%servers, 80} }, n.send)
	return n
}

func (n *network) send(s *segment) error {
	frame := make([]byte, maxFrame)
	n.sent++
	if frame = frame[:s.put(frame)]; !n.loses(n.sent) {
		n.queue = append(n.queue, frame)
	}
	return nil
}

// deliver carries all that is under way, and what it causes.
func (n *network) deliver() {
	n.t.Helper()
	for len(n.queue) > 0 {
		frame := n.queue[0]
		n.queue = n.queue[1:]
		f, err := packet.Parse(frame)
		if err != nil {
			n.t.Fatalf("%v: % x", err, frame)
		}
		if packet.Checksum(frame[atIP:atTCP], 0) != 0 || f.TCP().Checksum() != f.TransportChecksum() || f.TCP().Options().Check() != nil {
			n.t.Fatalf("wrong checksums or options: % x", frame)
		}
		var s segment
		if !s.take(frame) {
			n.t.Fatalf("not taken: % x", frame)
		}
		if n.crowd.number(s.to) >= 0 {
			if err := n.crowd.take(&s, n.now); err != nil {
				n.t.Fatal(err)
			}
		} else if out, ok := n.farm.answer(&s, clock(n.now)); ok {
			if err := n.send(&out); err != nil {
				n.t.Fatal(err)
			}
		}
	}
}

func (n *network) all(want state) {
	n.t.Helper()
	for i := range n.crowd.clients {
		if got := n.crowd.clients[i].state; got != want {
			n.t.Fatalf("client %d is in state %d, want %d", i, got, want)
		}
	}
}

func TestSessions(t *testing.T) {
	tests := []struct {
		name  string
		loses func(frame int) bool
	}{
		{"nothing is lost", func(int) bool { return false }},
		{"the first frames are lost", func(frame int) bool { return frame <= 50 }},
		{"one of five is lost", func(frame int) bool { return rand.New(rand.NewPCG(uint64(frame), 1)).IntN(5) == 0 }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			const clients = 1<<portBits + 10 // so that several addresses are used
			n := newNetwork(t, clients)
			n.loses = tt.loses
			run := func(begin func(int, time.Duration) error) {
				t.Helper()
				for i := range clients {
					if err := begin(i, n.now); err != nil {
						t.Fatal(err)
					}
				}
				n.deliver()
				for n.now += repeatAfter; len(n.crowd.waiting) > 0; n.now += repeatAfter {
					for i := range n.crowd.waiting {
						if n.crowd.clients[i].state == idle {
							delete(n.crowd.waiting, i) // as drive does
						}
					}
					for i, w := range n.crowd.waiting {
						n.crowd.waiting[i] = wait{since: n.now, sent: w.sent} // nobody gives up
					}
					if err := n.crowd.repeat(n.now); err != nil {
						t.Fatal(err)
					}
					n.deliver()
				}
				n.all(idle)
			}
			run(n.crowd.connect)
			run(n.crowd.ask)
			run(n.crowd.ask)
			if c := n.crowd.counts; c.Foreign != 0 || c.Ended != 0 || (c.Repeated == 0) != (tt.name == "nothing is lost") {
				t.Errorf("counts %+v", c)
			}
		})
	}
}

func TestAnAnswerToAnotherIsForeign(t *testing.T) {
	n := newNetwork(t, 2)
	for i := range 2 {
		_ = n.crowd.connect(i, 0)
	}
	n.deliver()
	_ = n.crowd.ask(1, 0)
	frame := n.queue[0]
	at := bytes.Index(frame, []byte("00000001"))
	frame[at+7] = '0'
	n.queue = nil
	var s segment
	s.take(frame)
	out, _ := n.farm.answer(&s, 1)
	if _ = n.crowd.take(&out, 0); n.crowd.counts.Foreign != 1 {
		t.Errorf("counts %+v, want one foreign answer", n.crowd.counts)
	}
}

func TestSilenceIsGivenUp(t *testing.T) {
	n := newNetwork(t, 1)
	n.loses = func(int) bool { return true }
	_ = n.crowd.connect(0, 0)
	for now := time.Duration(0); now <= giveUpAfter; now += repeatAfter {
		_ = n.crowd.repeat(now)
	}
	if len(n.crowd.waiting) != 0 || n.crowd.counts.Silent != 1 || n.crowd.clients[0].state != ended {
		t.Errorf("%d wait, counts %+v", len(n.crowd.waiting), n.crowd.counts)
	}
}

func TestEndpoints(t *testing.T) {
	c := newCrowd(firstClient, 1_000_000, nil, nil)
	seen := map[endpoint]bool{}
	for _, i := range []int{0, 1, 1<<portBits - 1, 1 << portBits, 999_999} {
		e := c.endpoint(i)
		if c.number(e) != i || seen[e] {
			t.Errorf("client %d is at %+v, where client %d is", i, e, c.number(e))
		}
		seen[e] = true
	}
	nobody := []endpoint{{firstClient - 1, 20000}, {firstClient, 80}, {firstClient, 2 << portBits}, c.endpoint(1_000_000), {0, 0}}
	for _, e := range nobody {
		if i := c.number(e); i != -1 {
			t.Errorf("%+v is client %d's", e, i)
		}
	}
	if !netip.MustParsePrefix("10.8.0.0/16").Contains(netip.MustParseAddr(address(c.endpoint(999_999).address))) {
		t.Error("the last client is not in the crowd's prefix")
	}
}

// TestSegments compares what is put into a frame with what is taken from it, and with package packet's own frame.
func TestSegments(t *testing.T) {
	base := segment{from: endpoint{firstClient, 20000}, to: endpoint{firstServer, 80}, seq: 0xfffffff0, ack: 7, flags: packet.ACK,
		destinationMAC: packet.MAC{2, 1}, sourceMAC: packet.MAC{2, 2}}
	tests := []struct {
		name    string
		change  func(*segment)
		options packet.Options
	}{
		{"bare", func(*segment) {}, nil},
		{"timestamps", func(s *segment) { s.options, s.tsval, s.tsecr = timestamps, 5, 6 },
			packet.Options{}.AppendNOP(2).AppendTimestamps(5, 6)},
		{"SYN", func(s *segment) { s.flags, s.options, s.tsval = packet.SYN, timestamps|negotiation, 9 },
			packet.Options{}.AppendMSS(mss).AppendSACKPermitted().AppendTimestamps(9, 0).AppendNOP(1).AppendWindowScale(windowShift)},
		{"payload of an odd length", func(s *segment) { s.payload = []byte("odd") }, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := base
			tt.change(&s)
			frame := make([]byte, maxFrame)
			frame = frame[:s.put(frame)]
			addr := func(e endpoint) netip.AddrPort {
				return netip.AddrPortFrom(netip.MustParseAddr(address(e.address)), e.port)
			}
			want := packet.Build(packet.Spec{SrcMAC: s.sourceMAC, DstMAC: s.destinationMAC, Src: addr(s.from), Dst: addr(s.to),
				DontFragment: true, Seq: packet.Seq(s.seq), Ack: packet.Seq(s.ack), Flags: s.flags, Window: window,
				Options: tt.options, Payload: s.payload})
			if !bytes.Equal(frame, want) {
				t.Errorf("put\n% x\nwant\n% x", frame, want)
			}
			var got segment
			if !got.take(slices.Concat(frame, []byte{0, 0})) {
				t.Fatal("not taken")
			}
			if !bytes.Equal(got.payload, s.payload) {
				t.Errorf("payload %q, want %q", got.payload, s.payload)
			}
			got.payload, s.payload = nil, nil
			if got.from != s.from || got.to != s.to || got.seq != s.seq || got.ack != s.ack ||
				got.flags != s.flags || got.options != s.options || got.tsval != s.tsval || got.tsecr != s.tsecr {
				t.Errorf("took %+v, want %+v", got, s)
			}
			for end := range frame {
				got.take(frame[:end]) // must not panic
			}
		})
	}
}
