// Package answer answers queries of the DNS from zones: messages in, messages out, without sockets. Answers are made when a zone is read;
// a question costs a look-up, a copy, and its own identifier and letters.
package answer

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dchest/siphash"
	"github.com/miekg/dns"

	"baton/nameserver/sign"
	"baton/nameserver/zone"
)

// Options make a Server.
type Options struct {
	Size    int    // longest answer over UDP, in octets
	NSID    string // RFC 5001; "": none
	Subnet  bool   // client subnets are heeded (RFC 7871)
	Cookies *Cookies
	Limits  *Limits // of answers over UDP; nil: none
}

// Zone is a zone to serve.
type Zone struct {
	Data     *zone.Zone
	Routes   map[string]Route // by the names that nodes have
	Transfer []netip.Prefix   // clients that may have all of it
	Signer   *sign.Signer     // nil: it is not signed
}

// Tables are all zones, ready to answer. They are never changed.
type Tables struct {
	zones map[zone.Key]*compiled
}

// Compile makes the answers of zones.
func Compile(zones []*Zone) (*Tables, error) {
	t := &Tables{zones: make(map[zone.Key]*compiled, len(zones))}
	for _, z := range zones {
		c, err := compile(z)
		if err != nil {
			return nil, fmt.Errorf("zone %s: %w", z.Data.Origin, err)
		}
		t.zones[z.Data.Key] = c
	}
	return t, nil
}

// Server answers from the tables that it was given last.
type Server struct {
	o       Options
	tables  atomic.Pointer[Tables]
	now     func() time.Time
	mu      sync.Mutex
	workers []*Worker
}

// New returns a server without zones: it refuses all.
func New(o Options) *Server {
	s := &Server{o: o, now: time.Now}
	s.tables.Store(&Tables{})
	return s
}

// Set changes the zones for all queries from now on.
func (s *Server) Set(t *Tables) { s.tables.Store(t) }

// Worker answers queries one after the other. Each goroutine has its own.
type Worker struct {
	s       *Server
	r       request
	choice  Choice
	wild    [maxName + 2]byte
	Counts  Counts
	verdict verdict // of the limits
	dry     bool    // only to explain: routes are not to count it
}

// Worker returns a new worker, whose counts are part of the server's.
func (s *Server) Worker() *Worker {
	w := &Worker{s: s}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.workers = append(s.workers, w)
	return w
}

// maxMessage is the longest message over TCP.
const maxMessage = 1<<16 - 1

// Handle answers a query. It returns the length of the answer in out, whose length is 65,535 for TCP, and the greatest size of the options for
// UDP; 0: there must be no answer.
func (w *Worker) Handle(query []byte, from netip.AddrPort, tcp bool, out []byte) int {
	r := &w.r
	w.Counts.Queries.Add(1)
	switch code := r.read(query, from, tcp); {
	case code == drop:
		w.Counts.Ignored.Add(1)
		return 0
	case code != 0:
		return w.refuse(out, int(code))
	}
	if r.do {
		w.Counts.DNSSEC.Add(1)
	}
	if r.class != dns.ClassINET {
		return w.refuse(out, dns.RcodeRefused)
	}
	switch r.kind {
	case 0, dns.TypeOPT, dns.TypeTSIG, dns.TypeTKEY, dns.TypeNXNAME:
		return w.refuse(out, dns.RcodeFormatError)
	case dns.TypeAXFR, dns.TypeIXFR, dns.TypeMAILA, dns.TypeMAILB:
		return w.refuse(out, dns.RcodeRefused)
	}
	z := w.s.tables.Load().zone(r)
	if z == nil {
		return w.refuse(out, dns.RcodeRefused)
	}
	if z.Signer != nil && (r.do || sign.Makes(r.kind)) {
		return w.slow(out, z)
	}
	t := w.find(z)
	if t == nil {
		return w.slow(out, z)
	}
	return w.answer(out, t)
}

// zone is the nearest zone above the question's name.
func (t *Tables) zone(r *request) *compiled {
	var own *compiled
	for key := r.key[:r.name]; ; key = key[1+int(key[0]):] {
		if z := t.zones[zone.Key(key)]; z != nil {
			if r.kind != dns.TypeDS || len(key) < r.name {
				return z
			}
			own = z // the zone above has the DS records of this one, if it is served here too
		}
		if len(key) == 1 {
			return own
		}
	}
}

// find is the answer to the question; nil: it must be made from records.
func (w *Worker) find(z *compiled) *template {
	r := &w.r
	key := r.key[:r.name]
	if e := z.entries[zone.Key(key)]; e != nil {
		if e.slow {
			return nil
		}
		return e.of(r.kind)
	}
	for {
		key = key[1+int(key[0]):]
		e := z.entries[zone.Key(key)]
		if e == nil {
			continue
		}
		if e.cut {
			if e.slow {
				return nil
			}
			return e.other
		}
		if !e.wild {
			return z.none
		}
		w.wild[0], w.wild[1] = 1, '*'
		n := 2 + copy(w.wild[2:], key)
		if e = z.entries[zone.Key(w.wild[:n])]; e.slow {
			return nil
		}
		return e.of(r.kind)
	}
}

// limit is the longest answer that the client takes.
func (w *Worker) limit() int {
	if w.r.tcp {
		return maxMessage
	}
	return min(w.r.size, w.s.o.Size)
}

// answer sends a template.
func (w *Worker) answer(out []byte, t *template) int {
	scope := 0
	if t.route != nil {
		w.choose(t.route)
		if w.choice.Fail {
			return w.refuse(out, dns.RcodeServerFailure)
		}
		scope = w.choice.Scope
		if w.choice.none(w.r.kind) {
			t = t.negative
		}
	}
	if w.spare(t.kind, t.id) {
		return w.spared(out)
	}
	r := &w.r
	limit := w.limit() - w.optionsSize()
	n := t.size(r)
	if t.route != nil {
		n += w.choice.size(r.kind)
	}
	if n > limit {
		w.Counts.Truncated.Add(1)
		return w.short(out, t.msg[2]|flagTC, t.msg[3])
	}
	n = t.fill(out, r)
	if t.route != nil {
		n = w.addresses(out, n, t)
	}
	w.Counts.Kinds[t.kind].Add(1)
	return w.options(out, n, 0, scope)
}

// short writes an answer without records.
func (w *Worker) short(out []byte, flags, code byte) int {
	r := &w.r
	clear(out[:header])
	out[0], out[1] = r.raw[0], r.raw[1]
	out[2], out[3] = flags|flagQR|r.raw[2]&(flagRD|maskOpcode), code&0xf
	n := header
	if r.question {
		out[5] = 1
		n += copy(out[header:], r.raw[header:header+r.name+fixed])
	}
	return w.options(out, n, 0, 0)
}

// refuse answers with a code alone.
func (w *Worker) refuse(out []byte, code int) int {
	r := &w.r
	if w.spare(failure, uint64(code)) {
		return w.spared(out)
	}
	w.Counts.code(code)
	clear(out[:header])
	out[0], out[1] = r.raw[0], r.raw[1]
	out[2], out[3] = flagQR|r.raw[2]&(flagRD|maskOpcode), byte(code&0xf)
	n := header
	if r.question {
		out[5] = 1
		n += copy(out[header:], r.raw[header:header+r.name+fixed])
	}
	return w.options(out, n, code>>4, 0)
}

// hash64 makes a number of a name, for the limits of answers.
func hash64(name []byte, kind uint64) uint64 { return siphash.Hash(kind, 0x6261746f6e, name) }

// addCount adds n to a count of records in the header, which is at an offset of out.
func addCount(out []byte, at, n int) {
	binary.BigEndian.PutUint16(out[at:], binary.BigEndian.Uint16(out[at:])+uint16(n))
}
