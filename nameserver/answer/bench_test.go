package answer

import (
	"testing"

	"github.com/miekg/dns"
)

// queries are of all ways to an answer that zones without signatures have.
func queries(t testing.TB) map[string][]byte {
	all := make(map[string][]byte)
	for name, q := range map[string][2]string{
		"positive": {"web", "A"}, "alias": {"chain", "A"}, "wildcard": {"x.wild", "A"}, "referral": {"host.child", "A"}, "none": {"nothing", "A"},
		"routed": {"cdn", "A"}, "nodata": {"web", "TXT"},
	} {
		m := ask(q[0]+".example.test.", q[1])
		m.SetEdns0(1232, false)
		m.IsEdns0().Option = append(m.IsEdns0().Option, &dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "0102030405060708"})
		raw, err := m.Pack()
		if err != nil {
			t.Fatal(err)
		}
		all[name] = raw
	}
	return all
}

// TestNoAllocation: a query costs no memory.
func TestNoAllocation(t *testing.T) {
	w := testServer(t, Options{Cookies: NewCookies(), Limits: NewLimits(60000, 2, 24, 56, nil), Subnet: true}).Worker()
	out := make([]byte, 1232)
	for name, raw := range queries(t) {
		if n := testing.AllocsPerRun(100, func() { w.Handle(raw, client, false, out) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkHandle(b *testing.B) {
	w := testServer(b, Options{Cookies: NewCookies(), Limits: NewLimits(65535, 2, 24, 56, nil)}).Worker()
	out := make([]byte, 1232)
	for name, raw := range queries(b) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				w.Handle(raw, client, false, out)
			}
		})
	}
}
