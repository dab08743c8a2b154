package splice

import (
	"math/rand/v2"
	"testing"

	"baton/packet"
)

// stream is the reference: what the surrogate gets, byte by byte, and which number each of the client's bytes has on either leg.
type stream struct {
	client packet.Seq // number of the client's first byte
	bytes  int        // of the client
	at     int        // bytes of the client before the insertion
	leg    packet.Seq // number of the first byte on the leg
	length int        // of the insertion
	head   int        // bytes of the client that it changes; 0: it stands before the byte at
}

func (s stream) insertion() Insertion {
	return Insertion{At: s.leg.Add(uint32(s.at)), Len: uint32(s.length), Head: uint32(s.head)}
}

// deltaSeq translates what stands behind the insertion, and everything once that is acknowledged.
func (s stream) deltaSeq() uint32 { return s.leg.Sub(s.client) + uint32(s.length) }

func (s stream) behind(n int) packet.Seq { return s.client.Add(uint32(n)).Add(s.deltaSeq()) }

// onLeg gives the leg's number of the client's n-th byte, or of what has taken its place: whoever lacks a byte of the new head lacks all of the
// client's.
func (s stream) onLeg(n int) packet.Seq {
	switch {
	case n < s.at:
		return s.leg.Add(uint32(n))
	case n < s.at+s.head:
		return s.leg.Add(uint32(s.at + s.head + s.length - 1)) // the last one
	}
	return s.leg.Add(uint32(n + s.length))
}

// known gives how many of the client's bytes lie before the leg's byte.
func (s stream) known(leg packet.Seq) int {
	n := 0
	for n < s.bytes && s.onLeg(n).Less(leg) {
		n++
	}
	return n
}

func randomStream(rng *rand.Rand) stream {
	s := stream{client: packet.Seq(rng.Uint32()), leg: packet.Seq(rng.Uint32()), bytes: 1 + rng.IntN(60), length: 1 + rng.IntN(40)}
	if rng.IntN(4) == 0 { // numbers wrap within the stream
		s.client, s.leg = packet.Seq(-rng.Int32N(60)), packet.Seq(-rng.Int32N(100))
	}
	if s.at = rng.IntN(s.bytes + 1); rng.IntN(3) > 0 {
		s.head = rng.IntN(s.bytes - s.at + 1)
	}
	return s
}

func seeded(t *testing.T) *rand.Rand {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

func TestInsertionPlacesEachByte(t *testing.T) {
	rng := seeded(t)
	for range 2000 {
		s := randomStream(rng)
		ins := s.insertion()
		for from := range s.bytes {
			for to := from + 1; to <= s.bytes; to++ {
				behind, length := s.behind(from), uint32(to-from)
				again := from == s.at && to > from
				if got := ins.Repeats(behind, length); got != again {
					t.Fatalf("%+v: bytes %d to %d repeat the insertion: %v", s, from, to, got)
				}
				// part of the head, or on both sides
				straddles := s.head > 0 && from < s.at+s.head && to > s.at || s.head == 0 && from < s.at && to > s.at
				if got := ins.Straddles(behind, length); got != straddles {
					t.Fatalf("%+v: bytes %d to %d straddle: %v, want %v", s, from, to, got, straddles)
				}
				want := s.onLeg(from)
				if again && s.head > 0 {
					want = ins.At // of the new head
				}
				if got := ins.Start(behind); (!straddles || again) && got != want {
					t.Fatalf("%+v: byte %d begins at %d, want %d", s, from, got, want)
				}
			}
		}
	}
}

func TestInsertionIsNoPartOfWhatTheClientHears(t *testing.T) {
	rng := seeded(t)
	for range 2000 {
		s := randomStream(rng)
		ins := s.insertion()
		last, end := 0, s.at+s.head+s.length
		for n := 0; n <= s.bytes+s.length; n++ {
			ack := s.leg.Add(uint32(n))
			got := int(ins.Heard(ack).Add(-s.deltaSeq()).Sub(s.client))
			if want := s.known(ack); got != want || got < last {
				t.Fatalf("%+v: %d acknowledged bytes are %d of the client, want %d", s, n, got, want)
			}
			last = got
			window := uint32(rng.IntN(120))
			edge := s.leg.Add(uint32(n) + window)
			allowed := got + int(ins.Window(ack, window))
			// the client may send up to the edge and no byte beyond: of bytes that there might be, too
			s.bytes += 200
			want := s.known(edge)
			s.bytes -= 200
			if allowed != want {
				t.Fatalf("%+v: behind %d bytes a window of %d lets the client send up to byte %d, want %d", s, n, window, allowed, want)
			}
			if got := ins.KeepsSACK(ack); got != (n >= end) {
				t.Fatalf("%+v: SACK behind %d bytes is kept: %v", s, n, got)
			}
			if left := ins.Acknowledged(ack); left.Open() != (n < end) {
				t.Fatalf("%+v: behind %d bytes %+v is left", s, n, left)
			}
		}
	}
}

// What a client repeats when the insertion is closed has the numbers of bytes that the surrogate has, or its own: nothing is taken for new.
func TestRepeatedBytesBehindAClosedInsertion(t *testing.T) {
	rng := seeded(t)
	var closed Insertion
	for range 2000 {
		s := randomStream(rng)
		for n := range s.bytes {
			got := closed.Start(s.behind(n))
			if own := s.onLeg(n); got != own && !got.Less(s.insertion().End()) {
				t.Fatalf("%+v: byte %d is repeated as %d, which the surrogate has not acknowledged", s, n, got)
			}
		}
	}
}
