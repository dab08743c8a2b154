package match_test

import (
	"net/netip"
	"testing"

	"baton/forwarder/match"
	"baton/openflow"
	"baton/packet"
)

func ipv4() openflow.Match { return openflow.Match{}.Uint(openflow.FieldEthType, 0x0800) }

func TestRelations(t *testing.T) {
	prefix := func(s string) openflow.Match { return ipv4().Prefix(openflow.FieldIPv4Dst, netip.MustParsePrefix(s)) }
	tcp := ipv4().Uint(openflow.FieldIPProto, 6)
	arp := openflow.Match{}.Uint(openflow.FieldEthType, 0x0806).Addr(openflow.FieldARPTPA, netip.MustParseAddr("10.0.0.1"))
	tests := []struct {
		name             string
		a, b             openflow.Match
		covers, overlaps bool
	}{
		{"everything and one address", nil, prefix("10.0.0.1/32"), true, true},
		{"one address and everything", prefix("10.0.0.1/32"), nil, false, true},
		{"a network and one inside", prefix("10.0.0.0/8"), prefix("10.1.0.0/16"), true, true},
		{"two networks", prefix("10.0.0.0/8"), prefix("11.0.0.0/8"), false, false},
		{"the same", prefix("10.0.0.0/8"), prefix("10.0.0.0/8"), true, true},
		{"fields of different layers", prefix("10.0.0.0/8"), tcp, false, true},
		{"addresses of IP and ARP in one place", prefix("10.0.0.1/32"), arp, false, false},
		{"no tag and any tag", openflow.Match{}.Uint(openflow.FieldVLANVID, 0),
			openflow.Match{}.UintMasked(openflow.FieldVLANVID, 0x1000, 0x1000), false, false},
		{"any tag and tag 5", openflow.Match{}.UintMasked(openflow.FieldVLANVID, 0x1000, 0x1000),
			openflow.Match{}.Uint(openflow.FieldVLANVID, 0x1005), true, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, b := match.Of(tt.a), match.Of(tt.b)
			if got := a.Covers(&b); got != tt.covers {
				t.Errorf("covers: %v", got)
			}
			if a.Overlaps(&b) != tt.overlaps || b.Overlaps(&a) != tt.overlaps {
				t.Errorf("overlaps: %v, the other way %v", a.Overlaps(&b), b.Overlaps(&a))
			}
		})
	}
}

// TestOneForm: what asks the same is equal, however it was written.
func TestOneForm(t *testing.T) {
	mac := packet.MAC{2, 0, 0, 0, 0, 1}
	ones := packet.MAC{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	tests := []struct {
		name string
		a, b openflow.Match
	}{
		{"a mask of ones", openflow.Match{}.MAC(openflow.FieldEthDst, mac), openflow.Match{}.MACMasked(openflow.FieldEthDst, mac, ones)},
		{"bits that the mask leaves out", openflow.Match{}.UintMasked(openflow.FieldMetadata, 0xff, 0x0f),
			openflow.Match{}.UintMasked(openflow.FieldMetadata, 0x0f, 0x0f)},
		{"a mask of zeros", openflow.Match{}.UintMasked(openflow.FieldTunnelID, 0, 0), nil},
		{"another order", openflow.Match{}.Uint(openflow.FieldEthType, 0x0800).Port(1), openflow.Match{}.Port(1).Uint(openflow.FieldEthType, 0x0800)},
		{"13 bits of a tag", openflow.Match{}.Uint(openflow.FieldVLANVID, 0x1005), openflow.Match{}.UintMasked(openflow.FieldVLANVID, 0x1005, 0x1fff)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if a, b := match.Of(tt.a), match.Of(tt.b); a != b {
				t.Errorf("%x\n%x", a, b)
			}
		})
	}
}

func TestMatches(t *testing.T) {
	m := match.Of(ipv4().Uint(openflow.FieldIPProto, 17))
	packet := match.Of(ipv4().Uint(openflow.FieldIPProto, 17).Uint(openflow.FieldUDPDst, 53)).Key
	if !m.Matches(&packet) {
		t.Error("a packet with more fields is not matched")
	}
	packet[51] = 6
	if m.Matches(&packet) {
		t.Error("a packet of another protocol is matched")
	}
}

// TestPlaces: a place is wide enough for each field that stands there, and all fields that a switch must know have one [7.2.3.8].
func TestPlaces(t *testing.T) {
	for _, f := range openflow.Fields() {
		_, size, ok := match.Place(f)
		if !ok || !match.Known(f) {
			t.Errorf("%v has no place", f)
		}
		if size < f.Size() {
			t.Errorf("%v: %d bytes in a place of %d", f, f.Size(), size)
		}
	}
	if match.Known(openflow.FieldActsetOutput) {
		t.Error("actset_output is not matched here")
	}
}
