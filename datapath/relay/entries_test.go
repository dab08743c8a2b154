package relay

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"baton/datapath/kerneltest"
	"baton/packet"
)

func prefixes(all ...string) []netip.Prefix {
	var p []netip.Prefix
	for _, s := range all {
		p = append(p, netip.MustParsePrefix(s))
	}
	return p
}

// lookup is the model: which entry a destination is for.
func lookup(entries []Entry, addr netip.Addr, port uint16) (Entry, bool) {
	contains := func(all []netip.Prefix) bool {
		for _, p := range all {
			if p.Contains(addr) {
				return true
			}
		}
		return false
	}
	for _, intercept := range []bool{false, true} {
		for _, e := range entries {
			if e.Intercept != intercept || !contains(e.Destinations) || contains(e.Except) {
				continue
			}
			for _, r := range portsOf(e) {
				if r.First <= port && port <= r.Last {
					return e, true
				}
			}
		}
	}
	return Entry{}, false
}

func TestRelayEntriesRefused(t *testing.T) {
	listen := netip.MustParseAddrPort("10.0.0.1:80")
	good := Entry{ID: 3, Listen: listen, Destinations: prefixes("10.0.0.0/8")}
	tests := []struct {
		name string
		edit func(e *Entry)
		want string
	}{
		{"no listeners", func(e *Entry) { e.Listen = netip.AddrPort{} }, "entry 3: invalid listen address invalid AddrPort"},
		{"port 0", func(e *Entry) { e.Listen = netip.MustParseAddrPort("10.0.0.1:0") }, "entry 3: invalid listen address 10.0.0.1:0"},
		{"mapped", func(e *Entry) { e.Listen = netip.MustParseAddrPort("[::ffff:10.0.0.1]:80") },
			"entry 3: invalid listen address [::ffff:10.0.0.1]:80"},
		{"no prefix", func(e *Entry) { e.Destinations = []netip.Prefix{{}} }, "entry 3: destination invalid Prefix"},
		{"mapped prefix", func(e *Entry) { e.Destinations = prefixes("::ffff:0:0/96") }, "entry 3: destination ::ffff:0.0.0.0/96"},
		{"no exception", func(e *Entry) { e.Except = []netip.Prefix{{}} }, "entry 3: exception invalid Prefix"},
		{"other family", func(e *Entry) { e.Destinations = prefixes("fd00::/8") },
			"entry 3: destination fd00::/8 and listen address 10.0.0.1:80 are of different families"},
		{"IPv4 to an IPv6 address", func(e *Entry) { e.Listen = netip.MustParseAddrPort("[fd00::1]:80") },
			"entry 3: destination 10.0.0.0/8 and listen address [fd00::1]:80 are of different families"},
		{"ports", func(e *Entry) { e.Ports = []Ports{{90, 80}} }, "entry 3: ports 90-80"},
		{"early", func(e *Entry) { e.Early = 3 }, "entry 3: invalid kind of early SYN 3"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := good
			tt.edit(&e)
			if _, err := compileEntries([]Entry{e}); err == nil || err.Error() != tt.want {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
	if _, err := compileEntries(make([]Entry, MaxEntries+1)); err == nil || !strings.Contains(err.Error(), "65 entries") {
		t.Errorf("too many: %v", err)
	}
	many := good
	many.Destinations = nil
	for i := range maxPrefixes {
		addr := netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0})
		many.Destinations = append(many.Destinations, netip.PrefixFrom(addr, 24))
	}
	if _, err := compileEntries([]Entry{many}); err == nil || !strings.Contains(err.Error(), "(at most 32768)") {
		t.Errorf("too many prefixes: %v", err) // as many, and those that stand for the families
	}
	good.Except = prefixes("10.0.0.1/32", "fd00::1/128") // all of a host's addresses
	if _, err := compileEntries([]Entry{good}); err != nil {
		t.Error(err)
	}
}

// anyEntries are entries whose prefixes and ports meet, all with one listener.
func anyEntries(r *rand.Rand, listen netip.AddrPort) []Entry {
	prefix := func() netip.Prefix {
		if r.IntN(2) == 0 {
			addr := netip.AddrFrom4([4]byte{203, 0, 113, byte(r.IntN(4))})
			return netip.PrefixFrom(addr, []int{0, 8, 24, 30, 31, 32}[r.IntN(6)]).Masked()
		}
		b := netip.MustParseAddr("2001:db8::").As16()
		b[15] = byte(r.IntN(4))
		return netip.PrefixFrom(netip.AddrFrom16(b), []int{0, 16, 64, 126, 127, 128}[r.IntN(6)]).Masked()
	}
	var all []Entry
	for id := range 1 + r.IntN(5) {
		e := Entry{ID: uint32(100 + id), Listen: listen, Intercept: r.IntN(2) == 0, Early: EarlyOptimistic}
		for range 1 + r.IntN(3) {
			e.Destinations = append(e.Destinations, prefix())
		}
		for range r.IntN(3) {
			e.Except = append(e.Except, prefix())
		}
		for range r.IntN(3) {
			first := uint16(80 + r.IntN(4))
			e.Ports = append(e.Ports, Ports{first, first + uint16(r.IntN(3))})
		}
		all = append(all, e)
	}
	return all
}

// TestRelayEntriesModel: the kernel finds the entry that the model finds, whatever was set before.
func TestRelayEntriesModel(t *testing.T) {
	k, r := newRig(t), kerneltest.Rand(t)
	found := 0
	for range 40 {
		entries := anyEntries(r, k.listen)
		k.must(k.SetEntries(entries))
		if n, want := kerneltest.Entries(t, k.objects.Destinations), len(k.tables.destinations)+len(k.stale.destinations); n != want {
			t.Fatalf("%d destinations in the kernel, %d are set", n, want)
		}
		for range 30 {
			f := families[r.IntN(2)]
			dst := f.farOne.AsSlice()
			dst[len(dst)-1] = byte(r.IntN(5))
			s := f.syn(netip.AddrPortFrom(f.client, uint16(1024+r.IntN(60000))), uint16(79+r.IntN(8)), packet.Seq(r.Uint32()))
			addr, _ := netip.AddrFromSlice(dst)
			s.Dst = netip.AddrPortFrom(addr, s.Dst.Port())
			e, ok := lookup(entries, addr, s.Dst.Port())
			verdict, _, _ := k.run(packet.Build(s))
			reported := k.takeEvents()
			if ok != (len(reported) == 1) || ok && (reported[0].Entry != e.ID || reported[0].SYN != (SYN{s.Src, s.Dst, uint32(s.Seq)})) {
				t.Fatalf("%s to %v: %+v; the model: %v %+v\n%s", verdict, s.Dst, reported, ok, e, listed(entries))
			}
			if ok {
				found++
				k.settleAll()
			}
		}
	}
	if found < 100 {
		t.Errorf("only %d packets were an entry's", found)
	}
}

func listed(entries []Entry) string {
	var b strings.Builder
	for _, e := range entries {
		fmt.Fprintf(&b, "%+v\n", e)
	}
	return b.String()
}

// TestRelayEntriesCompiled: prefixes that change nothing are left out, so that a long list costs no more than it says.
func TestRelayEntriesCompiled(t *testing.T) {
	got, err := compileEntries([]Entry{
		{ID: 1, Intercept: true, Listen: netip.MustParseAddrPort("[::]:1"), Destinations: prefixes("10.0.0.0/8", "10.1.0.0/16", "2000::/3"),
			Except: prefixes("10.2.3.4/32")},
		{ID: 2, Listen: netip.MustParseAddrPort("10.2.3.4:5"), Destinations: prefixes("10.2.3.4/32"), Ports: []Ports{{5, 5}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[netip.Prefix]uint64{}
	for s, set := range map[string]uint64{"0.0.0.0/0": 0, "::/0": 0, "10.0.0.0/8": 2, "2000::/3": 2, "10.2.3.4/32": 1} {
		want[netip.MustParsePrefix(s)] = set
	}
	if fmt.Sprint(got.destinations) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got.destinations, want)
	}
	if got.ports[5] != 3 || got.ports[6] != 2 || got.entries[0].Id != 2 {
		t.Errorf("ports %d, %d; first entry %d", got.ports[5], got.ports[6], got.entries[0].Id)
	}
}
