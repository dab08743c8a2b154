// Package lldp makes and reads the discovery frames of a controller: LLDP (IEEE 802.1AB) with the standard TLVs, so that any tool shows them, and
// an organisational TLV that says which port of which switch the frame left by, when, and a nonce, signed with HMAC-SHA256 under a secret.
//
// Without the secret nobody makes a frame that [Reader.Read] takes, and a frame is taken once: a copy is refused, as is one that is too old.
package lldp

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"baton/openflow"
	"baton/packet"
)

// EtherType is that of LLDP.
const EtherType packet.EtherType = 0x88cc

// Multicast is the nearest bridge's group address (IEEE 802.1AB-2016, table 7-1), which bridges do not forward.
var Multicast = packet.MAC{0x01, 0x80, 0xc2, 0, 0, 0x0e}

// Types of TLVs (IEEE 802.1AB-2016, table 8-1), and subtypes of ids: 4 is a MAC address and 7 locally assigned, for a chassis; 7 for a port.
const (
	typeEnd, typeChassis, typePort, typeTTL, typeSystemName, typeOrganisation = 0, 1, 2, 3, 5, 127
	locallyAssigned                                                           = 7
)

// The organisational TLV: 42-54-4e, the locally administered id of Baton's experimenter actions, and subtype 1.
const (
	organisation = openflow.BatonExperimenter
	subtype      = 1
	macSize      = sha256.Size
	bodySize     = 8 + 4 + 8 + 16 // datapath id, port, time in nanoseconds since 1970, nonce
	ownSize      = 4 + bodySize + macSize
)

// Beacon is what a frame says.
type Beacon struct {
	Switch uint64
	Port   openflow.PortNo
	Time   time.Time
	Nonce  [16]byte
}

// Key signs and checks.
type Key []byte

// NewKey returns a random key.
func NewKey() Key {
	k := make(Key, 32)
	_, _ = rand.Read(k) // never fails
	return k
}

// sign is over the body with a label, so that the key may sign other things elsewhere.
func (k Key) sign(body []byte) []byte {
	h := hmac.New(sha256.New, k)
	h.Write([]byte("baton lldp 1\x00"))
	h.Write(body)
	return h.Sum(nil)
}

// Frame makes a frame for a port, whose MAC address is its source. Life is how long a receiver may believe it.
func (k Key) Frame(id uint64, port openflow.PortNo, mac packet.MAC, now time.Time, life time.Duration) []byte {
	b := slices.Concat(Multicast[:], mac[:], binary.BigEndian.AppendUint16(nil, uint16(EtherType)))
	b = tlv(b, typeChassis, append([]byte{locallyAssigned}, fmt.Sprintf("dpid:%016x", id)...))
	b = tlv(b, typePort, append([]byte{locallyAssigned}, fmt.Sprint(uint32(port))...))
	b = tlv(b, typeTTL, binary.BigEndian.AppendUint16(nil, uint16(min(max(life/time.Second, 1), 0xffff))))
	b = tlv(b, typeSystemName, fmt.Appendf(nil, "baton:%016x", id))
	body := binary.BigEndian.AppendUint64(nil, id)
	body = binary.BigEndian.AppendUint32(body, uint32(port))
	body = binary.BigEndian.AppendUint64(body, uint64(now.UnixNano()))
	var nonce [16]byte
	_, _ = rand.Read(nonce[:])
	body = append(body, nonce[:]...)
	own := binary.BigEndian.AppendUint32(nil, organisation<<8|subtype)
	return tlv(tlv(b, typeOrganisation, slices.Concat(own, body, k.sign(body))), typeEnd, nil)
}

func tlv(b []byte, kind int, value []byte) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(kind<<9|len(value))), value...)
}

// Reasons why a frame is refused.
var (
	ErrMalformed = errors.New("the frame is malformed")
	ErrUnsigned  = errors.New("the frame is not of a controller")
	ErrForged    = errors.New("the signature is wrong")
	ErrOld       = errors.New("the frame is too old")
	ErrReplayed  = errors.New("the frame was there before")
)

// Is tells whether a frame is LLDP, whoever made it.
func Is(frame []byte) bool {
	return len(frame) >= packet.EthernetSize && packet.Ethernet(frame).Type() == EtherType
}

// Reader checks frames. It is not for concurrent use.
type Reader struct {
	Key Key
	// Age is how old a frame may be, and how far ahead the clock of another controller.
	Age time.Duration

	seen  [2]map[[16]byte]bool // nonces of this Age and of that before it
	since time.Time
}

// mostNonces bounds the memory of each period: beyond it, frames are refused.
const mostNonces = 1 << 20

// Read returns what an authentic frame says.
func (r *Reader) Read(frame []byte, now time.Time) (Beacon, error) {
	own, err := find(frame)
	if err != nil {
		return Beacon{}, err
	}
	body := own[4 : 4+bodySize]
	if !hmac.Equal(own[4+bodySize:], r.Key.sign(body)) {
		return Beacon{}, ErrForged
	}
	b := Beacon{
		Switch: binary.BigEndian.Uint64(body), Port: openflow.PortNo(binary.BigEndian.Uint32(body[8:])),
		Time: time.Unix(0, int64(binary.BigEndian.Uint64(body[12:]))), Nonce: [16]byte(body[20:]),
	}
	if age := now.Sub(b.Time); age > r.Age || age < -r.Age {
		return Beacon{}, ErrOld
	}
	if now.Sub(r.since) > 2*r.Age { // a nonce is remembered for as long as its frame is young, ahead of the clock or behind it
		r.seen[1], r.seen[0], r.since = r.seen[0], map[[16]byte]bool{}, now
	}
	if r.seen[0][b.Nonce] || r.seen[1][b.Nonce] || len(r.seen[0]) >= mostNonces {
		return Beacon{}, ErrReplayed
	}
	r.seen[0][b.Nonce] = true
	return b, nil
}

// find returns the organisational TLV of a frame.
func find(frame []byte) ([]byte, error) {
	if !Is(frame) {
		return nil, ErrMalformed
	}
	var own []byte
	for b := frame[packet.EthernetSize:]; ; {
		if len(b) < 2 {
			return nil, ErrMalformed
		}
		head := binary.BigEndian.Uint16(b)
		kind, size := int(head>>9), int(head&0x1ff)
		if 2+size > len(b) {
			return nil, ErrMalformed
		}
		value := b[2 : 2+size]
		b = b[2+size:]
		switch {
		case kind == typeEnd:
			if own == nil {
				return nil, ErrUnsigned
			}
			return own, nil
		case kind == typeOrganisation && size == ownSize && binary.BigEndian.Uint32(value) == organisation<<8|subtype:
			if own != nil {
				return nil, ErrMalformed
			}
			own = value
		}
	}
}
