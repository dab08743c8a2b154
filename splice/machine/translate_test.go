package machine_test

import (
	"math/rand/v2"
	"testing"

	"baton/packet"
	"baton/splice"
	"baton/splice/machine"
)

// The kernel's C and package splice, the specification, compute the same numbers.
func TestTranslateAgreesWithSplice(t *testing.T) {
	r := rand.New(rand.NewPCG(33, 1))
	for range 200_000 {
		leg := func() splice.Leg {
			return splice.Leg{
				SndNxt: packet.Seq(r.Uint32()), RcvNxt: packet.Seq(r.Uint32()), WindowScaling: r.IntN(4) > 0, ShiftSent: machine.OurShift,
				ShiftOffered: uint8(r.IntN(splice.MaxShift + 1)), Timestamps: true, TSvalSent: r.Uint32(), TSvalSeen: r.Uint32(),
			}
		}
		client, server := leg(), leg()
		joined := splice.New(client, server)
		d := machine.Differences{
			ToServerSeq: joined.ToServer.DeltaSeq, ToServerAck: joined.ToServer.DeltaAck,
			TSToServer: joined.ToServer.DeltaTSval, TSToClient: joined.ToClient.DeltaTSval,
			Flags: machine.TS, ClientShift: client.ShiftOffered, ServerShift: server.ShiftOffered,
		}
		if client.WindowScaling {
			d.Flags |= machine.ClientScale
		}
		if server.WindowScaling {
			d.Flags |= machine.ServerScale
		}
		n := machine.Numbers{Seq: r.Uint32(), Ack: r.Uint32(), TSVal: r.Uint32(), TSEcr: r.Uint32(), Window: uint16(r.Uint32()), HasACK: r.IntN(4) > 0}
		for _, toServer := range []bool{true, false} {
			want := numbers(joined, n, toServer)
			if got := machine.Translate(d, n, toServer); got != want {
				t.Fatalf("%+v of %+v to the server %t: the kernel's C has %+v, the specification %+v", n, d, toServer, got, want)
			}
		}
	}
}

// numbers applies splice's equations to a packet.
func numbers(s splice.Splice, n machine.Numbers, toServer bool) machine.Numbers {
	d := s.ToClient
	if toServer {
		d = s.ToServer
	}
	n.Seq += d.DeltaSeq
	n.TSVal += d.DeltaTSval
	if n.HasACK {
		n.Ack += d.DeltaAck
		n.TSEcr += d.DeltaTSecr
	}
	n.Window = d.Window.Apply(n.Window)
	return n
}

func TestRescaleAgreesWithSplice(t *testing.T) {
	for from := range uint8(splice.MaxShift + 1) {
		for to := range uint8(splice.MaxShift + 1) {
			shifts := splice.Shifts{Sender: from, Receiver: to}
			for window := 0; window <= 0xffff; window += 1 + window/64 {
				got, want := machine.Rescale(uint32(window), from, to), shifts.Apply(uint16(window))
				if got != want {
					t.Fatalf("window %d from scale %d to %d: the kernel's C has %d, the specification %d", window, from, to, got, want)
				}
			}
		}
	}
}

func TestInsertionAgreesWithSplice(t *testing.T) {
	r := rand.New(rand.NewPCG(33, 2))
	for range 200_000 {
		want := randomInsertion(r)
		got := machine.Insertion{Len: uint16(want.Len), Head: uint16(want.Head)}
		n, length := near(r, want), uint32(r.IntN(3000))
		at := uint32(want.At)
		if a, b := got.Start(at, uint32(n)), uint32(want.Start(n)); a != b {
			t.Fatalf("%+v: byte %d begins at %d in the kernel's C, %d by the specification", want, n, a, b)
		}
		if a, b := got.Heard(at, uint32(n)), uint32(want.Heard(n)); a != b {
			t.Fatalf("%+v: %d is heard as %d in the kernel's C, %d by the specification", want, n, a, b)
		}
		if a, b := got.Straddles(at, uint32(n), length), want.Straddles(n, length); a != b {
			t.Fatalf("%+v: %d bytes from %d straddle: %t in the kernel's C, %t by the specification", want, length, n, a, b)
		}
	}
}

// randomInsertion is one that is open or not.
func randomInsertion(r *rand.Rand) splice.Insertion {
	return splice.Insertion{At: packet.Seq(r.Uint32()), Len: uint32(r.IntN(300)), Head: uint32(r.IntN(2) * r.IntN(2049))}
}

// near is a number around an insertion, often at a boundary.
func near(r *rand.Rand, i splice.Insertion) packet.Seq {
	if r.IntN(4) == 0 {
		return []packet.Seq{i.At, i.HeadStart(), i.End()}[r.IntN(3)].Add(uint32(r.IntN(3) - 1))
	}
	return i.At.Add(uint32(r.IntN(6000) - 1500))
}

// Packets of either direction over an open insertion: the client's numbers, and what it hears of the surrogate's.
func TestPacketsOverInsertionAgreeWithSplice(t *testing.T) {
	r := rand.New(rand.NewPCG(33, 3))
	for range 200_000 {
		i := randomInsertion(r)
		d := machine.Differences{ToServerSeq: r.Uint32(), ToServerAck: r.Uint32(), Flags: machine.BothSACK}
		in := machine.Insertion{Len: uint16(i.Len), Head: uint16(i.Head)}
		behind := near(r, i)
		n := machine.Numbers{Seq: uint32(behind) - d.ToServerSeq, Ack: r.Uint32(), HasACK: true}
		if got, kept := machine.TranslateOver(d, uint32(i.At), in, n, true); got.Seq != uint32(i.Start(behind)) || got.Ack != n.Ack+d.ToServerAck || !kept {
			t.Fatalf("%+v: the client's %d is %+v in the kernel's C, SACK %t; %d by the specification", i, behind, got, kept, i.Start(behind))
		}
		ack, window := near(r, i), uint16(r.IntN(3000))
		n = machine.Numbers{Seq: r.Uint32(), Ack: uint32(ack), Window: window, HasACK: true}
		want := machine.Numbers{Seq: n.Seq - d.ToServerAck, Ack: uint32(i.Heard(ack)) - d.ToServerSeq, Window: uint16(i.Window(ack, uint32(window))), HasACK: true}
		if got, kept := machine.TranslateOver(d, uint32(i.At), in, n, false); got != want || kept != i.KeepsSACK(ack) {
			t.Fatalf("%+v: the surrogate's %+v is %+v in the kernel's C, SACK %t; %+v, %t by the specification", i, n, got, kept, want, i.KeepsSACK(ack))
		}
	}
}

// With scaled windows the client is never told a further edge than the surrogate's, but for the unit that keeps a window open.
func TestEdgeOverInsertionIsKept(t *testing.T) {
	r := rand.New(rand.NewPCG(33, 4))
	const unit = 1 << machine.OurShift
	for range 200_000 {
		i := randomInsertion(r)
		d := machine.Differences{Flags: machine.ClientScale | machine.ServerScale, ServerShift: uint8(r.IntN(splice.MaxShift + 1))}
		ack, window := near(r, i), uint16(r.IntN(1<<r.IntN(17)))
		n := machine.Numbers{Ack: uint32(ack), Window: window, HasACK: true}
		got, _ := machine.TranslateOver(d, uint32(i.At), machine.Insertion{Len: uint16(i.Len), Head: uint16(i.Head)}, n, false)
		told, allowed := uint32(got.Window)<<machine.OurShift, i.Window(ack, uint32(window)<<d.ServerShift)
		if told > max(allowed, unit) || told == unit && allowed == 0 || told+unit+1<<d.ServerShift <= min(allowed, 0xffff<<machine.OurShift) {
			t.Fatalf("%+v: a window of %d with shift %d at %d is told as %d bytes, of %d", i, window, d.ServerShift, ack, told, allowed)
		}
	}
}
