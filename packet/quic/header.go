package quic

import (
	"encoding/binary"
	"errors"
	"iter"
)

// Version is the version of a long header.
type Version uint32

// The versions whose packets are read whole.
const (
	Version1 Version = 1          // RFC 9000
	Version2 Version = 0x6b3343cf // RFC 9369
)

// Known tells whether packets of the version can be read beyond their connection ids.
func (v Version) Known() bool { return v == Version1 || v == Version2 }

// Kind is the type of a packet.
type Kind uint8

// The kinds of packets.
const (
	Short       Kind = iota // 1-RTT, of any version: its connection id has no length
	Negotiation             // Version Negotiation
	Initial
	ZeroRTT
	Handshake
	Retry
	Unknown // a long header of a version that is not known: only its connection ids can be read
)

var kindNames = [...]string{"short", "version negotiation", "initial", "0-RTT", "handshake", "retry", "unknown version"}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "invalid"
}

// Limits of what is read.
const (
	MaxID       = 20   // bytes of a connection id in versions 1 and 2, RFC 9000 section 17.2
	MinDatagram = 1200 // bytes of a datagram with a client's Initial, RFC 9000 section 14.1
	tagLength   = 16   // of AEAD_AES_128_GCM, and of a Retry's integrity tag
)

// Why bytes are not a packet.
var (
	ErrTruncated = errors.New("read QUIC header: truncated")
	ErrIDLength  = errors.New("read QUIC header: connection id is longer than 20 bytes")
	ErrVersions  = errors.New("read QUIC header: list of versions is empty or has a part of one")
)

// Packet is one packet of a datagram. Its slices are parts of the datagram.
type Packet struct {
	Kind        Kind
	Version     Version // of a long header
	Destination []byte  // connection ids, of a long header
	Source      []byte
	Token       []byte // of Initial and Retry
	Versions    []byte // of Negotiation: 4 bytes each, most significant first
	Integrity   []byte // of Retry
	Bytes       []byte // the whole packet

	number int // where the packet number begins, in Initial, 0-RTT and Handshake
}

// Parse reads the first packet of a datagram, and gives the bytes that follow it. A packet without a length takes the whole
// datagram: those with a short header, Retry, Negotiation, Unknown. The fixed bit is not asked for (RFC 9287), nor is anything that
// header protection covers.
func Parse(datagram []byte) (p Packet, rest []byte, err error) {
	if len(datagram) == 0 {
		return Packet{}, nil, ErrTruncated
	}
	p.Bytes = datagram
	first := datagram[0]
	if first&0x80 == 0 {
		return p, nil, nil // Short is the zero Kind
	}
	r := reader{b: datagram, at: 1}
	p.Version = Version(r.uint32())
	p.Destination = r.take(int(r.byte()))
	p.Source = r.take(int(r.byte()))
	if r.short {
		return Packet{}, nil, ErrTruncated
	}
	p.Kind = kindOf(first, p.Version)
	if p.Version.Known() && max(len(p.Destination), len(p.Source)) > MaxID {
		return Packet{}, nil, ErrIDLength
	}
	switch p.Kind {
	case Negotiation:
		if p.Versions = r.rest(); len(p.Versions) == 0 || len(p.Versions)%4 != 0 {
			return Packet{}, nil, ErrVersions
		}
		return p, nil, nil
	case Unknown:
		return p, nil, nil
	case Retry:
		p.Token = r.take(len(datagram) - r.at - tagLength)
		p.Integrity = r.rest()
		if r.short {
			return Packet{}, nil, ErrTruncated
		}
		return p, nil, nil
	case Initial:
		p.Token = r.take(r.length())
	}
	length := r.length()
	p.number = r.at
	r.take(length)
	if r.short {
		return Packet{}, nil, ErrTruncated
	}
	p.Bytes = datagram[:r.at]
	return p, datagram[r.at:], nil
}

// kindOf reads the type bits of a long header. Those of version 2 are one higher, modulo 4 (RFC 9369 section 3.2).
func kindOf(first byte, v Version) Kind {
	switch v {
	case 0:
		return Negotiation
	case Version1:
		return Initial + Kind(first>>4&3)
	case Version2:
		return Initial + Kind(first>>4+3)&3
	}
	return Unknown
}

// Packets yields the packets of a datagram, one after the other (RFC 9000 section 12.2). An error is the last thing that it yields.
func Packets(datagram []byte) iter.Seq2[Packet, error] {
	return func(yield func(Packet, error) bool) {
		for rest := datagram; len(rest) > 0; {
			p, behind, err := Parse(rest)
			if !yield(p, err) || err != nil {
				return
			}
			rest = behind
		}
	}
}

// ShortID is the destination connection id of a packet with a short header, for a server whose ids have that many bytes.
func (p *Packet) ShortID(length int) (id []byte, ok bool) {
	if p.Kind != Short || length < 0 || length > len(p.Bytes)-1 {
		return nil, false
	}
	return p.Bytes[1 : 1+length], true
}

// reader takes fields off the front of b. Behind the end of b its values are zero, and short is set for good.
type reader struct {
	b     []byte
	at    int
	short bool
}

// take gives the next n bytes. Its capacity ends with them, as they are handed out.
func (r *reader) take(n int) []byte {
	if r.short || n < 0 || n > len(r.b)-r.at {
		r.short = true
		return nil
	}
	from := r.at
	r.at += n
	return r.b[from:r.at:r.at]
}

func (r *reader) rest() []byte { return r.take(len(r.b) - r.at) }

// skip goes on to the next byte that is another one.
func (r *reader) skip(b byte) {
	for r.at < len(r.b) && r.b[r.at] == b {
		r.at++
	}
}

func (r *reader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) uint32() uint32 {
	if b := r.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

// varint reads a variable-length integer, RFC 9000 section 16.
func (r *reader) varint() uint64 {
	first := r.byte()
	value := uint64(first & 0x3f)
	for range 1<<(first>>6) - 1 {
		value = value<<8 | uint64(r.byte())
	}
	if r.short {
		return 0
	}
	return value
}

// length reads an integer that counts bytes of b, of which there must be as many left.
func (r *reader) length() int {
	n := r.varint()
	if r.short || n > uint64(len(r.b)-r.at) {
		r.short = true
		return 0
	}
	return int(n)
}
