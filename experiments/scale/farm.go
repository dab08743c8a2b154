package scale

import (
	"bytes"
	"hash/maphash"

	"baton/packet"
)

// farm answers for any number of HTTP servers and sessions, and remembers none of them: all it says follows from the segment
// that it answers. A server that says nothing unasked needs no more.
type farm struct {
	first, count uint32 // addresses that are its own
	seed         maphash.Seed
	response     []byte
}

func newFarm(first, count uint32) *farm {
	return &farm{first: first, count: count, seed: maphash.MakeSeed(), response: []byte(responseHead + noName)}
}

// A client asks for a name, and gets it back: so it sees that the answer is its own.
const (
	pathPrefix   = "/idle/"
	noName       = "00000000"
	responseHead = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 8\r\n\r\n"
)

// answer returns what to send for a segment, if anything. The answer is good until the next call.
func (f *farm) answer(s *segment, clock uint32) (segment, bool) {
	switch {
	case s.to.address-f.first >= f.count, s.flags.Has(packet.RST):
		return segment{}, false
	case s.flags.Has(packet.SYN):
		r := s.reply(packet.SYN|packet.ACK, clock)
		r.seq = f.initial(s)
		r.options = s.options
		return r, true
	case len(s.payload) > 0:
		r := s.reply(packet.ACK, clock)
		if bytes.HasSuffix(s.payload, []byte("\r\n\r\n")) {
			r.flags |= packet.PSH
			copy(f.response[len(responseHead):], name(s.payload))
			r.payload = f.response
		}
		if s.flags.Has(packet.FIN) {
			r.flags |= packet.FIN
		}
		return r, true
	case s.flags.Has(packet.FIN):
		return s.reply(packet.FIN|packet.ACK, clock), true
	}
	return segment{}, false
}

// initial is the first sequence number of a session: that of its SYN, however often that comes.
func (f *farm) initial(s *segment) uint32 {
	return uint32(maphash.Comparable(f.seed, struct {
		from, to endpoint
		seq      uint32
	}{s.from, s.to, s.seq}))
}

// name is the name that a request asks for.
func name(request []byte) []byte {
	at := bytes.Index(request, []byte(pathPrefix))
	if at < 0 || len(request) < at+len(pathPrefix)+len(noName) {
		return []byte(noName)
	}
	at += len(pathPrefix)
	return request[at : at+len(noName)]
}
