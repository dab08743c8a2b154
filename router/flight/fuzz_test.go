package flight

import (
	"bytes"
	"testing"
	"time"

	"baton/packet/quic"
	"baton/packet/quic/quictest"
)

// FuzzAdd: whatever comes, what is held is within its bounds, and a hello is handed out with the datagrams that it was in.
func FuzzAdd(f *testing.F) {
	c := someone(1)
	hello := helloOf(900)
	f.Add(c.Initial(0, quictest.Crypto(0, hello), 1200), c.Initial(1, quictest.Crypto(400, hello[400:]), 1200), false)
	f.Add(c.ZeroRTT(make([]byte, 1200)), append(c.Initial(0, []byte{1}, 1200), 0), true)
	f.Add(quictest.Hex("c01a2a3a4a0401020304000102"), []byte{0x40}, false)
	f.Fuzz(func(t *testing.T, first, second []byte, again bool) {
		g := New(Defaults)
		datagrams := [][]byte{first, second}
		if again {
			datagrams = append(datagrams, first)
		}
		for i, d := range datagrams {
			checkResult(t, g, d, g.Add(from("198.51.100.7:5000"), d, time.Duration(i)))
		}
	})
}

// FuzzFrames puts any bytes into Initials that open, as a client that knows what it does.
func FuzzFrames(f *testing.F) {
	hello := helloOf(300)
	f.Add(quictest.Crypto(0, hello[:100]), quictest.Crypto(100, hello[100:]), uint32(1))
	f.Add(quictest.Crypto(100, hello[100:]), frames([]byte{1, 0}, quictest.Crypto(0, hello[:130])), uint32(2))
	f.Add([]byte{2, 0, 0, 0, 0}, []byte{0x1c, 0, 0, 0}, uint32(0))
	f.Add(quictest.Crypto(16<<10-1, hello[:1]), quictest.Crypto(16<<10, hello[:1]), uint32(9))
	f.Fuzz(func(t *testing.T, first, second []byte, number uint32) {
		if len(first)+len(second) > 4000 {
			return
		}
		run := func(order ...int) (last Result) {
			g := New(Defaults)
			c := someone(1)
			in := [][]byte{c.Initial(0, first, 1200), c.Initial(number, second, 1200)}
			for _, i := range order {
				last = g.Add(from("198.51.100.7:5000"), in[i], 0)
				checkResult(t, g, in[i], last)
				if last.Outcome != More {
					return last
				}
			}
			return last
		}
		// In which order two datagrams came makes no difference to a hello that needs both.
		a := run(0, 1)
		b := run(1, 0)
		if a.Outcome == Hello && b.Outcome == Hello && len(a.Datagrams) == 2 && len(b.Datagrams) == 2 && !bytes.Equal(a.Message, b.Message) {
			t.Fatalf("messages differ by order:\n%x\n%x", a.Message, b.Message)
		}
	})
}

func checkResult(t *testing.T, g *Gatherer, d []byte, r Result) {
	t.Helper()
	if (r.Outcome == Hello) != (r.Message != nil) || (r.Outcome == Refused) != (r.Reason != None) {
		t.Fatalf("outcome %v, reason %v, message of %d bytes", r.Outcome, r.Reason, len(r.Message))
	}
	if r.Outcome == Hello {
		if len(r.Datagrams) == 0 || len(r.Datagrams) > Defaults.Datagrams+1 || !bytes.Equal(r.Datagrams[len(r.Datagrams)-1], d) {
			t.Fatalf("%d datagrams, or the last is another one", len(r.Datagrams))
		}
		if len(r.Message) < messageHeader || r.Message[0] != clientHello || r.Packet.Kind != quic.Initial && r.Packet.Kind != quic.ZeroRTT {
			t.Fatalf("message %x, packet %v", r.Message, r.Packet.Kind)
		}
	}
	for _, f := range g.flights {
		size := 0
		for _, d := range f.held {
			size += len(d.bytes)
		}
		if size != f.size || size > Defaults.Bytes || len(f.held) > Defaults.Datagrams || len(f.opened) > maxPackets || len(f.hello.bytes) > Defaults.Hello {
			t.Fatalf("a flight holds %d datagrams of %d bytes, counted %d, and %d bytes of hello", len(f.held), size, f.size, len(f.hello.bytes))
		}
	}
}
