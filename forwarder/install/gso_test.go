package install

import (
	"bytes"
	"encoding/binary"
	"os/exec"
	"slices"
	"testing"

	"baton/datapath"
	"baton/forwarder/frame"
	"baton/forwarder/model"
	"baton/openflow"
	"baton/packet"
)

// tapPort is a port by which packets come that stand for many.
const tapPort openflow.PortNo = rigPorts + 1

// plugTap adds the port.
func (r *rig) plugTap() *datapath.Tap {
	r.t.Helper()
	tap, err := datapath.OpenTap("gso")
	r.must(err)
	r.t.Cleanup(func() { tap.Close() })
	r.far = append(r.far, far{-1, tap.Ifindex})
	r.setPort(model.Port{No: tapPort, There: true, Live: true})
	return tap
}

// divide has packets for a port leave as the wire wants them: the kernel divides them, and completes their checksums.
func (r *rig) divide(port string) {
	r.t.Helper()
	if out, err := exec.Command("ethtool", "-K", port, "tx", "off", "sg", "off", "tso", "off", "gso", "off").CombinedOutput(); err != nil {
		r.t.Fatalf("ethtool: %v: %s", err, out)
	}
}

// burst makes a TCP packet that stands for many with so much payload each, and its virtio header. Its checksum is left to the card.
func (w *world) burst(k kind, tags, payload, size int) (header, b []byte) {
	for {
		w.tags = 0
		b = w.ethernet(k, tags)
		v := b[14+4*tags:]
		if v[0] == 0x45 && v[6]&0x3f == 0 && v[7] == 0 && v[8] > 1 || v[0]>>4 == 6 && v[6] == 6 && v[7] > 1 {
			break
		}
	}
	l3 := 14 + 4*tags
	l4, kindOfGSO := l3+20, byte(1)
	if k.v6() {
		l4, kindOfGSO = l3+40, 4
	}
	b = b[:l4+int(b[l4+12]>>4)*4]
	b[l4+13] = 0x18
	head := len(b)
	for i := range payload {
		b = append(b, byte(i*7+i>>8))
	}
	length := len(b) - l4
	sum := packet.Sum([]byte{0, 6, byte(length >> 8), byte(length)}, packet.Sum(b[l4-8:l4], 0))
	if k.v6() {
		binary.BigEndian.PutUint16(b[l3+4:], uint16(length))
		sum = packet.Sum([]byte{0, 6, byte(length >> 8), byte(length)}, packet.Sum(b[l4-32:l4], 0))
	} else {
		binary.BigEndian.PutUint16(b[l3+2:], uint16(length+20))
		b[l3+10], b[l3+11] = 0, 0
		binary.BigEndian.PutUint16(b[l3+10:], packet.Checksum(b[l3:l4], 0))
	}
	binary.BigEndian.PutUint16(b[l4+16:], sum)
	header = []byte{1, kindOfGSO}
	for _, n := range []int{head, size, l4, 16} {
		header = binary.LittleEndian.AppendUint16(header, uint16(n))
	}
	return header, b
}

// TestPacketsThatStandForMany: what happens to a packet that the kernel divides later is what would happen to each part, byte for byte.
func TestPacketsThatStandForMany(t *testing.T) {
	field := func(m openflow.Match) openflow.Action { return openflow.ActionSetField{Field: m} }
	var fresh openflow.Match
	v4 := []openflow.Action{
		field(fresh.Bytes(openflow.FieldIPv4Src, []byte{172, 16, 0, 9}, nil)), field(fresh.Bytes(openflow.FieldIPv4Dst, []byte{172, 16, 1, 9}, nil)),
	}
	v6 := []openflow.Action{field(fresh.Bytes(openflow.FieldIPv6Src, slices.Repeat([]byte{0xfd}, 16), nil))}
	handoff := []openflow.Action{
		openflow.ActionIncSeq{By: 1 << 31}, openflow.ActionIncAck{By: 0xfffffff0}, openflow.ActionIncSACK{By: 0xfffffff0},
		openflow.ActionIncTSval{By: 1000}, openflow.ActionIncTSecr{By: 77}, openflow.ActionRescaleWindow{Sender: 7, Advertised: 9},
	}
	tests := []struct {
		name    string
		tags    int
		v4, v6  bool
		actions []openflow.Action
		short   bool // nothing is padded before it is divided: no part may be short
	}{
		{name: "as it is", v4: true, v6: true},
		{name: "IPv4 addresses", v4: true, actions: v4},
		{name: "IPv6 address", v6: true, actions: v6},
		{name: "ports, TTL, class", v4: true, v6: true, actions: []openflow.Action{field(fresh.Uint(openflow.FieldTCPSrc, 1)),
			field(fresh.Uint(openflow.FieldTCPDst, 65535)), openflow.ActionDecNWTTL{}, field(fresh.Uint(openflow.FieldIPDSCP, 33))}},
		{name: "handoff", v4: true, v6: true, actions: handoff},
		{name: "handoff in a VLAN", tags: 1, v4: true, v6: true, actions: slices.Concat(handoff, []openflow.Action{openflow.ActionDecNWTTL{}})},
		{name: "tag pushed", v4: true, v6: true, actions: []openflow.Action{openflow.ActionPushVLAN{EtherType: 0x8100}, field(fresh.Uint(openflow.FieldVLANVID, 0x1007))}},
		{name: "tag popped", tags: 1, v4: true, v6: true, actions: []openflow.Action{openflow.ActionPopVLAN{}}},
		{name: "second tag pushed", tags: 1, v4: true, v6: true, actions: []openflow.Action{openflow.ActionPushVLAN{EtherType: 0x88a8}}},
		{name: "label pushed", v4: true, v6: true, actions: []openflow.Action{openflow.ActionPushMPLS{EtherType: 0x8847}, openflow.ActionDecMPLSTTL{}}},
		{name: "label pushed behind a tag", tags: 1, v4: true, actions: []openflow.Action{openflow.ActionPushMPLS{EtherType: 0x8848}}},
		{name: "service tag pushed", v4: true, v6: true, actions: []openflow.Action{openflow.ActionPushPBB{EtherType: 0x88e7}}},
		{name: "service tag pushed in front of a tag", tags: 1, v4: true, actions: []openflow.Action{openflow.ActionPushPBB{EtherType: 0x88e7}}},
		{name: "label pushed and popped", v4: true, actions: []openflow.Action{openflow.ActionPushMPLS{EtherType: 0x8847},
			openflow.ActionDecMPLSTTL{}, openflow.ActionPopMPLS{EtherType: 0x0800}}, short: true},
	}
	r, w := newRig(t, small), &world{Rand: newRand(t)}
	tap := r.plugTap()
	r.divide("p2")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r.t = t
			r.deleteAll()
			// twice: a copy, and the packet itself
			r.flow(0, 0, nil, apply(slices.Concat([]openflow.Action{out(2)}, tt.actions, []openflow.Action{out(2)})...))
			for n := range times(20) {
				k := kindTCP4
				if tt.v6 && (!tt.v4 || n%2 == 0) {
					k = kindTCP6
				}
				size := one(w, 536, 1000, 1448)
				length := one(w, 2*size, 2*size+1, 10*size, 60000)
				if tt.short {
					length = 2 * size
				}
				header, b := w.burst(k, tt.tags, length, size)
				var want model.Result
				for part := range frame.Segments(bytes.Clone(b), size) {
					want.Sent = append(want.Sent, r.model.Receive(tapPort, part).Sent...)
				}
				r.must(tap.Write(append(header, b...)))
				if _, ok, got := r.becomes([]model.Result{want}); !ok {
					sortResult(&want)
					sortResult(&got)
					for i := range min(len(got.Sent), len(want.Sent)) {
						if g, w := got.Sent[i].Frame, want.Sent[i].Frame; !bytes.Equal(g, w) {
							t.Logf("part %d: got  %x\n         want %x", i, g[:min(len(g), 90)], w[:min(len(w), 90)])
							break
						}
					}
					t.Fatalf("%d bytes in parts of %d: %d parts left, want %d", length, size, len(got.Sent), len(want.Sent))
				}
			}
		})
	}
}

// TestPartsCount: a packet that stands for many counts as many, with all their headers, for flow entries and meters.
func TestPartsCount(t *testing.T) {
	r, w := newRig(t, small), &world{Rand: newRand(t)}
	tap := r.plugTap()
	r.flow(0, 0, nil, r.meter(openflow.MeterFlagPktps, openflow.Band{Kind: openflow.BandDrop, Rate: 1 << 30}), apply(out(nowhere)))
	var want openflow.Counter
	for n := range times(50) {
		size := one(w, 536, 1448)
		header, b := w.burst(one(w, kindTCP4, kindTCP6), n%2, one(w, size/2, size, 2*size, 7*size+3, 60000), size)
		if len(b)-int(binary.LittleEndian.Uint16(header[2:])) <= size {
			header[1] = 0 // it is one packet
		}
		for part := range frame.Segments(bytes.Clone(b), size) {
			want.Packets++
			want.Octets += uint64(len(part))
		}
		r.must(tap.Write(append(header, b...)))
	}
	for e := range r.pipeline.Entries() {
		if got := r.installed.Entry(e.ID); got != want {
			t.Errorf("the flow entry counted %+v, want %+v", got, want)
		}
	}
	if got, _ := r.installed.Meter(1); got != want {
		t.Errorf("the meter counted %+v, want %+v", got, want)
	}
}
