package sign

import (
	"crypto"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"baton/nameserver/zone"
)

const (
	origin = "example.test."
	ttl    = time.Hour // of all records
)

var begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(hours int) time.Time { return begin.Add(time.Duration(hours) * time.Hour) }

// made returns a key with times.
func made(t *testing.T, flags uint16, algorithm uint8, times Times) *Key {
	t.Helper()
	r := &dns.DNSKEY{
		Hdr:   dns.RR_Header{Name: origin, Rrtype: dns.TypeDNSKEY, Class: dns.ClassINET, Ttl: 3600},
		Flags: flags, Protocol: 3, Algorithm: algorithm,
	}
	private, err := r.Generate(256)
	if err != nil {
		t.Fatal(err)
	}
	return &Key{Record: r, Times: times, private: private.(crypto.Signer), made: make(map[string]signature)}
}

func testZone(t *testing.T) *zone.Zone {
	t.Helper()
	file := filepath.Join(t.TempDir(), "z")
	if err := os.WriteFile(file, []byte("$TTL 3600\n@ SOA ns h 1 2 3 4 3600\n@ NS ns\nns A 192.0.2.1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	z, err := zone.Load(zone.Options{Origin: origin, File: file})
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// ask is the answer at a time: the records, and their signatures.
func ask(t *testing.T, s *Signer, z *zone.Zone, name string, kind uint16, now time.Time) (set []dns.RR, sigs []*dns.RRSIG) {
	t.Helper()
	key, err := zone.KeyOf(name)
	if err != nil {
		t.Fatal(err)
	}
	r := z.Resolve(key, name, kind)
	s.Keys(z, &r, kind, now)
	if err := s.Sign(z, &r, name, kind, now); err != nil {
		t.Fatal(err)
	}
	for _, rr := range append(r.Answer, r.Nameserver...) {
		if sig, ok := rr.(*dns.RRSIG); ok {
			sigs = append(sigs, sig)
		} else if rr.Header().Rrtype == kind || rr.Header().Rrtype == dns.TypeNSEC {
			set = append(set, rr)
		}
	}
	return set, sigs
}

// proves reports whether a signature is one by a key among some, at a time.
func proves(keys []dns.RR, set []dns.RR, sigs []*dns.RRSIG, now time.Time) bool {
	for _, sig := range sigs {
		for _, rr := range keys {
			if k := rr.(*dns.DNSKEY); k.KeyTag() == sig.KeyTag && sig.ValidityPeriod(now) && len(set) > 0 && sig.TypeCovered == set[0].Header().Rrtype && sig.Verify(k, set) == nil {
				return true
			}
		}
	}
	return false
}

const (
	zsk = uint16(dns.ZONE)
	ksk = uint16(dns.ZONE | dns.SEP)
)

// TestRollovers: through whole rollovers, at each quarter of an hour a resolver can validate all: with the keys of now, with those that it has had since a
// TTL ago, and signatures that it has had since a TTL ago with the keys of now. The trust anchor changes when the zone above has the new key's DS.
func TestRollovers(t *testing.T) {
	const ecdsa, ed = dns.ECDSAP256SHA256, dns.ED25519
	always := Times{}
	for _, tt := range []struct {
		name    string
		keys    []*Key
		anchors func(now time.Time) []int // indices of keys
		end     int
	}{
		{"ZSK, pre-published", []*Key{
			made(t, ksk, ecdsa, always),
			made(t, zsk, ecdsa, Times{Publish: at(-9), Activate: at(-9), Inactive: at(5), Delete: at(7)}),
			made(t, zsk, ecdsa, Times{Publish: at(3), Activate: at(5)}),
		}, func(time.Time) []int { return []int{0} }, 10},
		{"KSK, with two signatures", []*Key{
			made(t, ksk, ecdsa, Times{Publish: at(-9), Activate: at(-9), Inactive: at(7), Delete: at(7)}),
			made(t, ksk, ecdsa, Times{Publish: at(3), Activate: at(3), SyncPublish: at(4)}),
			made(t, zsk, ecdsa, always),
		}, func(now time.Time) []int {
			if now.Before(at(5)) {
				return []int{0}
			}
			return []int{1}
		}, 10},
		{"one key for all, with two signatures", []*Key{
			made(t, ksk, ecdsa, Times{Publish: at(-9), Activate: at(-9), Inactive: at(7), Delete: at(9)}),
			made(t, ksk, ecdsa, Times{Publish: at(3), Activate: at(3)}),
		}, func(now time.Time) []int {
			if now.Before(at(5)) {
				return []int{0}
			}
			return []int{1}
		}, 12},
		{"another algorithm: signatures first, and last", []*Key{
			made(t, ksk, ecdsa, Times{Publish: at(-9), Activate: at(-9), Delete: at(9), Inactive: at(11)}),
			made(t, zsk, ecdsa, Times{Publish: at(-9), Activate: at(-9), Delete: at(9), Inactive: at(11)}),
			made(t, ksk, ed, Times{Activate: at(2), Publish: at(4)}),
			made(t, zsk, ed, Times{Activate: at(2), Publish: at(4)}),
		}, func(now time.Time) []int {
			if now.Before(at(6)) {
				return []int{0}
			}
			return []int{2}
		}, 12},
		{"the next key comes late", []*Key{
			made(t, ksk, ecdsa, Times{Publish: at(-9), Activate: at(-9), Inactive: at(2)}),
			made(t, zsk, ecdsa, Times{Publish: at(-9), Activate: at(-9), Inactive: at(2)}),
			made(t, zsk, ecdsa, Times{Publish: at(4), Activate: at(6)}),
		}, func(time.Time) []int { return []int{0} }, 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, z := New(tt.keys...), testZone(t)
			for now := begin; now.Before(at(tt.end)); now = now.Add(15 * time.Minute) {
				var anchors []dns.RR
				for _, i := range tt.anchors(now) {
					anchors = append(anchors, tt.keys[i].Record)
				}
				old := now.Add(-ttl)
				keys, keySigs := ask(t, s, z, origin, dns.TypeDNSKEY, now)
				oldKeys, _ := ask(t, s, z, origin, dns.TypeDNSKEY, old)
				if !proves(anchors, keys, keySigs, now) {
					t.Fatalf("%v: the keys are not proved by the anchor: %v %v", now, keys, keySigs)
				}
				for _, q := range []struct {
					name string
					kind uint16
				}{{"ns." + origin, dns.TypeA}, {origin, dns.TypeSOA}, {"nothing." + origin, dns.TypeA}, {origin, dns.TypeTXT}} {
					set, sigs := ask(t, s, z, q.name, q.kind, now)
					oldSet, oldSigs := ask(t, s, z, q.name, q.kind, old)
					if !proves(keys, set, sigs, now) || !proves(oldKeys, set, sigs, now) || !proves(keys, oldSet, oldSigs, now) {
						t.Fatalf("%v: %s is not proved by the keys, by those of a TTL ago, or its signature of a TTL ago is not", now, q.name)
					}
				}
				seen := map[uint8]bool{} // each algorithm of the keys signs all (RFC 4035, section 2.2)
				_, sigs := ask(t, s, z, "ns."+origin, dns.TypeA, now)
				for _, sig := range sigs {
					seen[sig.Algorithm] = true
				}
				for _, rr := range keys {
					if !seen[rr.(*dns.DNSKEY).Algorithm] {
						t.Fatalf("%v: no signature by the algorithm of %v", now, rr)
					}
				}
			}
		})
	}
}

// TestSync: the zone above is offered a key by signed CDS and CDNSKEY records, between its times.
func TestSync(t *testing.T) {
	one := made(t, ksk, dns.ECDSAP256SHA256, Times{Publish: at(0), Activate: at(0), SyncPublish: at(1), SyncDelete: at(2)})
	s, z := New(one), testZone(t)
	for hours, want := range map[int]int{0: 0, 1: 1, 2: 0} {
		for _, kind := range []uint16{dns.TypeCDS, dns.TypeCDNSKEY} {
			set, sigs := ask(t, s, z, origin, kind, at(hours))
			if want == 0 {
				if len(set) != 1 || set[0].Header().Rrtype != dns.TypeNSEC || strings.Contains(set[0].String(), " "+dns.TypeToString[kind]+" ") {
					t.Errorf("%d: %v", hours, set)
				}
				continue
			}
			if len(set) != 1 || !proves([]dns.RR{one.Record}, set, sigs, at(hours)) {
				t.Errorf("%d: %v %v", hours, set, sigs)
			}
		}
	}
	cds, _ := ask(t, s, z, origin, dns.TypeCDS, at(1))
	if c := cds[0].(*dns.CDS); c.Digest != one.Record.ToDS(dns.SHA256).Digest || c.KeyTag != one.Record.KeyTag() {
		t.Errorf("%v", c)
	}
}

// TestRevoked: a revoked key says so itself, and signs nothing else.
func TestRevoked(t *testing.T) {
	old := made(t, ksk, dns.ECDSAP256SHA256, Times{Publish: at(0), Activate: at(0), Revoke: at(1)})
	next := made(t, ksk, dns.ECDSAP256SHA256, Times{})
	s, z := New(old, next), testZone(t)
	keys, sigs := ask(t, s, z, origin, dns.TypeDNSKEY, at(1))
	if len(keys) != 2 || keys[0].(*dns.DNSKEY).Flags&dns.REVOKE == 0 || !proves(keys[:1], keys, sigs, at(1)) || !proves(keys[1:], keys, sigs, at(1)) {
		t.Errorf("%v %v", keys, sigs)
	}
	if _, sigs := ask(t, s, z, "ns."+origin, dns.TypeA, at(1)); len(sigs) != 1 || sigs[0].KeyTag != next.Record.KeyTag() {
		t.Errorf("%v", sigs)
	}
}

// TestStates: what keys do and will do is told, and what would break the zone.
func TestStates(t *testing.T) {
	first := made(t, zsk, dns.ECDSAP256SHA256, Times{Publish: at(0), Activate: at(0), Inactive: at(5), Delete: at(6)})
	next := made(t, zsk, dns.ECDSAP256SHA256, Times{Publish: at(4), Activate: at(5)})
	top := made(t, ksk, dns.ECDSAP256SHA256, Times{Publish: at(0), Activate: at(0), Inactive: at(100)})
	s := New(top, first, next)
	for hours, want := range map[int][3]string{
		1: {"published, signs", "published, signs; stops signing 5", "not published; is published 4"},
		4: {"published, signs", "published, signs; stops signing 5", "published; signs 5"},
		5: {"published, signs", "published; is removed 6", "published, signs; "},
		6: {"published, signs", "removed; ", "published, signs; "},
	} {
		for i, one := range s.States(at(hours)) {
			got := fmt.Sprintf("%s; %s", one.Now, one.Next)
			if !one.At.IsZero() {
				got += fmt.Sprint(" ", one.At.Sub(begin).Hours())
			}
			if !strings.HasPrefix(got, want[i]) {
				t.Errorf("%d: key %d: %s, want %s", hours, i, got, want[i])
			}
		}
	}
	if late := s.States(at(101))[0]; !late.Signs || !strings.Contains(late.Now, "although its time is over") {
		t.Errorf("%+v", late)
	}
	tags := [3]uint16{top.Record.KeyTag(), first.Record.KeyTag(), next.Record.KeyTag()}
	want := fmt.Sprintf("key %d ends on 2026-01-05T04:00:00Z, and no other takes over\n"+
		"key %d is removed 1h0m0s after it has stopped signing: resolvers keep signatures for 2h0m0s (dnssec-settime -D, later)\n"+
		"key %d signs 1h0m0s after it is published: resolvers keep the keys for 2h0m0s (dnssec-settime -A, later)", tags[0], tags[1], tags[2])
	if got := strings.Join(s.Warnings(at(1), 2*time.Hour, 2*time.Hour), "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := s.Warnings(at(-1), ttl, ttl); !strings.Contains(strings.Join(got, "\n"), "no key is published: the zone is not signed") {
		t.Errorf("%q", got)
	}
}

// TestFolder: files of dnssec-keygen are read, and mistakes told for each.
func TestFolder(t *testing.T) {
	dir := t.TempDir()
	if _, err := LoadFolder(dir, origin); err == nil || !strings.Contains(err.Error(), "has no key of example.test (baton nameserver key example.test --folder "+dir+" makes one)") {
		t.Errorf("%v", err)
	}
	path, _, err := Generate(dir, origin)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := Generate(dir, "sub.example.test"); err != nil { // another zone's
		t.Fatal(err)
	}
	if keys, err := LoadFolder(dir, origin); err != nil || len(keys) != 1 || keys[0].Times != (Times{}) {
		t.Errorf("%v, %v", keys, err)
	}
	text, err := os.ReadFile(path + ".private")
	if err != nil {
		t.Fatal(err)
	}
	for more, want := range map[string]string{
		"Publish: 20260101000000\nInactive: 20260102030405 (Fri)\nUnknown: x\n": "", "Delete: tomorrow\n": `Delete: "tomorrow" is no time`,
	} {
		if err := os.WriteFile(path+".private", append(text, more...), 0o600); err != nil {
			t.Fatal(err)
		}
		keys, err := LoadFolder(dir, origin)
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), path+".private: "+want) {
				t.Errorf("%v, want %s", err, want)
			}
			continue
		}
		if err != nil || !keys[0].Times.Publish.Equal(begin) || !keys[0].Times.Inactive.Equal(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)) {
			t.Errorf("%+v, %v", keys, err)
		}
	}
}
