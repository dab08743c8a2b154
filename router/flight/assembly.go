package flight

import "encoding/binary"

// Of a handshake message, RFC 8446 section 4.
const (
	messageHeader = 4 // bytes: the type, and the length in three
	clientHello   = 1 // type
)

// assembly puts the bytes of a client hello in order. Its zero value is empty.
type assembly struct {
	bytes  []byte   // as far as any are known
	known  []uint64 // a bit for each of bytes
	prefix int      // bytes from the first that are known without a gap
}

func (a *assembly) reset() {
	*a = assembly{bytes: a.bytes[:0], known: a.known[:0]}
}

// add takes bytes at their place, and tells how many were new. Those that are known already must be the same. What reaches beyond
// limit bytes, or beyond the end of the message, is refused.
func (a *assembly) add(offset uint64, data []byte, limit int) (added int, why Reason) {
	if offset > uint64(limit) || len(data) > limit-int(offset) {
		return 0, TooLarge
	}
	at := int(offset)
	a.grow(at + len(data))
	for i, b := range data {
		word, bit := &a.known[(at+i)/64], uint64(1)<<((at+i)%64)
		switch {
		case *word&bit == 0:
			*word |= bit
			a.bytes[at+i] = b
			added++
		case a.bytes[at+i] != b:
			return added, Contradiction
		}
	}
	for a.prefix < len(a.bytes) && a.known[a.prefix/64]>>(a.prefix%64)&1 != 0 {
		a.prefix++
	}
	return added, a.check(limit)
}

func (a *assembly) grow(length int) {
	if length > len(a.bytes) {
		a.bytes = append(a.bytes, make([]byte, length-len(a.bytes))...)
	}
	if words := (length + 63) / 64; words > len(a.known) {
		a.known = append(a.known, make([]uint64, words-len(a.known))...)
	}
}

// check looks at what the message's header says, as soon as it is known.
func (a *assembly) check(limit int) Reason {
	if a.prefix > 0 && a.bytes[0] != clientHello {
		return Malformed
	}
	if end, ok := a.end(); ok {
		switch {
		case end > limit:
			return TooLarge
		case end < len(a.bytes):
			return Malformed
		}
	}
	return None
}

// end is the length of the message with its header.
func (a *assembly) end() (length int, ok bool) {
	if a.prefix < messageHeader {
		return 0, false
	}
	return messageHeader + int(binary.BigEndian.Uint32(a.bytes)&0xffffff), true
}

// message gives the client hello, its header included, when it is whole.
func (a *assembly) message() (message []byte, whole bool) {
	if end, ok := a.end(); ok && a.prefix >= end {
		return a.bytes[:end], true
	}
	return nil, false
}
