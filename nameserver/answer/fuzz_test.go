package answer

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"baton/nameserver/zone"
)

// words are labels of names that the test's zone has, and some that it has not.
var words = []string{"web", "www", "x", "wild", "sub", "child", "ns", "ns1", "alias", "cdn", "many", "four", "a", "b", "ent", "_dns", "_udp", "*", "out", "dangling",
	"viacut", "toroute", "mail", "chain", "plain", "WEB", strings.Repeat("l", 63)}

// TestQuickAndSlow: answers that were made before equal those that are made of the records, for all names of up to three labels and all types.
func TestQuickAndSlow(t *testing.T) {
	w := testServer(t, Options{Size: 4096}).Worker()
	z := w.s.tables.Load().zones["\x07example\x04test\x00"]
	kinds := []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeMX, dns.TypeTXT, dns.TypeNS, dns.TypeSOA, dns.TypeDS, dns.TypeHTTPS, dns.TypeCNAME, dns.TypeSRV, dns.TypeANY, 65280}
	names := []string{"example.test."}
	for _, a := range words {
		names = append(names, a+".example.test.")
		for _, b := range words {
			names = append(names, a+"."+b+".example.test.", a+".a."+b+".example.test.")
		}
	}
	quick, slow := make([]byte, 4096), make([]byte, 4096)
	for _, name := range names {
		for _, kind := range kinds {
			raw, err := query(name, kind)
			if err != nil {
				t.Fatal(err)
			}
			n := w.Handle(raw, client, false, quick)
			if w.r.read(raw, client, false) != 0 || n == 0 {
				t.Fatalf("%s: refused", name)
			}
			m := w.slow(slow, z)
			if a, b := whole(t, quick[:n]), whole(t, slow[:m]); a != b {
				t.Fatalf("%s %s: before\n%s\nof the records\n%s", name, dns.TypeToString[kind], a, b)
			}
		}
	}
}

func query(name string, kind uint16) ([]byte, error) {
	m := new(dns.Msg)
	m.SetQuestion(name, kind)
	m.Id = 4711
	return m.Pack()
}

func whole(t testing.TB, raw []byte) string {
	t.Helper()
	var m dns.Msg
	if err := m.Unpack(raw); err != nil {
		t.Fatalf("%v: %x", err, raw)
	}
	return m.String()
}

// FuzzHandle: whatever comes, the answer is a message that the library reads, is not longer than the client takes, repeats the question, and is of the
// query's identifier.
func FuzzHandle(f *testing.F) {
	for _, raw := range queries(f) {
		f.Add(raw)
	}
	for _, q := range []func(*dns.Msg){
		func(m *dns.Msg) { m.SetEdns0(512, true) },
		func(m *dns.Msg) { m.SetEdns0(4096, true); m.IsEdns0().SetVersion(3) },
		func(m *dns.Msg) { m.SetTsig("k.", dns.HmacSHA256, 300, time.Now().Unix()) },
		func(m *dns.Msg) { m.Opcode = dns.OpcodeNotify },
		func(m *dns.Msg) {
			m.SetEdns0(1232, false)
			m.IsEdns0().Option = []dns.EDNS0{
				&dns.EDNS0_SUBNET{Code: dns.EDNS0SUBNET, Family: 1, SourceNetmask: 23, Address: []byte{192, 0, 2, 0}}, &dns.EDNS0_NSID{Code: dns.EDNS0NSID},
			}
		},
		func(m *dns.Msg) { m.Question[0].Name = strings.Repeat("a.", 110) + "wild.example.test." },
		func(m *dns.Msg) {
			m.Ns = []dns.RR{&dns.SOA{Hdr: dns.RR_Header{Name: "x.", Rrtype: dns.TypeSOA, Class: 1}, Ns: ".", Mbox: "."}}
		},
	} {
		m := ask("cdn.example.test.", "A")
		q(m)
		raw, err := m.Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	signed := testZone(f, text)
	signed.Signer, _ = testSigner(f)
	plain := testServer(f, Options{Cookies: NewCookies(), Subnet: true, NSID: "ns1"})
	both := []*Server{plain, testServer(f, Options{Cookies: NewCookies(), Subnet: true}, signed)}
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, s := range both {
			for _, tcp := range []bool{false, true} {
				w := &Worker{s: s}
				out := make([]byte, s.o.Size)
				if tcp {
					out = make([]byte, maxMessage)
				}
				before := bytes.Clone(raw)
				n := w.Handle(raw, client, tcp, out)
				if !bytes.Equal(before, raw) {
					t.Fatal("the query was changed")
				}
				if n > 0 {
					valid(t, raw, out[:n], tcp)
				}
			}
		}
	})
}

func valid(t *testing.T, raw, out []byte, tcp bool) {
	t.Helper()
	var m dns.Msg
	if err := m.Unpack(out); err != nil {
		t.Fatalf("%v: %x", err, out)
	}
	if !m.Response || out[0] != raw[0] || out[1] != raw[1] {
		t.Fatalf("no answer to it: %v", m)
	}
	if raw[2]&flagQR != 0 {
		t.Fatal("an answer was answered")
	}
	var q dns.Msg
	if len(m.Question) == 1 && q.Unpack(raw) == nil && len(q.Question) == 1 && q.Question[0] != m.Question[0] {
		t.Fatalf("another question: %v", m.Question)
	}
	most := dns.MinMsgSize
	if o := q.IsEdns0(); o != nil {
		most = max(most, int(o.UDPSize()))
	}
	if q.Unpack(raw) == nil && !tcp && len(out) > most {
		t.Fatalf("%d octets, of which the client takes %d", len(out), most)
	}
}

// FuzzZone: a zone file is refused with places, or all its names are answered: quickly as of the records.
func FuzzZone(f *testing.F) {
	f.Add(text)
	f.Add("@ 60 IN SOA . . 1 1 1 1 1\n@ NS ns.else.\n* 0 TXT \"\\255\\\"\"\n*.* MX 0 *\nx CNAME *.y\n*.y CNAME y\n")
	f.Add("$ORIGIN .\nexample.test SOA a b 1 2 3 4 5\nexample.test NS a.\n$TTL 1w\n$INCLUDE other\n")
	f.Add("@ 0 SOA 0 0 0 0 0 0 0\n NS 0.\n* MB ")
	f.Add("@ 0 SOA 0 0 0 0 0 0 0\n NS 0.\n* MX 0")
	f.Add("$GENERATE 1-3 a$ A 10.0.0.$\n@ SOA a b (1 2 3\n 4 5)\n@ NS a1\n\\000\\.x 5 A 1.2.3.4\n")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4096 || strings.Contains(text, "$GENERATE") && len(text) > 200 {
			return
		}
		z, err := parse(text)
		if err != nil {
			for line := range strings.SplitSeq(err.Error(), "\n") {
				if !strings.HasPrefix(line, "z:") {
					t.Fatalf("a mistake without a place: %q", line)
				}
			}
			return
		}
		tables, err := Compile([]*Zone{{Data: z, Routes: choices}})
		if err != nil {
			return // more records than a message has room for
		}
		s := New(Options{Size: 1232})
		s.Set(tables)
		w := s.Worker()
		for key := range z.Nodes {
			for _, below := range []zone.Key{key, "\x01y" + key} {
				if len(below) > maxName {
					continue
				}
				raw, err := query(below.String(), dns.TypeA)
				if err != nil {
					t.Fatal(err)
				}
				quick, slow := make([]byte, maxMessage), make([]byte, maxMessage)
				n := w.Handle(raw, client, true, quick)
				w.r.read(raw, client, true)
				if m := w.slow(slow, tables.zones[z.Key]); whole(t, quick[:n]) != whole(t, slow[:m]) {
					t.Fatalf("%s: before\n%s\nof the records\n%s", below, whole(t, quick[:n]), whole(t, slow[:m]))
				}
			}
		}
	})
}

// TestFlood: malformed queries of all lengths and shapes are refused or ignored, and good ones after them are answered.
func TestFlood(t *testing.T) {
	w := testServer(t, Options{Cookies: NewCookies(), Subnet: true}).Worker()
	out := make([]byte, 1232)
	for name, raw := range queries(t) {
		for n := range raw {
			w.Handle(raw[:n], client, false, out)
			for _, c := range []byte{0, 1, 63, 64, 0xc0, 0xff} {
				bad := bytes.Clone(raw)
				bad[n] = c
				if k := w.Handle(bad, client, false, out); k > 0 {
					valid(t, bad, out[:k], false)
				}
			}
		}
		if n := w.Handle(raw, client, false, out); n == 0 {
			t.Error(fmt.Sprint(name, " is not answered after the flood"))
		}
	}
}
