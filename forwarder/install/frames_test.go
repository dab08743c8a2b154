package install

import (
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"slices"

	"baton/packet"
)

// world makes random frames, matches and actions out of few values, so that they meet.
type world struct {
	*rand.Rand
	sctp bool // the frame at hand has SCTP in it
	tags int  // and as many VLAN tags
	// tiny lets frames be shorter than any that comes from a wire. The kernel cannot take a service tag off these again.
	tiny bool
}

func one[T any](w *world, list ...T) T { return list[w.IntN(len(list))] }

func (w *world) often(percent int) bool { return w.IntN(100) < percent }

func (w *world) mac() packet.MAC {
	return one(w, packet.MAC{2, 0, 0, 0, 0, 1}, packet.MAC{2, 0, 0, 0, 0, 2}, packet.MAC{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, packet.MAC{0x33, 0x33, 0, 0, 0, 1})
}

func (w *world) addr4() []byte {
	return one(w, []byte{10, 0, 0, 1}, []byte{10, 0, 0, 2}, []byte{10, 1, 0, 1}, []byte{192, 0, 2, 7}, []byte{255, 255, 255, 255})
}

func (w *world) addr6() []byte {
	b := make([]byte, 16)
	b[0], b[1], b[7], b[15] = one[byte](w, 0xfd, 0xfe), one[byte](w, 0, 0x80), one[byte](w, 0, 1), one[byte](w, 1, 2)
	return b
}

func (w *world) vid() uint16   { return one[uint16](w, 0, 1, 5, 100, 4095) }
func (w *world) port() uint16  { return one[uint16](w, 53, 80, 443, 40000, 65535) }
func (w *world) ttl() byte     { return one[byte](w, 0, 1, 2, 64, 255) }
func (w *world) label() uint32 { return one[uint32](w, 0, 3, 16, 1000, 0xfffff) }
func (w *world) isid() uint32  { return one[uint32](w, 0, 1, 0x123456) }

// kind is what a frame has behind its tags, or an entry is about.
type kind int

const (
	kindTCP4 kind = iota
	kindUDP4
	kindSCTP4
	kindICMP4
	kindOther4
	kindTCP6
	kindUDP6
	kindSCTP6
	kindICMP6
	kindND
	kindARP
	kindMPLS
	kindPBB
	kindOther
	kinds
)

func (k kind) v4() bool { return k <= kindOther4 }
func (k kind) v6() bool { return k >= kindTCP6 && k <= kindND }

func (k kind) protocol() byte {
	return map[kind]byte{kindTCP4: 6, kindTCP6: 6, kindUDP4: 17, kindUDP6: 17, kindSCTP4: 132, kindSCTP6: 132, kindICMP4: 1, kindICMP6: 58,
		kindND: 58, kindOther4: 47}[k]
}

func (w *world) kind() kind { return kind(w.IntN(int(kinds))) }

const leastFrame = 50

// frame makes a frame, one in six of them hostile.
func (w *world) frame(k kind) []byte {
	w.sctp, w.tags = false, 0
	b := w.ethernet(k, w.IntN(3))
	if w.often(50) && len(b) < 60 {
		b = append(b, make([]byte, 60-len(b))...)
	}
	if n := leastFrame - len(b); n > 0 && !w.tiny {
		b = append(b, make([]byte, n)...)
	}
	whole := 14 + 4*w.tags + 2 // the kernel takes no half of a tag, nor one that holds nothing
	if len(b) < whole && w.tags > 0 {
		b = append(b, make([]byte, whole-len(b))...)
	}
	if w.sctp {
		return b // its checksum covers what a lying length says
	}
	if w.often(8) {
		n := 14 + w.IntN(len(b)-13)
		if !w.tiny {
			n = leastFrame + w.IntN(len(b)-leastFrame+1)
		}
		if n >= whole+18 || n >= whole && k != kindPBB || w.tags == 0 {
			b = b[:n]
		}
	}
	if w.often(8) {
		for range 1 + w.IntN(3) {
			if at := 14 + w.IntN(max(len(b)-14, 1)); at < len(b) {
				b[at] = byte(w.Uint32())
			}
		}
	}
	return b
}

func (w *world) ethernet(k kind, tags int) []byte {
	dst, src := w.mac(), w.mac()
	b := append(append([]byte(nil), dst[:]...), src[:]...)
	w.tags += tags
	for range tags {
		b = binary.BigEndian.AppendUint16(b, one[uint16](w, 0x8100, 0x88a8))
		b = binary.BigEndian.AppendUint16(b, uint16(w.IntN(16))<<12|w.vid())
	}
	inner := w.network(k)
	if w.often(15) {
		inner = w.snap(inner)
	}
	return append(b, inner...)
}

// snap puts an EtherType and what follows it into LLC and SNAP headers, one in eight of them wrong.
func (w *world) snap(inner []byte) []byte {
	head := []byte{0xaa, 0xaa, 3, 0, 0, 0}
	if w.often(12) {
		head[w.IntN(len(head))] = byte(w.Uint32())
	}
	length := len(head) + len(inner)
	if w.often(12) {
		length = one(w, 0, 3, 4, 1530, 1531, 1532, 1535)
	}
	return slices.Concat(binary.BigEndian.AppendUint16(nil, uint16(length)), head, inner)
}

// network is an EtherType and what follows it.
func (w *world) network(k kind) []byte {
	switch {
	case k.v4():
		return append([]byte{8, 0}, w.ipv4(k)...)
	case k.v6():
		return append([]byte{0x86, 0xdd}, w.ipv6(k)...)
	}
	switch k {
	case kindARP:
		b := []byte{8, 6, 0, 1, 8, 0, 6, 4, 0, one[byte](w, 1, 2)}
		for range 2 {
			mac := w.mac()
			b = append(append(b, mac[:]...), w.addr4()...)
		}
		return b
	case kindMPLS:
		b := []byte{0x88, one[byte](w, 0x47, 0x48)}
		for n := w.IntN(3); n >= 0; n-- {
			entry := w.label()<<12 | w.Uint32N(8)<<9 | uint32(w.ttl())
			if n == 0 {
				entry |= 1 << 8
			}
			b = binary.BigEndian.AppendUint32(b, entry)
		}
		return append(b, w.network(kind(w.IntN(int(kindARP))))[2:]...)
	case kindPBB:
		b := binary.BigEndian.AppendUint32([]byte{0x88, 0xe7}, w.Uint32N(256)<<24|w.isid())
		return append(b, w.ethernet(one(w, kindTCP4, kindUDP6, kindARP, kindMPLS), w.IntN(2))...)
	}
	b := one(w, []byte{0x88, 0xb5}, []byte{0, 46}, []byte{0x88, 0xcc}, []byte{0x86, 0xdd}, []byte{0x88, 0x47})
	return append(slices.Clone(b), make([]byte, w.IntN(50))...)
}

func (w *world) ipv4(k kind) []byte {
	options := one(w, nil, nil, []byte{0x94, 4, 0, 0}, []byte{1, 1, 1, 0, 7, 4, 8, 0})
	src, dst := w.addr4(), w.addr4()
	fragment := one[uint16](w, 0, 0, 0, 0, 0x4000, 0x4000, 0x2000, 0x2003, 3)
	segment := w.transport(k, slices.Concat(src, dst), fragment&0x3fff != 0)
	if fragment&0x1fff != 0 {
		segment = make([]byte, w.IntN(40))
	}
	b := []byte{byte(0x45 + len(options)/4), byte(w.Uint32())}
	b = binary.BigEndian.AppendUint16(b, uint16(20+len(options)+len(segment)))
	b = binary.BigEndian.AppendUint16(b, uint16(w.Uint32()))
	b = binary.BigEndian.AppendUint16(b, fragment)
	b = append(b, w.ttl(), k.protocol(), 0, 0)
	b = slices.Concat(b, src, dst, options)
	binary.BigEndian.PutUint16(b[10:], packet.Checksum(b, 0))
	return append(b, segment...)
}

func (w *world) ipv6(k kind) []byte {
	src, dst := w.addr6(), w.addr6()
	next, headers, part := k.protocol(), []byte(nil), false
	later := false
	for range one(w, 0, 0, 0, 1, 2, 3) { // from the last to the first
		h := one[byte](w, 0, 60, 43, 44, 51)
		body := make([]byte, one(w, 8, 16))
		switch h {
		case 44:
			body = make([]byte, 8)
			part = true
			if w.often(50) {
				later = true
				body[3] = 8
			} else {
				body[3] = 1
			}
		case 51:
			body = make([]byte, 16)
			body[1] = 2
		default:
			body[1] = byte(len(body)/8 - 1)
		}
		body[0] = next
		headers = append(body, headers...)
		next = h
	}
	segment := w.transport(k, slices.Concat(src, dst), part)
	if later {
		segment = make([]byte, w.IntN(30))
	}
	if len(headers) == 0 && w.often(3) {
		next, segment = 59, nil
	}
	b := binary.BigEndian.AppendUint32(nil, 6<<28|w.Uint32N(256)<<20|one[uint32](w, 0, 5, 0xfffff))
	b = binary.BigEndian.AppendUint16(b, uint16(len(headers)+len(segment)))
	b = append(b, next, w.ttl())
	return slices.Concat(b, src, dst, headers, segment)
}

// transport makes a segment with a right checksum, mostly.
func (w *world) transport(k kind, addresses []byte, part bool) []byte {
	var b []byte
	field := 0
	payload := make([]byte, one(w, 0, 1, 7, 30, 200))
	for i := range payload {
		payload[i] = byte(w.Uint32())
	}
	switch k {
	case kindTCP4, kindTCP6:
		b, field = w.tcp(), 16
	case kindUDP4, kindUDP6:
		b, field = make([]byte, 8), 6
		binary.BigEndian.PutUint16(b, w.port())
		binary.BigEndian.PutUint16(b[2:], w.port())
		binary.BigEndian.PutUint16(b[4:], uint16(8+len(payload)))
	case kindSCTP4, kindSCTP6:
		w.sctp = true
		b = make([]byte, 12)
		binary.BigEndian.PutUint16(b, w.port())
		binary.BigEndian.PutUint16(b[2:], w.port())
		b = append(b, payload...)
		binary.LittleEndian.PutUint32(b[8:], crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
		return b
	case kindICMP4:
		b, field = []byte{one[byte](w, 0, 8, 3), one[byte](w, 0, 1), 0, 0, 0, 1, 0, 2}, 2
		addresses = nil
	case kindICMP6:
		b, field = []byte{one[byte](w, 128, 129, 1, 135), one[byte](w, 0, 1), 0, 0, 0, 1, 0, 2}, 2
	case kindND:
		b, field = slices.Concat([]byte{one[byte](w, 135, 136), 0, 0, 0, 0, 0, 0, 0}, w.addr6()), 2
		for range w.IntN(3) {
			mac := w.mac()
			b = append(append(b, one[byte](w, 1, 2, 14), 1), mac[:]...)
		}
		payload = nil
	default:
		return payload
	}
	b = append(b, payload...)
	if part && w.often(50) {
		return b // the checksum covers what is elsewhere
	}
	if field == 6 && w.often(15) {
		return b // none
	}
	pseudo := append(slices.Clone(addresses), 0, k.protocol(), byte(len(b)>>8), byte(len(b)))
	if addresses == nil {
		pseudo = nil
	}
	sum := packet.Checksum(b, packet.Sum(pseudo, 0))
	if field == 6 && sum == 0 {
		sum = 0xffff
	}
	if w.often(5) {
		sum ^= 0x1234
	}
	binary.BigEndian.PutUint16(b[field:], sum)
	return b
}

func (w *world) tcp() []byte {
	b := make([]byte, 20)
	binary.BigEndian.PutUint16(b, w.port())
	binary.BigEndian.PutUint16(b[2:], w.port())
	binary.BigEndian.PutUint32(b[4:], w.Uint32())
	binary.BigEndian.PutUint32(b[8:], w.Uint32())
	b[13] = one[byte](w, 2, 0x12, 0x10, 0x18, 0x11, 4, 0xd2)
	binary.BigEndian.PutUint16(b[14:], uint16(w.Uint32()))
	var options []byte
	if w.often(40) { // as most have them (RFC 7323, appendix A)
		options = binary.BigEndian.AppendUint64([]byte{1, 1, 8, 10}, w.Uint64())
	}
	for range one(w, 0, 0, 1, 2, 3, 4) {
		o := one(w, []byte{1}, []byte{2, 4, 5, 0xb4}, []byte{3, 3, 7}, []byte{4, 2}, []byte{5, 10}, []byte{5, 18}, []byte{8, 10}, []byte{8, 10},
			[]byte{30, 4, 1, 2}, []byte{8, 6, 1, 2, 3, 4}, []byte{5, 6, 1, 2, 3, 4})
		o = slices.Clone(o)
		for len(o) > 1 && len(o) < int(o[1]) {
			o = append(o, byte(w.Uint32()))
		}
		if len(options)+len(o) <= 40 {
			options = append(options, o...)
		}
	}
	if w.often(4) && len(options) < 39 { // none that can be walked
		options = append(options, 8, one[byte](w, 0, 1, 60))
	}
	for len(options)%4 != 0 {
		options = append(options, one[byte](w, 0, 1))
	}
	b[12] = byte(5+len(options)/4) << 4
	return append(b, options...)
}
