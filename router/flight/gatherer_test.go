package flight

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"baton/packet/quic"
	"baton/packet/quic/quictest"
)

var vip = netip.MustParseAddrPort("192.0.2.1:443")

func from(client string) Tuple { return Tuple{netip.MustParseAddrPort(client), vip} }

// someone is a client of a flight of its own.
func someone(id byte) *quictest.Client {
	return &quictest.Client{Version: quic.Version1, Destination: bytes.Repeat([]byte{id}, 8), Source: []byte{1, 2, 3}}
}

// step is a datagram of a script, and what becomes of it.
type step struct {
	name     string
	datagram []byte
	after    time.Duration // since the step before
	want     string        // outcome, or reason
	replay   []int         // of Hello: the steps whose datagrams are handed out before this one's
	held     int           // flights afterwards
}

func (r Result) text() string {
	if r.Outcome == Refused {
		return r.Reason.String()
	}
	return r.Outcome.String()
}

func play(t *testing.T, g *Gatherer, tuple Tuple, message []byte, steps []step) {
	t.Helper()
	now := time.Duration(0)
	for i, s := range steps {
		now += s.after
		before := bytes.Clone(s.datagram)
		r := g.Add(tuple, s.datagram, now)
		if r.text() != s.want {
			t.Fatalf("step %d, %s: %s, want %s", i, s.name, r.text(), s.want)
		}
		if g.Len() != s.held {
			t.Fatalf("step %d, %s: %d flights are held, want %d", i, s.name, g.Len(), s.held)
		}
		if !bytes.Equal(before, s.datagram) {
			t.Fatalf("step %d, %s: the datagram was changed", i, s.name)
		}
		if r.Outcome != Hello {
			if r.Message != nil || r.Datagrams != nil {
				t.Fatalf("step %d, %s: a hello with %s", i, s.name, r.text())
			}
			continue
		}
		if !bytes.Equal(r.Message, message) {
			t.Fatalf("step %d, %s: message of %d bytes, want %d", i, s.name, len(r.Message), len(message))
		}
		var want [][]byte
		for _, j := range append(s.replay, i) {
			want = append(want, steps[j].datagram)
		}
		if fmt.Sprintf("%x", r.Datagrams) != fmt.Sprintf("%x", want) {
			t.Fatalf("step %d, %s: %d datagrams, want %d, or other ones", i, s.name, len(r.Datagrams), len(want))
		}
	}
}

func frames(f ...[]byte) []byte { return bytes.Join(f, nil) }

func TestScripts(t *testing.T) {
	c, other := someone(1), someone(2)
	hello := helloOf(1800)
	ping := []byte{byte(quic.Ping)}
	ack := []byte{byte(quic.Ack), 0, 0, 0, 0}
	first := c.Initial(0, quictest.Crypto(0, hello[:1000]), 1200)
	second := c.Initial(1, quictest.Crypto(1000, hello[1000:]), 1200)
	early := c.ZeroRTT(bytes.Repeat([]byte{7}, 1000))
	// piece has a stretch of the hello in a packet of its own.
	piece := func(number uint32, from, to int) []byte {
		return c.Initial(number, quictest.Crypto(from, hello[from:to]), 1200)
	}
	versioned := *c
	versioned.Version = 0x1a2a3a4a
	short, token := *c, *c
	short.Destination, token.Destination, token.Token = []byte{1, 2, 3, 4, 5, 6, 7}, []byte{1, 2, 3, 4}, []byte("from Retry")
	forged := bytes.Clone(second)
	forged[700] ^= 1
	tests := []struct {
		name  string
		steps []step
	}{
		{"one datagram", []step{{"all", c.Initial(0, quictest.Crypto(0, hello), 1200), 0, "hello", nil, 0}}},
		{"two datagrams", []step{{"first", first, 0, "more", nil, 1}, {"second", second, 0, "hello", []int{0}, 0}}},
		{"second first", []step{{"second", second, 0, "more", nil, 1}, {"first", first, 0, "hello", []int{0}, 0}}},
		{"five datagrams backwards", []step{
			{"", piece(4, 1600, 1804), 0, "more", nil, 1}, {"", piece(3, 1200, 1600), 0, "more", nil, 1}, {"", piece(2, 800, 1200), 0, "more", nil, 1},
			{"", piece(1, 400, 800), 0, "more", nil, 1}, {"", piece(0, 0, 400), 0, "hello", []int{0, 1, 2, 3}, 0}}},
		{"six datagrams", []step{
			{"", piece(0, 0, 300), 0, "more", nil, 1}, {"", piece(1, 300, 600), 0, "more", nil, 1}, {"", piece(2, 600, 900), 0, "more", nil, 1},
			{"", piece(3, 900, 1200), 0, "more", nil, 1}, {"", piece(4, 1200, 1500), 0, "too large", nil, 0}}},
		{"other frames between", []step{
			{"", c.Initial(0, frames(ping, quictest.Crypto(900, hello[900:1000]), []byte{0, 0}, ack, quictest.Crypto(0, hello[:900])), 1200), 0, "more", nil, 1},
			{"", c.Initial(1, frames(quictest.Crypto(1000, hello[1000:1001]), ping, quictest.Crypto(1001, hello[1001:])), 1200), 0, "hello", []int{0}, 0}}},
		{"the same datagram again", []step{{"first", first, 0, "more", nil, 1}, {"again", first, 0, "more", nil, 1}, {"second", second, 0, "hello", []int{0}, 0}}},
		{"the same bytes in another packet", []step{{"first", first, 0, "more", nil, 1}, {"again", piece(5, 0, 1000), 0, "more", nil, 1},
			{"half of it", piece(6, 100, 600), 0, "more", nil, 1}, {"more of it", piece(7, 500, 1100), 0, "more", nil, 1}, {"second", second, 0, "hello", []int{0, 3}, 0}}},
		{"overlap of the same bytes", []step{{"", piece(0, 0, 1000), 0, "more", nil, 1}, {"", piece(1, 700, 1804), 0, "hello", []int{0}, 0}}},
		{"other bytes", []step{{"first", first, 0, "more", nil, 1}, {"", c.Initial(1, quictest.Crypto(999, hello[1000:]), 1200), 0, "contradiction", nil, 0}}},
		{"other bytes in one packet", []step{{"", c.Initial(0, frames(quictest.Crypto(0, hello[:9]), quictest.Crypto(8, hello[9:12])), 1200), 0, "contradiction", nil, 0}}},
		{"another packet of a number", []step{{"first", first, 0, "more", nil, 1}, {"", piece(0, 1000, 1804), 0, "contradiction", nil, 0}}},
		{"forged", []step{{"", forged, 0, "forged", nil, 0}, {"first", first, 0, "more", nil, 1}, {"", forged, 0, "forged", nil, 1}, {"second", second, 0, "hello", []int{1}, 0}}},
		{"malformed", []step{{"first", first, 0, "more", nil, 1}, {"STREAM", c.Initial(1, []byte{8, 0, 0}, 1200), 0, "malformed", nil, 0}}},
		{"no frames", []step{{"", c.Initial(0, nil, 0), 0, "small", nil, 0}}},
		{"CONNECTION_CLOSE", []step{{"first", first, 0, "more", nil, 1}, {"", c.Initial(1, []byte{0x1c, 0, 0, 0}, 1200), 0, "closed", nil, 0}}},
		{"no hello", []step{{"", c.Initial(0, quictest.Crypto(0, []byte{2, 0, 0, 0}), 1200), 0, "malformed", nil, 0}}},
		{"reserved bits", []step{{"", c.Seal(0xcf, 0, ping, 1200), 0, "malformed", nil, 0}}},
		{"too late", []step{{"first", first, 0, "more", nil, 1}, {"second", second, 3 * time.Second, "more", nil, 1},
			{"first again", first, 3*time.Second - 1, "hello", []int{1}, 0}}},
		{"0-RTT between", []step{{"first", first, 0, "more", nil, 1}, {"early", early, 0, "more", nil, 1}, {"early again", early, 0, "more", nil, 1},
			{"second", second, 0, "hello", []int{0, 1}, 0}}},
		{"0-RTT before", []step{{"early", early, 0, "more", nil, 1}, {"first", first, 0, "more", nil, 1}, {"second", second, 0, "hello", []int{0, 1}, 0}}},
		{"0-RTT in one datagram with an Initial", []step{
			{"", frames(c.Initial(0, quictest.Crypto(0, hello[:500]), 600), c.ZeroRTT(make([]byte, 600))), 0, "more", nil, 1},
			{"", frames(c.Initial(1, quictest.Crypto(500, hello[500:900]), 600), c.Initial(2, quictest.Crypto(900, hello[900:]), 600)), 0, "hello", []int{0}, 0}}},
		{"0-RTT makes room", []step{
			{"", early, 0, "more", nil, 1}, {"", c.ZeroRTT([]byte("b")), 0, "more", nil, 1}, {"", c.ZeroRTT([]byte("c")), 0, "more", nil, 1},
			{"", c.ZeroRTT([]byte("d")), 0, "more", nil, 1}, {"unheld", c.ZeroRTT([]byte("e")), 0, "more", nil, 1},
			{"first", first, 0, "more", nil, 1}, {"second", second, 0, "hello", []int{0, 1, 2, 5}, 0}}},
		{"bytes behind the packets", []step{{"", append(bytes.Clone(first), 0, 0, 0), 0, "more", nil, 1}, {"", append(bytes.Clone(second), 0x40), 0, "hello", []int{0}, 0}}},
		{"another connection in the datagram", []step{{"", frames(c.Initial(0, quictest.Crypto(0, hello[:100]), 1200), other.Initial(0, ping, 100)), 0, "malformed", nil, 0}}},
		{"unknown version", []step{{"", append(versioned.ZeroRTT(nil), make([]byte, 1200)...), 0, "unknown version", nil, 0}}},
		{"small", []step{{"", c.Initial(0, quictest.Crypto(0, hello[:100]), 1199), 0, "small", nil, 0}}},
		{"id of seven bytes", []step{{"", short.Initial(0, quictest.Crypto(0, hello), 1200), 0, "malformed", nil, 0}}},
		{"id of four bytes with a token", []step{{"", token.Initial(0, quictest.Crypto(0, hello), 1200), 0, "hello", nil, 0}}},
		{"short header", []step{{"", make([]byte, 1200), 0, "unexpected", nil, 0}}},
		{"version negotiation", []step{{"", quictest.Hex("80000000000000" + "00000001"), 0, "unexpected", nil, 0}}},
		{"handshake", []step{{"", quictest.Hex("e00000000101aa000101"), 0, "unexpected", nil, 0}}},
		{"empty", []step{{"", nil, 0, "malformed", nil, 0}}},
		{"a header cut off", []step{{"first", first, 0, "more", nil, 1}, {"", second[:20], 0, "malformed", nil, 1}, {"second", second, 0, "hello", []int{0}, 0}}},
		{"above the bytes", []step{{"", c.Initial(0, quictest.Crypto(0, hello[:100]), 8<<10+1), 0, "too large", nil, 0}}},
		{"a hello above the bytes", []step{{"", c.Initial(0, quictest.Crypto(0, hello), 8<<10+1), 0, "hello", nil, 0}}},
		{"a hello above the limit", []step{{"", c.Initial(0, quictest.Crypto(0, []byte{1, 0, 0x40, 0}), 1200), 0, "too large", nil, 0}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { play(t, New(Defaults), from("198.51.100.7:5000"), hello, tt.steps) })
	}
}

// TestManyPackets: a flight may not have packets without end, however many fit into a datagram.
func TestManyPackets(t *testing.T) {
	c, g := someone(1), New(Defaults)
	number := uint32(0)
	next := func() (datagram []byte) {
		for len(datagram) < 1200 {
			datagram = append(datagram, c.Initial(number, []byte{1, 1, 1, 1}, 0)...)
			number++
		}
		return datagram
	}
	for range 10 {
		if r := g.Add(from("198.51.100.7:5000"), next(), 0); r.Outcome == Refused {
			if r.Reason != TooLarge || number < maxPackets || g.Len() != 0 {
				t.Errorf("after %d packets: %s, %d flights", number, r.text(), g.Len())
			}
			return
		}
	}
	t.Errorf("%d packets are taken", number)
}

// TestApart: flights of one port, one version and one id each keep to themselves.
func TestApart(t *testing.T) {
	hello := helloOf(1500)
	g := New(Defaults)
	second := someone(1)
	second.Version = quic.Version2
	clients := []struct {
		c     *quictest.Client
		tuple Tuple
	}{
		{someone(1), from("198.51.100.7:5000")}, {someone(2), from("198.51.100.7:5000")}, {someone(1), from("198.51.100.7:5001")},
		{someone(1), from("[2001:db8::1]:5000")}, {second, from("198.51.100.7:5000")},
		{someone(1), Tuple{netip.MustParseAddrPort("198.51.100.7:5000"), netip.MustParseAddrPort("192.0.2.2:443")}},
	}
	for i, c := range clients {
		if r := g.Add(c.tuple, c.c.Initial(0, quictest.Crypto(0, hello[:700]), 1200), 0); r.Outcome != More || g.Len() != i+1 {
			t.Fatalf("client %d: %s, %d flights", i, r.text(), g.Len())
		}
	}
	for i, c := range clients {
		if r := g.Add(c.tuple, c.c.Initial(1, quictest.Crypto(700, hello[700:]), 1200), 0); r.Outcome != Hello || !bytes.Equal(r.Message, hello) || len(r.Datagrams) != 2 {
			t.Fatalf("client %d: %s, %d datagrams", i, r.text(), len(r.Datagrams))
		}
	}
	if g.Len() != 0 || g.Counts().Hellos != uint64(len(clients)) {
		t.Errorf("%d flights, counts %+v", g.Len(), g.Counts())
	}
}

// TestRandomFlights: a hello in pieces of any size, some of them twice, over several packets and datagrams in any order.
func TestRandomFlights(t *testing.T) {
	random := newRand(t)
	for round := range 500 {
		hello := helloOf(random.IntN(3000))
		c := someone(byte(round))
		if round%2 == 0 {
			c.Version = quic.Version2
		}
		n := 1 + random.IntN(5)
		parts := make([][]byte, n)
		for at := 0; at < len(hello); {
			size := 1 + random.IntN(len(hello)/n+1)
			start, end := max(0, at-random.IntN(30)), min(len(hello), at+size)
			i := random.IntN(n)
			parts[i] = append(parts[i], quictest.Crypto(start, hello[start:end])...)
			at = end
		}
		var datagrams [][]byte
		total := 0
		for i, p := range parts {
			if len(p) > 0 {
				datagrams = append(datagrams, c.Initial(uint32(i), p, 1200))
				total += len(datagrams[len(datagrams)-1])
			}
		}
		if total > Defaults.Bytes {
			continue
		}
		random.Shuffle(len(datagrams), func(i, j int) { datagrams[i], datagrams[j] = datagrams[j], datagrams[i] })
		g := New(Defaults)
		for i, d := range datagrams {
			if random.IntN(4) == 0 && i > 0 {
				if r := g.Add(from("198.51.100.7:5000"), datagrams[random.IntN(i)], 0); r.Outcome != More {
					t.Fatalf("round %d: a repetition: %s", round, r.text())
				}
			}
			r := g.Add(from("198.51.100.7:5000"), d, 0)
			if r.Outcome == More && i < len(datagrams)-1 {
				continue
			}
			if r.Outcome != Hello || !bytes.Equal(r.Message, hello) || !bytes.Equal(r.Datagrams[len(r.Datagrams)-1], d) {
				t.Fatalf("round %d, datagram %d of %d: %s, message of %d bytes, want %d", round, i, len(datagrams), r.text(), len(r.Message), len(hello))
			}
			break // what is left has bytes that were there already
		}
	}
}

func TestExpire(t *testing.T) {
	g := New(Defaults)
	for i := range 10 {
		c := someone(byte(i))
		g.Add(from("198.51.100.7:5000"), c.Initial(0, quictest.Crypto(0, helloOf(1500)[:700]), 1200), time.Duration(i)*time.Second/10)
	}
	g.Expire(Defaults.Wait + 450*time.Millisecond)
	if g.Len() != 5 || g.Counts().Expired != 5 {
		t.Errorf("%d flights, %d expired, want 5 of each", g.Len(), g.Counts().Expired)
	}
	g.Expire(time.Hour)
	if g.Len() != 0 || len(g.shares.prefixes) != 0 || g.shares.used != 0 {
		t.Errorf("%d flights, %d prefixes, %d used after an hour", g.Len(), len(g.shares.prefixes), g.shares.used)
	}
}

func TestNames(t *testing.T) {
	for r := range reasons {
		if r.String() == "" || strings.ToLower(r.String()[:1]) != r.String()[:1] {
			t.Errorf("reason %d is named %q", r, r.String())
		}
	}
}
