package install

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"baton/forwarder/model"
	"baton/openflow"
	"baton/packet"
	"baton/splice"
)

// leg makes an end of a session with random numbers.
func leg(r *rand.Rand, v6 bool) splice.Leg {
	addr := func() netip.AddrPort {
		if v6 {
			return netip.AddrPortFrom(netip.AddrFrom16([16]byte{0xfd, 15: byte(r.Uint32())}), uint16(1+r.IntN(65535)))
		}
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(r.Uint32())}), uint16(1+r.IntN(65535)))
	}
	return splice.Leg{
		Peer: addr(), Local: addr(), PeerMAC: packet.MAC{2, 0, 0, 0, 1, byte(r.Uint32())}, LocalMAC: packet.MAC{2, 0, 0, 0, 2, byte(r.Uint32())},
		SndNxt: packet.Seq(r.Uint32()), RcvNxt: packet.Seq(r.Uint32()), WindowScaling: r.IntN(4) > 0, ShiftSent: uint8(r.IntN(15)),
		ShiftOffered: uint8(r.IntN(15)), Timestamps: r.IntN(4) > 0, TSvalSent: r.Uint32(), TSvalSeen: r.Uint32(), SACK: r.IntN(4) > 0,
		MSSSent: 1460, MSSOffered: 1460,
	}
}

// translation is a direction of a splice as the actions of a flow entry.
func translation(d splice.Direction) []openflow.Action {
	src, dst, from, to := openflow.FieldIPv4Src, openflow.FieldIPv4Dst, d.Rewrite.Src, d.Rewrite.Dst
	if from.Addr().Is6() {
		src, dst = openflow.FieldIPv6Src, openflow.FieldIPv6Dst
	}
	set := func(m openflow.Match) openflow.Action { return openflow.ActionSetField{Field: m} }
	list := []openflow.Action{
		set(openflow.Match{}.MAC(openflow.FieldEthSrc, d.SrcMAC)), set(openflow.Match{}.MAC(openflow.FieldEthDst, d.DstMAC)),
		openflow.ActionDecNWTTL{},
		set(openflow.Match{}.Addr(src, from.Addr())), set(openflow.Match{}.Addr(dst, to.Addr())),
		set(openflow.Match{}.Uint(openflow.FieldTCPSrc, uint64(from.Port()))), set(openflow.Match{}.Uint(openflow.FieldTCPDst, uint64(to.Port()))),
		openflow.ActionIncSeq{By: d.DeltaSeq}, openflow.ActionIncAck{By: d.DeltaAck},
		openflow.ActionRescaleWindow{Sender: d.Window.Sender, Advertised: d.Window.Receiver},
	}
	if d.SACK == splice.Keep {
		list = append(list, openflow.ActionIncSACK{By: d.DeltaAck})
	} else {
		list = append(list, openflow.ActionStripOption{Kind: uint8(packet.OptionSACK)})
	}
	if d.Timestamps == splice.Keep {
		return append(list, openflow.ActionIncTSval{By: d.DeltaTSval}, openflow.ActionIncTSecr{By: d.DeltaTSecr}, out(2))
	}
	return append(list, openflow.ActionStripOption{Kind: uint8(packet.OptionTimestamps)}, out(2))
}

// TestHandoffIsASplice: a flow entry with Baton's actions does to a packet what the splice does.
func TestHandoffIsASplice(t *testing.T) {
	r, rnd := newRig(t, small), newRand(t)
	w := &world{Rand: rnd}
	translated := 0
	for range times(60) {
		v6 := w.often(50)
		kind := kindTCP4
		if v6 {
			kind = kindTCP6
		}
		s := splice.New(leg(rnd, v6), leg(rnd, v6))
		d := one(w, s.ToServer, s.ToClient)
		r.deleteAll()
		r.flow(0, 0, nil, apply(translation(d)...))
		for range 40 {
			b := w.plain(kind)
			want := bytes.Clone(b)
			if d.Translate(want) != splice.Translated {
				continue
			}
			translated++
			r.send(1, b)
			if _, ok, got := r.becomes([]model.Result{{Sent: []model.Sent{{Port: 2, Frame: want}}}}); !ok {
				t.Fatalf("%+v\n%x\nbecame\n%s  want   %x", d, b, describe(got), want)
			}
		}
	}
	if translated == 0 {
		t.Error("no packet could be translated")
	}
}

// TestHandoffClampsMSS: as a splice does.
func TestHandoffClampsMSS(t *testing.T) {
	r, w := newRig(t, small), &world{Rand: newRand(t)}
	clamped := 0
	for _, limit := range []uint16{536, 1400, 1460, 9000} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			r.t = t
			r.deleteAll()
			r.flow(0, 0, nil, apply(openflow.ActionClampMSS{MSS: limit}, out(2)))
			for range times(100) {
				b := w.plain(one(w, kindTCP4, kindTCP6))
				want := bytes.Clone(b)
				if splice.ClampMSS(want, limit) == splice.Translated && !bytes.Equal(want, b) {
					clamped++
				}
				r.send(1, b)
				if _, ok, got := r.becomes([]model.Result{{Sent: []model.Sent{{Port: 2, Frame: want}}}}); !ok {
					t.Fatalf("%x\nbecame\n%s  want   %x", b, describe(got), want)
				}
			}
		})
	}
	if clamped == 0 {
		t.Error("no MSS was clamped")
	}
}
