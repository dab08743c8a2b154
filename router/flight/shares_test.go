package flight

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"baton/packet/quic"
	"baton/packet/quic/quictest"
)

var flooded = Limits{Datagrams: 4, Bytes: 8 << 10, Hello: 16 << 10, Wait: Defaults.Wait, Share: 4, Total: 20}

// half begins a flight and gives the datagram that ends it.
func half(t *testing.T, g *Gatherer, tuple Tuple, number uint32) (r Result, rest []byte) {
	t.Helper()
	hello := helloOf(1500)
	c := &quictest.Client{Version: quic.Version1, Destination: binary.BigEndian.AppendUint64(nil, uint64(number)+1<<40)}
	r = g.Add(tuple, c.Initial(0, quictest.Crypto(0, hello[:700]), 1200), 0)
	return r, c.Initial(1, quictest.Crypto(700, hello[700:]), 1200)
}

// TestFloodOfAPrefix: forged sources of one prefix have their share, and a flight there is not lost by it, nor one elsewhere.
func TestFloodOfAPrefix(t *testing.T) {
	g := New(flooded)
	neighbour, elsewhere := from("198.51.100.200:1"), from("203.0.113.1:1")
	_, rest1 := half(t, g, neighbour, 1)
	_, rest2 := half(t, g, elsewhere, 2)
	for i := range uint32(1000) {
		r, _ := half(t, g, from(fmt.Sprintf("198.51.100.%d:%d", i%200, 1000+i)), 100+i)
		if want := "crowded"; i >= 3 && r.text() != want {
			t.Fatalf("flight %d of the prefix: %s, want %s", i, r.text(), want)
		}
	}
	if g.Len() != 5 {
		t.Errorf("%d flights, want a share of 4 and another one", g.Len())
	}
	for _, c := range []struct {
		tuple Tuple
		rest  []byte
	}{{neighbour, rest1}, {elsewhere, rest2}} {
		if r := g.Add(c.tuple, c.rest, 0); r.Outcome != Hello {
			t.Errorf("%v: %s", c.tuple.Client, r.text())
		}
	}
}

// TestFloodOfManyPrefixes: a flight that is its prefix' only one is not lost, even if each of a flood comes from another prefix.
func TestFloodOfManyPrefixes(t *testing.T) {
	g := New(flooded)
	early := from("203.0.113.1:1")
	_, earlyRest := half(t, g, early, 1)
	for i := range uint32(1000) {
		half(t, g, Tuple{netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(i % 7), byte(i % 5), byte(i)}), uint16(i)), vip}, 100+i)
	}
	if g.Len() != flooded.Total || g.Counts().Evicted != 0 {
		t.Fatalf("%d flights, want %d; %d evicted", g.Len(), flooded.Total, g.Counts().Evicted)
	}
	if r, _ := half(t, g, from("192.0.2.200:1"), 2); r.Reason != Full {
		t.Errorf("late client: %s", r.text())
	}
	if r := g.Add(early, earlyRest, 0); r.Outcome != Hello {
		t.Errorf("early client: %s", r.text())
	}
}

// TestRoomIsShared: a newcomer takes from the prefix that has most, its oldest flight.
func TestRoomIsShared(t *testing.T) {
	g := New(flooded)
	rests := make(map[string][]byte)
	add := func(client string, number uint32) string {
		r, rest := half(t, g, from(client), number)
		rests[client] = rest
		return r.text()
	}
	for p := range 5 {
		for i := range 4 {
			if got := add(fmt.Sprintf("[2001:db8:0:%x00::%d]:443", p, i), uint32(10*p+i)); got != "more" {
				t.Fatalf("prefix %d, flight %d: %s", p, i, got)
			}
		}
	}
	if got := add("203.0.113.1:1", 1000); got != "more" || g.Len() != 20 || g.Counts().Evicted != 1 {
		t.Fatalf("newcomer: %s, %d flights, %d evicted", got, g.Len(), g.Counts().Evicted)
	}
	// Two more have three, which is no more than the others would be left with.
	if a, b, c := add("203.0.113.2:1", 1001), add("203.0.113.3:1", 1002), add("203.0.113.4:1", 1003); a != "more" || b != "more" || c != "full" {
		t.Errorf("second, third and fourth of the newcomer's prefix: %s, %s, %s", a, b, c)
	}
	if got := add("[2001:db8:0:0400::9]:443", 2000); got != "crowded" && got != "full" {
		t.Errorf("a prefix that has most: %s", got)
	}
	evicted := []string{"[2001:db8:0:000::0]:443", "[2001:db8:0:100::0]:443", "[2001:db8:0:200::0]:443"}
	finished := 0
	for client, rest := range rests {
		done := g.Add(from(client), rest, 0).Outcome == Hello
		if done {
			finished++
		}
		if gone := slices.Contains(evicted, client); gone && done {
			t.Errorf("%s is the oldest of its prefix, and was not evicted", client)
		}
	}
	if finished != 20 {
		t.Errorf("%d hellos became whole, want 20", finished)
	}
}

// TestWholeNeedsNoRoom: a hello of one datagram is read however crowded it is.
func TestWholeNeedsNoRoom(t *testing.T) {
	g := New(Limits{Datagrams: 1, Bytes: 1500, Hello: 4096, Wait: Defaults.Wait, Share: 1, Total: 1})
	half(t, g, from("203.0.113.1:1"), 1)
	if r, _ := half(t, g, from("203.0.113.2:1"), 2); r.Reason != Crowded {
		t.Errorf("another half: %s", r.text())
	}
	if r, _ := half(t, g, from("192.0.2.9:1"), 3); r.Reason != Full {
		t.Errorf("a half elsewhere: %s", r.text())
	}
	hello := helloOf(300)
	if r := g.Add(from("203.0.113.3:1"), someone(9).Initial(0, quictest.Crypto(0, hello), 1200), 0); r.Outcome != Hello || !bytes.Equal(r.Message, hello) {
		t.Errorf("a whole one: %s", r.text())
	}
}

func TestPrefixOf(t *testing.T) {
	for _, tt := range []struct{ address, want string }{
		{"198.51.100.7", "198.51.100.0/24"}, {"::ffff:198.51.100.7", "198.51.100.0/24"},
		{"2001:db8:1:2ff:3::4", "2001:db8:1:200::/56"}, {"fe80::1%eth0", "fe80::/56"},
	} {
		if got := PrefixOf(netip.MustParseAddr(tt.address)).String(); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.address, got, tt.want)
		}
	}
}

// TestSharesAgree compares the levels with a plain count, through additions, evictions and ends in any order.
func TestSharesAgree(t *testing.T) {
	random := newRand(t)
	g := New(flooded)
	var ends []struct {
		tuple Tuple
		rest  []byte
	}
	for i := range uint32(1500) {
		if len(ends) > 0 && random.IntN(3) == 0 {
			j := random.IntN(len(ends))
			g.Add(ends[j].tuple, ends[j].rest, 0)
			ends = append(ends[:j], ends[j+1:]...)
		}
		// Few prefixes are likely, many possible.
		p := min(random.IntN(12), random.IntN(12))
		tuple := Tuple{netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(p), byte(i)}), uint16(i)), vip}
		if r, rest := half(t, g, tuple, i); r.Outcome == More {
			ends = append(ends, struct {
				tuple Tuple
				rest  []byte
			}{tuple, rest})
		}
		checkShares(t, g)
	}
	if g.Counts().Evicted == 0 || g.Counts().Refused[Full] == 0 || g.Counts().Refused[Crowded] == 0 {
		t.Errorf("not all was met: %+v", g.Counts())
	}
}

func checkShares(t *testing.T, g *Gatherer) {
	t.Helper()
	counted := make(map[netip.Prefix]int)
	for _, f := range g.flights {
		counted[f.prefix]++
	}
	if len(counted) != len(g.shares.prefixes) || g.Len() != g.shares.used || g.Len() != g.order.Len() || g.Len() > flooded.Total {
		t.Fatalf("%d flights, %d used, %d in order; %d prefixes, counted %d", g.Len(), g.shares.used, g.order.Len(), len(g.shares.prefixes), len(counted))
	}
	seen := 0
	for level := range g.shares.levels {
		for e := g.shares.levels[level].Front(); e != nil; e = e.Next() {
			p := e.Value.(*prefix)
			if p.flights.Len() != level || counted[p.flights.Front().Value.(*flight).prefix] != level {
				t.Fatalf("a prefix with %d flights is in level %d", p.flights.Len(), level)
			}
			seen++
		}
	}
	if seen != len(counted) {
		t.Fatalf("%d prefixes in levels, want %d", seen, len(counted))
	}
}
