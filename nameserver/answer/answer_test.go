package answer

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/miekg/dns"

	"baton/nameserver/zone"
)

// text is the zone of most tests.
const text = `$TTL 300
$ORIGIN example.test.
@        SOA   ns1 hostmaster 7 3600 600 86400 60
         NS    ns1
         NS    ns2.elsewhere.test.
         MX    10 mail
         TXT   "v=spf1 -all"
         CAA   0 issue "ca.test"
ns1      A     192.0.2.1
         AAAA  2001:db8::1
mail     A     192.0.2.2
www      CNAME web
web      A     192.0.2.3
         A     192.0.2.4
         AAAA  2001:db8::3
         HTTPS 1 . alpn=h2,h3 ipv4hint=192.0.2.3
out      CNAME www.elsewhere.test.
dangling CNAME nothing
chain    CNAME www
viacut   CNAME host.child
toroute  CNAME cdn
_dns._udp SRV  0 5 53 ns1
a.b.ent  A     192.0.2.5
*.wild   A     192.0.2.6
         TXT   "any"
         MX    5 mail
sub.wild A     192.0.2.7
*.alias  CNAME web
child    NS    ns.child
         NS    ns1
         DS    12345 13 2 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f
ns.child A     192.0.2.8
plain    NS    ns1
`

// route chooses the same for all clients.
type route struct{ c Choice }

func (r route) Choose(a Asked, c *Choice) {
	c.V4, c.V6, c.TTL, c.Params, c.Fail, c.Scope = append(c.V4, r.c.V4...), append(c.V6, r.c.V6...), r.c.TTL, r.c.Params, r.c.Fail, r.c.Scope
}

func addrs(all ...string) (out []netip.Addr) {
	for _, s := range all {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}

var choices = map[string]Route{
	"both": route{Choice{V4: addrs("198.51.100.1", "198.51.100.2"), V6: addrs("2001:db8:1::1"), TTL: 20, Scope: 24, Params: []byte{0, 1, 0, 3, 2, 'h', '2'}}},
	"four": route{Choice{V4: addrs("198.51.100.3"), TTL: 20}},
	"none": route{Choice{Fail: true}},
}

func parse(text string) (*zone.Zone, error) {
	return zone.Parse(fstest.MapFS{"z": {Data: []byte(text)}}, zone.Options{Origin: "example.test.", File: "z", Routed: map[string]string{
		"cdn.example.test.": "both", "four.example.test.": "four", "dead.example.test.": "none", "*.many.example.test.": "both",
	}})
}

func testZone(t testing.TB, text string) *Zone {
	t.Helper()
	z, err := parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return &Zone{Data: z, Routes: choices}
}

func testServer(t testing.TB, o Options, zones ...*Zone) *Server {
	t.Helper()
	if len(zones) == 0 {
		zones = []*Zone{testZone(t, text)}
	}
	if o.Size == 0 {
		o.Size = 1232
	}
	tables, err := Compile(zones)
	if err != nil {
		t.Fatal(err)
	}
	s := New(o)
	s.Set(tables)
	return s
}

var client = netip.MustParseAddrPort("203.0.113.9:4242")

// exchange asks a worker as a client does, and has the library read what it answers.
func exchange(t testing.TB, w *Worker, m *dns.Msg, tcp bool) *dns.Msg {
	t.Helper()
	raw, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	out := make([]byte, maxMessage)
	if !tcp {
		out = out[:w.s.o.Size]
	}
	n := w.Handle(raw, client, tcp, out)
	if n == 0 {
		return nil
	}
	var a dns.Msg
	if err := a.Unpack(out[:n]); err != nil {
		t.Fatalf("%v: the answer cannot be read: %v\n%x", m.Question, err, out[:n])
	}
	if a.Id != m.Id || !a.Response || len(m.Question) > 0 && len(a.Question) > 0 && a.Question[0] != m.Question[0] {
		t.Errorf("%v: the answer is of another question: %v", m.Question, a)
	}
	return &a
}

func ask(name, kind string) *dns.Msg {
	m := new(dns.Msg)
	m.SetQuestion(name, dns.StringToType[kind])
	m.RecursionDesired = true
	return m
}

// lines are an answer in short: code and flags, then the records of each section.
func lines(a *dns.Msg) string {
	if a == nil {
		return "nothing"
	}
	out := dns.RcodeToString[a.Rcode]
	for flag, set := range map[string]bool{" aa": a.Authoritative, " tc": a.Truncated} {
		if set {
			out += flag
		}
	}
	for i, section := range [][]dns.RR{a.Answer, a.Ns, a.Extra} {
		for _, rr := range section {
			if rr.Header().Rrtype == dns.TypeOPT {
				continue
			}
			h := rr.Header()
			out += fmt.Sprintf("\n%s %s %d %s %s", []string{"an", "ns", "ad"}[i], strings.TrimSuffix(h.Name, "example.test."), h.Ttl,
				dns.TypeToString[h.Rrtype], strings.TrimPrefix(rr.String(), h.String()))
		}
	}
	return out
}

const soa = "\nns  60 SOA ns1.example.test. hostmaster.example.test. 7 3600 600 86400 60"

// answers are what names of the zone answer.
var answers = []struct{ name, kind, want string }{
	{"web", "A", "NOERROR aa\nan web. 300 A 192.0.2.3\nan web. 300 A 192.0.2.4"},
	{"wEb", "AAAA", "NOERROR aa\nan wEb. 300 AAAA 2001:db8::3"},
	{"web", "TXT", "NOERROR aa" + soa},
	{"web", "HTTPS", `NOERROR aa` + "\nan web. 300 HTTPS 1 . alpn=\"h2,h3\" ipv4hint=\"192.0.2.3\""},
	{"", "NS", "NOERROR aa\nan  300 NS ns1.example.test.\nan  300 NS ns2.elsewhere.test."},
	{"", "SOA", "NOERROR aa\nan  300 SOA ns1.example.test. hostmaster.example.test. 7 3600 600 86400 60"},
	{"", "MX", "NOERROR aa\nan  300 MX 10 mail.example.test."},
	{"", "CAA", "NOERROR aa\nan  300 CAA 0 issue \"ca.test\""},
	{"_dns._udp", "SRV", "NOERROR aa\nan _dns._udp. 300 SRV 0 5 53 ns1.example.test."},
	{"_udp", "SRV", "NOERROR aa" + soa}, // an empty non-terminal exists
	{"b.ent", "A", "NOERROR aa" + soa},
	{"ent", "A", "NOERROR aa" + soa},
	{"x.ent", "A", "NXDOMAIN aa" + soa},
	{"nothing", "A", "NXDOMAIN aa" + soa},
	{"a.very.long.way.to.nothing", "A", "NXDOMAIN aa" + soa},
	{"under.web", "A", "NXDOMAIN aa" + soa},
	{"www", "A", "NOERROR aa\nan www. 300 CNAME web.example.test.\nan web. 300 A 192.0.2.3\nan web. 300 A 192.0.2.4"},
	{"chain", "AAAA", "NOERROR aa\nan chain. 300 CNAME www.example.test.\nan www. 300 CNAME web.example.test.\nan web. 300 AAAA 2001:db8::3"},
	{"www", "MX", "NOERROR aa\nan www. 300 CNAME web.example.test." + soa},
	{"www", "CNAME", "NOERROR aa\nan www. 300 CNAME web.example.test."},
	{"out", "A", "NOERROR aa\nan out. 300 CNAME www.elsewhere.test."},
	{"dangling", "A", "NXDOMAIN aa\nan dangling. 300 CNAME nothing.example.test." + soa},
	{"x.wild", "A", "NOERROR aa\nan x.wild. 300 A 192.0.2.6"},
	{"y.X.wild", "TXT", "NOERROR aa\nan y.X.wild. 300 TXT \"any\""},
	{"q.wild", "MX", "NOERROR aa\nan q.wild. 300 MX 5 mail.example.test."},
	{"x.wild", "AAAA", "NOERROR aa" + soa},
	{"*.wild", "A", "NOERROR aa\nan *.wild. 300 A 192.0.2.6"},
	{"sub.wild", "TXT", "NOERROR aa" + soa},  // the name exists, and the wildcard does not apply
	{"x.sub.wild", "A", "NXDOMAIN aa" + soa}, // nor below it
	{"wild", "A", "NOERROR aa" + soa},        // nor to the name above it
	{"a.b.alias", "A", "NOERROR aa\nan a.b.alias. 300 CNAME web.example.test.\nan web. 300 A 192.0.2.3\nan web. 300 A 192.0.2.4"},
	{"host.child", "A", "NOERROR\nns child. 300 NS ns.child.example.test.\nns child. 300 NS ns1.example.test.\nad ns.child. 300 A 192.0.2.8\nad ns1. 300 A 192.0.2.1\nad ns1. 300 AAAA 2001:db8::1"},
	{"ns.child", "A", "NOERROR\nns child. 300 NS ns.child.example.test.\nns child. 300 NS ns1.example.test.\nad ns.child. 300 A 192.0.2.8\nad ns1. 300 A 192.0.2.1\nad ns1. 300 AAAA 2001:db8::1"},
	{"x.ns.child", "TXT", "NOERROR\nns child. 300 NS ns.child.example.test.\nns child. 300 NS ns1.example.test.\nad ns.child. 300 A 192.0.2.8\nad ns1. 300 A 192.0.2.1\nad ns1. 300 AAAA 2001:db8::1"},
	{"child", "NS", "NOERROR\nns child. 300 NS ns.child.example.test.\nns child. 300 NS ns1.example.test.\nad ns.child. 300 A 192.0.2.8\nad ns1. 300 A 192.0.2.1\nad ns1. 300 AAAA 2001:db8::1"},
	{"child", "DS", "NOERROR aa\nan child. 300 DS 12345 13 2 000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F"},
	{"plain", "DS", "NOERROR aa" + soa},
	{"viacut", "A", "NOERROR aa\nan viacut. 300 CNAME host.child.example.test.\nns child. 300 NS ns.child.example.test.\nns child. 300 NS ns1.example.test.\nad ns.child. 300 A 192.0.2.8\nad ns1. 300 A 192.0.2.1\nad ns1. 300 AAAA 2001:db8::1"},
	{"web", "ANY", "NOERROR aa\nan web. 3600 HINFO \"RFC8482\" \"\""},
	{"ent", "ANY", "NOERROR aa" + soa},
	{"www", "ANY", "NOERROR aa\nan www. 300 CNAME web.example.test."},
	{"x.wild", "ANY", "NOERROR aa\nan x.wild. 3600 HINFO \"RFC8482\" \"\""},
	{"cdn", "A", "NOERROR aa\nan cdn. 20 A 198.51.100.1\nan cdn. 20 A 198.51.100.2"},
	{"cdn", "AAAA", "NOERROR aa\nan cdn. 20 AAAA 2001:db8:1::1"},
	{"cdn", "HTTPS", "NOERROR aa\nan cdn. 20 HTTPS 1 . alpn=\"h2\" ipv4hint=\"198.51.100.1,198.51.100.2\" ipv6hint=\"2001:db8:1::1\""},
	{"cdn", "TXT", "NOERROR aa" + soa},
	{"four", "AAAA", "NOERROR aa" + soa},
	{"four", "HTTPS", "NOERROR aa" + soa},
	{"dead", "A", "SERVFAIL"},
	{"img1.many", "A", "NOERROR aa\nan img1.many. 20 A 198.51.100.1\nan img1.many. 20 A 198.51.100.2"},
	{"toroute", "A", "NOERROR aa\nan toroute. 300 CNAME cdn.example.test.\nan cdn. 20 A 198.51.100.1\nan cdn. 20 A 198.51.100.2"},
	{"toroute", "MX", "NOERROR aa\nan toroute. 300 CNAME cdn.example.test." + soa},
}

func TestAnswers(t *testing.T) {
	w := testServer(t, Options{}).Worker()
	for _, tt := range answers {
		t.Run(tt.name+" "+tt.kind, func(t *testing.T) {
			name := tt.name + ".example.test."
			if tt.name == "" {
				name = "example.test."
			}
			got := strings.ReplaceAll(lines(exchange(t, w, ask(name, tt.kind), false)), "\t", " ")
			if got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

// TestRefusals: what is not answered gets a code, and no more.
func TestRefusals(t *testing.T) {
	w := testServer(t, Options{}).Worker()
	for _, tt := range []struct {
		name string
		m    func(*dns.Msg)
		want string
	}{
		{"a foreign name", func(m *dns.Msg) { m.Question[0].Name = "example.org." }, "REFUSED"},
		{"the root", func(m *dns.Msg) { m.Question[0].Name = "." }, "REFUSED"},
		{"a name beside the zone", func(m *dns.Msg) { m.Question[0].Name = "notexample.test." }, "REFUSED"},
		{"DS of the zone itself", func(m *dns.Msg) { m.Question[0] = dns.Question{Name: "example.test.", Qtype: dns.TypeDS, Qclass: 1} }, "NOERROR aa" + soa},
		{"CHAOS", func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassCHAOS }, "REFUSED"},
		{"a transfer", func(m *dns.Msg) { m.Question[0] = dns.Question{Name: "example.test.", Qtype: dns.TypeAXFR, Qclass: 1} }, "REFUSED"},
		{"NOTIFY", func(m *dns.Msg) { m.Opcode = dns.OpcodeNotify }, "NOTIMP"},
		{"UPDATE", func(m *dns.Msg) { m.Opcode = dns.OpcodeUpdate }, "NOTIMP"},
		{"no question", func(m *dns.Msg) { m.Question = nil }, "FORMERR"},
		{"two questions", func(m *dns.Msg) { m.Question = append(m.Question, m.Question[0]) }, "FORMERR"},
		{"an answer", func(m *dns.Msg) { m.Response = true }, "nothing"},
		{"TSIG", func(m *dns.Msg) { m.SetTsig("key.", dns.HmacSHA256, 300, time.Now().Unix()) }, "NOTAUTH"},
		{"EDNS 1", func(m *dns.Msg) { m.SetEdns0(1232, false); m.IsEdns0().SetVersion(1) }, "BADVERS"},
		{"two OPT records", func(m *dns.Msg) { m.SetEdns0(1232, false); m.Extra = append(m.Extra, m.Extra[0]) }, "FORMERR"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := ask("web.example.test.", "A")
			tt.m(m)
			a := exchange(t, w, m, false)
			got := strings.ReplaceAll(lines(a), "\t", " ")
			if got == "BADSIG" {
				got = "BADVERS" // the library's other name of 16
			}
			if got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}
