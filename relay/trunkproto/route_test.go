package trunkproto

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	tests := []struct {
		names       []string
		joined      string
		first, last string
		rest        string
	}{
		{nil, "", "", "", ""},
		{[]string{"a"}, "a", "a", "a", ""},
		{[]string{"near-clients", "b", "c0"}, "near-clients,b,c0", "near-clients", "c0", "b,c0"},
	}
	for _, tt := range tests {
		t.Run(tt.joined, func(t *testing.T) {
			n, err := JoinNames(tt.names...)
			if err != nil || n.String() != tt.joined || n.Len() != len(tt.names) {
				t.Fatalf("JoinNames = %q of %d, %v", n, n.Len(), err)
			}
			first, rest := n.Cut()
			if string(first) != tt.first || rest.String() != tt.rest || string(n.Last()) != tt.last {
				t.Errorf("first %q, rest %q, last %q", first, rest, n.Last())
			}
			for _, name := range tt.names {
				if !n.Has(name) || n.Has(name+"x") || n.Has("x"+name) {
					t.Errorf("Has is wrong about %q", name)
				}
			}
			if n.Has("") {
				t.Error("Has an empty name")
			}
		})
	}
	for _, bad := range []string{"", "A", "a.b", "a,b", "a b", "ä", strings.Repeat("a", MaxName+1)} {
		if n, err := JoinNames("a", bad); err == nil {
			t.Errorf("JoinNames made %q", n)
		}
	}
	if !ValidName(strings.Repeat("a", MaxName)) {
		t.Error("the longest name is refused")
	}
}

func TestAdvance(t *testing.T) {
	tests := []struct {
		name        string
		via, passed string
		want        error
		left        string
	}{
		{"last", "me", "you", nil, ""},
		{"in the middle", "me,b,c", "a", nil, "b,c"},
		{"another's", "b", "a", ErrRoute, "b"},
		{"another's first", "b,me", "a", ErrRoute, "b,me"},
		{"only like it", "mee", "a", ErrRoute, "mee"},
		{"nobody's", "", "a", ErrRoute, ""},
		{"comes back", "me,b,me", "a", ErrLoop, "me,b,me"},
		{"has come back", "me", "me,b", ErrLoop, "me"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := Header{Via: Names(tt.via), Passed: Names(tt.passed)}
			if err := h.Advance("me"); !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) {
				t.Errorf("Arrive = %v, want %v", err, tt.want)
			}
			if h.Via.String() != tt.left || h.Passed.String() != tt.passed {
				t.Errorf("left %q, passed %q", h.Via, h.Passed)
			}
		})
	}
}

// TestRandomRoutes sends flows and probes over random ways, and holds what becomes of them against a model: the list of relays.
func TestRandomRoutes(t *testing.T) {
	random := randomSource(t)
	address := func() netip.Addr {
		if random.IntN(2) == 0 {
			return netip.AddrFrom4([4]byte{10, byte(random.Uint32()), byte(random.Uint32()), byte(random.Uint32())})
		}
		return netip.AddrFrom16([16]byte{0x20, 1, 15: byte(random.Uint32())})
	}
	outcomes := make(map[string]int)
	for range 3000 {
		route := make([]string, 2+random.IntN(MaxHops))
		for i := range route {
			route[i] = fmt.Sprintf("r%d", random.IntN(25))
		}
		sent := Header{Probe: random.IntN(3) == 0, Server: netip.AddrPortFrom(address(), uint16(1+random.IntN(65535))),
			ClientAddress: ClientAddress(random.IntN(3)), Congestion: []string{"", "bbr", "cubic"}[random.IntN(3)]}
		if !sent.Probe {
			sent.Client = netip.AddrPortFrom(address(), uint16(random.IntN(65536)))
		}
		for i := range sent.ID {
			sent.ID[i] = byte(random.Uint32())
		}
		twice := len(slices.Compact(slices.Sorted(slices.Values(route)))) < len(route)
		reached, h, err := walk(t, sent, route)
		switch {
		case err == nil:
			outcomes["delivered"]++
			if twice || len(route) > MaxHops || reached != len(route)-1 {
				t.Fatalf("%v: the header has come to the end", route)
			}
			h.Via, h.Passed = nil, nil
			if fmt.Sprint(h) != fmt.Sprint(sent) {
				t.Fatalf("sent %v, arrived %v", sent, h)
			}
		case errors.Is(err, ErrLoop) && twice:
			outcomes["loop"]++
			if StatusOf(err) != Loop {
				t.Fatalf("status %v", StatusOf(err))
			}
		case errors.Is(err, ErrHops) && len(route) > MaxHops:
			outcomes["hops"]++
			if reached != 0 {
				t.Fatalf("%v: found at relay %d only", route, reached)
			}
		default:
			t.Fatalf("%v: at relay %d: %v", route, reached, err)
		}
	}
	t.Log(outcomes)
	if outcomes["delivered"] < 100 || outcomes["loop"] < 100 || outcomes["hops"] < 20 {
		t.Errorf("too few of one kind: %v", outcomes)
	}
}

// walk takes a header from the first relay of a route to the last. It returns the relay that was reached, and the header there.
func walk(t *testing.T, h Header, route []string) (int, Header, error) {
	t.Helper()
	sealer := NewSealer(secret)
	h.Via = Names(strings.Join(route[1:], ","))
	for i, self := range route[:len(route)-1] {
		hello := NewHello(counting(byte(i)))
		s := sealer
		if i%3 == 2 {
			s = nil // a trunk of TLS
		}
		b, err := h.Append(nil, self, &hello, s)
		if err != nil {
			return i, h, err
		}
		var n int
		h, n, err = ParseHeader(append(b, "data"...), &hello, s)
		if n != len(b) || err != nil {
			t.Fatalf("%v: at relay %d: %d of %d bytes, %v", route, i+1, n, len(b), err)
		}
		if got := h.Passed.String(); got != strings.Join(route[:i+1], ",") || string(h.Passed.Last()) != self {
			t.Fatalf("%v: at relay %d: passed %s", route, i+1, got)
		}
		if err := h.Advance(route[i+1]); err != nil {
			return i + 1, h, err
		}
	}
	return len(route) - 1, h, nil
}
