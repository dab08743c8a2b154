package install

import (
	"encoding/hex"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"baton/forwarder/model"
	"baton/openflow"
)

// TestSNAP: frames with a length instead of an EtherType meet the entries of the EtherType in their SNAP header, are changed behind it, and are
// none of Ethernet's without one.
func TestSNAP(t *testing.T) {
	r := newRig(t, small)
	r.flow(0, 3, openflow.Match{}.Uint(openflow.FieldEthType, 0x0800).Uint(openflow.FieldIPProto, 17).Uint(openflow.FieldUDPDst, 80),
		apply(openflow.ActionSetField{Field: openflow.Match{}.Addr(openflow.FieldIPv4Dst, netip.MustParseAddr("10.9.8.7"))},
			openflow.ActionSetField{Field: openflow.Match{}.Uint(openflow.FieldUDPDst, 81)}, openflow.ActionDecNWTTL{},
			openflow.ActionPushMPLS{EtherType: 0x8847}, openflow.ActionPopMPLS{EtherType: 0x0800}, out(2)))
	r.flow(0, 2, openflow.Match{}.Uint(openflow.FieldEthType, 0x05ff), apply(out(3)))
	r.flow(0, 1, nil, apply(out(4)))
	const datagram = "4500 001c 0000 0000 4011 66ba 0a000001 0a000002 0035 0050 0008 ebd4"
	for _, tt := range []struct {
		name, in string
		port     openflow.PortNo
	}{
		{"SNAP", "0024 aaaa03 000000 0800" + datagram, 2},
		{"SNAP behind a tag", "8100 0005 0024 aaaa03 000000 0800" + datagram, 2},
		{"SNAP behind two tags", "88a8 0005 8100 0006 0024 aaaa03 000000 0800" + datagram, 2},
		{"SNAP of another organization", "0024 aaaa03 00000c 0800" + datagram, 3},
		{"SNAP with a length", "0024 aaaa03 000000 05ff" + datagram, 3},
		{"spanning tree", "0026 424203 0000", 3},
		{"another type", "0009 aaaa03 000000 88b5", 4},
		{"a tag is none behind SNAP", "0024 aaaa03 000000 8100 0005 0800" + datagram, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, err := hex.DecodeString(strings.ReplaceAll("020000000001 020000000002"+tt.in, " ", ""))
			if err != nil {
				t.Fatal(err)
			}
			b = slices.Concat(b, make([]byte, 70-len(b)))
			want := r.model.Receive(1, b)
			r.send(1, b)
			_, ok, got := r.becomes([]model.Result{want})
			if !ok || len(got.Sent) != 1 || got.Sent[0].Port != tt.port {
				t.Errorf("%x\nbecame\n%swant\n%sout of port %v", b, describe(got), describe(want), tt.port)
			}
		})
	}
}
