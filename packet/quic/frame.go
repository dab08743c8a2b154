package quic

import (
	"errors"
	"iter"
)

// ErrFrame says that the bytes of an Initial are not frames, are none, or are of a type that no Initial may have (RFC 9000 section
// 12.4, table 3).
var ErrFrame = errors.New("read QUIC frames: malformed")

// FrameType is the type of a frame, RFC 9000 section 19.
type FrameType uint8

// The types that an Initial may have.
const (
	Padding         FrameType = 0x00
	Ping            FrameType = 0x01
	Ack             FrameType = 0x02
	AckECN          FrameType = 0x03
	Crypto          FrameType = 0x06
	ConnectionClose FrameType = 0x1c
)

// MaxCrypto is how far into the stream of handshake bytes a frame may reach, RFC 9000 section 19.6.
const MaxCrypto = 1<<62 - 1

// Frame is a frame of an Initial.
type Frame struct {
	Type   FrameType
	Offset uint64 // of Crypto, of its first byte in the stream
	Data   []byte // of Crypto: a part of the packet's frames
}

// Frames yields the frames of an Initial but its padding. An error is the last thing that it yields.
func Frames(payload []byte) iter.Seq2[Frame, error] {
	return func(yield func(Frame, error) bool) {
		if len(payload) == 0 {
			yield(Frame{}, ErrFrame)
			return
		}
		r := reader{b: payload}
		for r.at < len(payload) {
			f, ok := readFrame(&r)
			switch {
			case !ok:
				yield(Frame{}, ErrFrame)
				return
			case f.Type == Padding:
				r.skip(byte(Padding)) // most of a packet
			case !yield(f, nil):
				return
			}
		}
	}
}

// readFrame reads a type as one byte: a longer form of it is of no type that is known, as it must not be used (RFC 9000 section 12.4).
func readFrame(r *reader) (f Frame, ok bool) {
	f.Type = FrameType(r.byte())
	switch f.Type {
	case Padding, Ping:
	case Ack, AckECN:
		return f, readAck(r, f.Type == AckECN)
	case Crypto:
		f.Offset = r.varint()
		f.Data = r.take(r.length())
		return f, !r.short && f.Offset <= MaxCrypto-uint64(len(f.Data))
	case ConnectionClose:
		r.varint() // error code
		r.varint() // type of the frame that was at fault
		r.take(r.length())
	default:
		return f, false
	}
	return f, !r.short
}

// readAck reads what is behind the type of an ACK, RFC 9000 section 19.3. No range may begin below packet 0.
func readAck(r *reader, ecn bool) bool {
	largest := r.varint()
	r.varint() // delay
	ranges := r.varint()
	first := r.varint()
	if first > largest {
		return false
	}
	smallest := largest - first
	for ; ranges > 0 && !r.short; ranges-- {
		gap, length := r.varint(), r.varint()
		if smallest < gap+2 || smallest-gap-2 < length {
			return false
		}
		smallest -= gap + 2 + length
	}
	if ecn {
		r.varint()
		r.varint()
		r.varint()
	}
	return !r.short
}
