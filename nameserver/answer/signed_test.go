package answer

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"baton/nameserver/sign"
)

func testSigner(t testing.TB) (*sign.Signer, *dns.DNSKEY) {
	t.Helper()
	path, _, err := sign.Generate(t.TempDir(), "example.test.")
	if err != nil {
		t.Fatal(err)
	}
	k, err := sign.Load(path, "example.test.")
	if err != nil {
		t.Fatal(err)
	}
	return sign.New(k), k.Record
}

// TestSigned: each set of records of a signed answer has a signature that the zone's key made, but those of delegations; what does not exist is denied by a record
// that covers the name.
func TestSigned(t *testing.T) {
	z := testZone(t, text)
	signer, key := testSigner(t)
	z.Signer = signer
	w := testServer(t, Options{Size: 4096}, z).Worker()
	for _, tt := range []struct{ name, kind, code, denied string }{
		{"web", "A", "NOERROR", ""}, {"www", "AAAA", "NOERROR", ""}, {"x.wild", "A", "NOERROR", ""}, {"cdn", "A", "NOERROR", ""},
		{"cdn", "HTTPS", "NOERROR", ""}, {"toroute", "A", "NOERROR", ""}, {"web", "ANY", "NOERROR", ""},
		{"nothing", "A", "NOERROR", "NXNAME NSEC RRSIG"}, {"dangling", "A", "NOERROR", "NXNAME NSEC RRSIG"},
		{"web", "TXT", "NOERROR", "A AAAA HTTPS NSEC RRSIG"}, {"ent", "A", "NOERROR", "NSEC RRSIG"}, {"four", "AAAA", "NOERROR", "A HTTPS NSEC RRSIG"},
		{"x.wild", "AAAA", "NOERROR", "A MX NSEC RRSIG TXT"}, {"", "TYPE65280", "NOERROR", "CAA DNSKEY MX NS NSEC RRSIG SOA TXT"},
		{"host.child", "A", "NOERROR", ""}, {"x.plain", "A", "NOERROR", "NS NSEC RRSIG"}, {"child", "DS", "NOERROR", ""}, {"plain", "DS", "NOERROR", "NS NSEC RRSIG"},
	} {
		t.Run(tt.name+" "+tt.kind, func(t *testing.T) {
			m := ask(strings.TrimPrefix(tt.name+".example.test.", "."), tt.kind)
			if tt.kind == "TYPE65280" {
				m.Question[0].Qtype = 65280
			}
			m.SetEdns0(4096, true)
			for range 2 { // the second time from memory
				a := exchange(t, w, m, false)
				if got := dns.RcodeToString[a.Rcode]; got != tt.code || a.IsEdns0() == nil || !a.IsEdns0().Do() {
					t.Errorf("%s, %v", got, a)
				}
				if got := verified(t, key, a); got != tt.denied {
					t.Errorf("denied %q, want %q\n%v", got, tt.denied, a)
				}
			}
		})
	}
	a := exchange(t, w, ask("example.test.", "DNSKEY"), false)
	if len(a.Answer) != 1 || a.Answer[0].(*dns.DNSKEY).PublicKey != key.PublicKey {
		t.Errorf("without signatures: %v", a)
	}
	if a := exchange(t, w, ask("web.example.test.", "A"), false); len(a.Answer) != 2 {
		t.Errorf("signatures that nobody asked for: %v", a)
	}
}

// verified checks all signatures, and returns the types of the NSEC record.
func verified(t *testing.T, key *dns.DNSKEY, a *dns.Msg) (denied string) {
	t.Helper()
	for _, section := range [][]dns.RR{a.Answer, a.Ns} {
		sets := make(map[string][]dns.RR)
		var sigs []*dns.RRSIG
		for _, rr := range section {
			if sig, ok := rr.(*dns.RRSIG); ok {
				sigs = append(sigs, sig)
				continue
			}
			h := rr.Header()
			sets[h.Name+dns.TypeToString[h.Rrtype]] = append(sets[h.Name+dns.TypeToString[h.Rrtype]], rr)
			if nsec, ok := rr.(*dns.NSEC); ok {
				var types []string
				for _, kind := range nsec.TypeBitMap {
					types = append(types, dns.TypeToString[kind])
				}
				slices.Sort(types)
				denied = strings.Join(types, " ")
				if nsec.NextDomain != `\000.`+h.Name {
					t.Errorf("covers more than the name: %v", nsec)
				}
				denied = strings.ReplaceAll(denied, "NSEC NXNAME", "NXNAME NSEC")
			}
		}
		for _, sig := range sigs {
			name := sig.Hdr.Name + dns.TypeToString[sig.TypeCovered]
			if sets[name] == nil || sig.Hdr.Ttl != sets[name][0].Header().Ttl {
				t.Errorf("%s: another TTL: %v", name, sig)
			}
			if err := sig.Verify(key, sets[name]); err != nil || !sig.ValidityPeriod(time.Now()) {
				t.Errorf("%s: %v: %v", name, err, sig)
			}
			delete(sets, name)
		}
		for name, set := range sets {
			if set[0].Header().Rrtype != dns.TypeNS || len(a.Answer) > 0 && &section[0] == &a.Answer[0] {
				t.Errorf("%s is not signed", name)
			}
		}
	}
	return denied
}
