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
		want := splice.Insertion{At: packet.Seq(r.Uint32()), Len: uint32(r.IntN(300)), Head: uint32(r.IntN(2) * r.IntN(2049))}
		got := machine.Insertion{Len: uint16(want.Len), Head: uint16(want.Head)}
		n, length := want.At.Add(uint32(r.IntN(6000)-1500)), uint32(r.IntN(3000))
		if r.IntN(4) == 0 { // at a boundary
			n = []packet.Seq{want.At, want.HeadStart(), want.End()}[r.IntN(3)].Add(uint32(r.IntN(3) - 1))
		}
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
