package answer

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/dchest/siphash"
)

// Limits bound how many like answers a client's network gets over UDP, where anybody can send in its name: answers to one name, that names of one
// zone do not exist, errors of a kind. Above the limit each Slip-th answer is sent without records and with TC, so that a real client comes again by
// TCP; the others are left out.
type Limits struct {
	Rate     int // a second, for each network and kind of answer
	Slip     int // 0: none is sent
	Prefix4  int // width of a network
	Prefix6  int
	Exempt   []netip.Prefix
	k0, k1   uint64
	buckets  []atomic.Uint64 // which one it is (32 bits), second (16), answers in it (16)
	slipping atomic.Uint64
}

// buckets of a table of limits. Networks that meet in one take turns: the later gets a new account.
const buckets = 1 << 18

// NewLimits returns limits of so many answers a second.
func NewLimits(rate, slip, prefix4, prefix6 int, exempt []netip.Prefix) *Limits {
	return &Limits{
		Rate: rate, Slip: slip, Prefix4: prefix4, Prefix6: prefix6, Exempt: exempt, k0: rand.Uint64(), k1: rand.Uint64(),
		buckets: make([]atomic.Uint64, buckets),
	}
}

// What becomes of an answer.
type verdict int

const (
	send verdict = iota
	slip
	omit
)

// judge counts an answer.
func (l *Limits) judge(from netip.Addr, kind kind, id uint64, now time.Time) verdict {
	from = from.Unmap()
	width := l.Prefix6
	if from.Is4() {
		width = l.Prefix4
	}
	network, err := from.Prefix(width)
	if err != nil {
		return send
	}
	for _, p := range l.Exempt {
		if p.Contains(from) {
			return send
		}
	}
	var key [25]byte
	a := network.Addr().As16()
	copy(key[:], a[:])
	binary.LittleEndian.PutUint64(key[16:], id)
	key[24] = byte(kind)
	h := siphash.Hash(l.k0, l.k1, key[:])
	b := &l.buckets[h%buckets]
	tag, second := h>>32<<32, uint64(uint16(now.Unix()))<<16
	for {
		old := b.Load()
		next := tag | second | 1
		if old&^0xffff == tag|second {
			if old&0xffff >= uint64(l.Rate) {
				break
			}
			next = old + 1
		}
		if b.CompareAndSwap(old, next) {
			return send
		}
	}
	if l.Slip > 0 && l.slipping.Add(1)%uint64(l.Slip) == 0 {
		return slip
	}
	return omit
}

// spare reports whether an answer must not be sent as it is.
func (w *Worker) spare(kind kind, id uint64) bool {
	l := w.s.o.Limits
	if l == nil || w.r.tcp {
		return false
	}
	now := w.s.now()
	if c := w.s.o.Cookies; c != nil && len(w.r.cookie) > 8 {
		if c.valid(w.r.cookie, w.r.from.Addr(), now) {
			w.Counts.Cookies.Add(1)
			return false // nobody sent in its name
		}
	}
	w.verdict = l.judge(w.r.from.Addr(), kind, id, now)
	return w.verdict != send
}

// spared is what is sent instead of an answer above the limits.
func (w *Worker) spared(out []byte) int {
	if w.verdict == omit {
		w.Counts.Omitted.Add(1)
		return 0
	}
	w.Counts.Slipped.Add(1)
	return w.short(out, flagTC, 0)
}
