package sign

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// phase is what holds between two times of keys. It is never changed.
type phase struct {
	from, until time.Time // zero: since ever, for ever
	records     map[uint16][]dns.RR
	top, data   []signing // that sign the records that are made of keys, and the others
}

// signing is a key that signs, with its record at the time.
type signing struct {
	*Key
	record *dns.DNSKEY
}

func (p *phase) covers(now time.Time) bool {
	return !now.Before(p.from) && (p.until.IsZero() || now.Before(p.until))
}

// signed reports whether the zone has keys.
func (p *phase) signed() bool { return len(p.records[dns.TypeDNSKEY]) > 0 }

// reached reports whether a time is set and has come.
func reached(t, now time.Time) bool { return !t.IsZero() && !now.Before(t) }

// published reports whether a key is among the zone's.
func (k *Key) published(now time.Time) bool {
	switch t := &k.Times; {
	case reached(t.Delete, now):
		return false
	case *t == Times{}:
		return true
	case t.Publish.IsZero():
		return reached(t.Activate, now)
	default:
		return reached(t.Publish, now)
	}
}

// active reports whether a key signs. It may do so before it is published: validators that want signatures of all algorithms need that when another one
// comes (RFC 6781, section 4.1.4).
func (k *Key) active(now time.Time) bool {
	t := &k.Times
	if reached(t.Delete, now) || reached(t.Inactive, now) || k.revoked(now) {
		return false
	}
	return *t == Times{} || reached(t.Activate, now)
}

func (k *Key) revoked(now time.Time) bool { return reached(k.Times.Revoke, now) }

// at is a key's record, which tells that it is revoked (RFC 5011, section 2.1).
func (k *Key) at(now time.Time) *dns.DNSKEY {
	if !k.revoked(now) {
		return k.Record
	}
	r := *k.Record
	r.Flags |= dns.REVOKE
	return &r
}

// phaseOf is what holds at a time.
func phaseOf(keys []*Key, now time.Time) *phase {
	p := &phase{records: make(map[uint16][]dns.RR)}
	for _, t := range events(keys) {
		if t.After(now) {
			p.until = t
			break
		}
		p.from = t
	}
	byAlgorithm := make(map[uint8][]*Key)
	var algorithms []uint8
	for _, k := range keys {
		a := k.Record.Algorithm
		if byAlgorithm[a] == nil {
			algorithms = append(algorithms, a)
		}
		byAlgorithm[a] = append(byAlgorithm[a], k)
		p.add(k, now)
	}
	for _, a := range algorithms {
		p.choose(byAlgorithm[a], now)
	}
	return p
}

// add adds the records that are made of a key.
func (p *phase) add(k *Key, now time.Time) {
	if !k.published(now) {
		return
	}
	p.records[dns.TypeDNSKEY] = append(p.records[dns.TypeDNSKEY], k.at(now))
	if reached(k.Times.SyncPublish, now) && !reached(k.Times.SyncDelete, now) {
		p.records[dns.TypeCDS] = append(p.records[dns.TypeCDS], k.Record.ToDS(dns.SHA256).ToCDS())
		p.records[dns.TypeCDNSKEY] = append(p.records[dns.TypeCDNSKEY], k.Record.ToCDNSKEY())
	}
}

// choose adds the keys of an algorithm that sign.
func (p *phase) choose(keys []*Key, now time.Time) {
	ksk, zsk := signersOf(keys, true, now), signersOf(keys, false, now)
	top, data := ksk, zsk
	if len(top) == 0 {
		top = zsk
	}
	if len(data) == 0 {
		data = ksk // one key for all (RFC 6781, section 3.1)
	}
	for _, k := range keys {
		if k.revoked(now) && k.published(now) { // it is valid only if it has signed that itself
			top = append(slices.Clip(top), signing{k, k.at(now)})
		}
	}
	p.top, p.data = append(p.top, top...), append(p.data, data...)
}

// signersOf are the keys with a role that sign: the active ones. If none of these is published, the one goes on that was active last: a zone whose next key comes late
// stays valid, and the status tells it.
func signersOf(keys []*Key, ksk bool, now time.Time) (out []signing) {
	visible := false
	var last *Key
	for _, k := range keys {
		switch {
		case k.isKSK() != ksk:
		case k.active(now):
			out = append(out, signing{k, k.Record})
			visible = visible || k.published(now)
		case k.published(now) && reached(k.Times.Inactive, now) && !k.revoked(now) && (last == nil || k.Times.Inactive.After(last.Times.Inactive)):
			last = k
		}
	}
	if !visible && last != nil {
		out = append(out, signing{last, last.Record})
	}
	return out
}

// events are all times at which something changes, in order.
func events(keys []*Key) (all []time.Time) {
	for _, k := range keys {
		for _, e := range k.events() {
			all = append(all, e.at)
		}
	}
	slices.SortFunc(all, time.Time.Compare)
	return slices.CompactFunc(all, time.Time.Equal)
}

// event is a change of a key.
type event struct {
	at   time.Time
	what string
}

// events are the changes of a key that are planned, in order.
func (k *Key) events() (all []event) {
	t := &k.Times
	for _, e := range []event{
		{t.Publish, "is published"}, {t.Activate, "signs"}, {t.SyncPublish, "is offered to the zone above (CDS)"}, {t.SyncDelete, "is not offered any more (CDS)"},
		{t.Revoke, "is revoked"}, {t.Inactive, "stops signing"}, {t.Delete, "is removed"},
	} {
		if !e.at.IsZero() {
			all = append(all, e)
		}
	}
	slices.SortStableFunc(all, func(a, b event) int { return a.at.Compare(b.at) })
	return all
}

// State is what a key does.
type State struct {
	Tag       uint16
	Algorithm string
	Role      string    // KSK, ZSK, or both
	Now       string    // in words
	Signs     bool      // something
	Next      string    // in words; "": nothing is planned
	At        time.Time // of Next
}

// Signed reports whether the zone has keys at a time.
func (s *Signer) Signed(now time.Time) bool { return s.phase(now).signed() }

// States are what the keys do at a time, and do next.
func (s *Signer) States(now time.Time) (all []State) {
	p := s.phase(now)
	for _, k := range s.keys {
		signs := func(by []signing) bool { return slices.ContainsFunc(by, func(b signing) bool { return b.Key == k }) }
		top, data := signs(p.top), signs(p.data)
		one := State{Tag: k.at(now).KeyTag(), Algorithm: dns.AlgorithmToString[k.Record.Algorithm], Role: "ZSK", Signs: top || data}
		if k.isKSK() {
			one.Role = "KSK"
		}
		if top && data {
			one.Role = "both"
		}
		one.Now = k.words(now, one.Signs)
		for _, e := range k.events() {
			if e.at.After(now) {
				one.Next, one.At = e.what, e.at
				break
			}
		}
		all = append(all, one)
	}
	return all
}

// words say what a key does.
func (k *Key) words(now time.Time, signs bool) string {
	var words []string
	add := func(is bool, word string) {
		if is {
			words = append(words, word)
		}
	}
	seen := k.published(now)
	add(!seen && reached(k.Times.Delete, now), "removed")
	add(!seen && !reached(k.Times.Delete, now), "not published")
	add(seen, "published")
	add(k.revoked(now), "revoked")
	add(seen && reached(k.Times.SyncPublish, now) && !reached(k.Times.SyncDelete, now), "offered (CDS)")
	add(signs && k.active(now), "signs")
	add(signs && !k.active(now) && !k.revoked(now), "signs although its time is over: there is no other")
	return strings.Join(words, ", ")
}

// Warnings tell what of the plan would break the zone, or some resolvers' view of it. ttl is how long resolvers keep the keys, and longest how long they keep
// any record.
func (s *Signer) Warnings(now time.Time, ttl, longest time.Duration) (all []string) {
	for _, k := range s.keys {
		name := fmt.Sprintf("key %d", k.Record.KeyTag())
		t := &k.Times
		say := func(format string, values ...any) { all = append(all, name+" "+fmt.Sprintf(format, values...)) }
		if t.Activate.After(now) && !t.Publish.IsZero() && t.Activate.Sub(t.Publish) < ttl && s.other(k, t.Activate.Add(-time.Second)) {
			say("signs %v after it is published: resolvers keep the keys for %v (dnssec-settime -A, later)", t.Activate.Sub(t.Publish), ttl)
		}
		if t.Delete.After(now) && !t.Inactive.IsZero() && t.Delete.Sub(t.Inactive) < longest && s.other(k, t.Delete) {
			say("is removed %v after it has stopped signing: resolvers keep signatures for %v (dnssec-settime -D, later)", t.Delete.Sub(t.Inactive), longest)
		}
		end := t.Inactive
		if end.IsZero() || !t.Delete.IsZero() && t.Delete.Before(end) {
			end = t.Delete
		}
		if end.After(now) && !s.other(k, end) {
			say("ends on %s, and no other takes over", end.Format(time.RFC3339))
		}
	}
	if !s.Signed(now) {
		all = append(all, "no key is published: the zone is not signed")
	}
	return all
}

// other reports whether another key with the same role signs at a time.
func (s *Signer) other(k *Key, at time.Time) bool {
	return slices.ContainsFunc(s.keys, func(o *Key) bool {
		return o != k && o.isKSK() == k.isKSK() && o.Record.Algorithm == k.Record.Algorithm && o.active(at) && o.published(at)
	})
}
