package dnsrate

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"baton/experiments"
	"baton/experiments/experimentstest"
	"baton/lab"
)

// TestRun: all servers answer all queries, with the code that the names have. How fast depends on the machine.
func TestRun(t *testing.T) {
	lab.NeedRoot(t)
	r, err := Experiment().Run(t.Context(), experiments.Options{Quick: true, Duration: time.Second, Program: experimentstest.Programs(t), Progress: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Samples) != 7 {
		t.Errorf("%d samples", len(r.Samples))
	}
	for _, s := range r.Samples {
		if s.Value <= 0 || s.CPU == nil || s.CPU.Contender <= 0 {
			t.Errorf("%+v", s)
		} else {
			t.Logf("%s %s: %.0f a second, %.2f µs of the server's processor each, %d lost", s.Contender, s.Measure, s.Value, s.CPU.Contender*1e6, s.Errors)
		}
	}
}

// sample is a zone with all that is answered in a way of its own.
const zoneText = `$ORIGIN bench.test.
$TTL 300
@        SOA   ns1 hostmaster 7 3600 600 86400 60
         NS    ns1
         NS    ns2.elsewhere.test.
         MX    10 mail
         MX    20 mail.elsewhere.test.
         TXT   "v=spf1 -all" "second"
         CAA   0 issue "ca.test"
ns1      A     10.0.0.2
         AAAA  2001:db8::1
mail     A     192.0.2.2
www      CNAME web
web      A     192.0.2.3
         A     192.0.2.4
         AAAA  2001:db8::3
         HTTPS 1 . alpn=h2,h3 ipv4hint=192.0.2.3 port=8443
svc      SVCB  1 web.bench.test. alpn=h2
out      CNAME www.elsewhere.test.
dangling CNAME nothing
chain    CNAME www
viacut   CNAME host.child
_dns._udp SRV  0 5 53 ns1
a.b.ent  A     192.0.2.5
*.wild   A     192.0.2.6
         TXT   "any"
         MX    5 mail
sub.wild A     192.0.2.7
*.alias  CNAME web
*.self   CNAME x.wild
child    NS    ns.child
         NS    ns1
         DS    12345 13 2 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f
ns.child A     192.0.2.8
plain    NS    ns1
far      NS    ns.elsewhere.test.
large    TXT   "%[1]s" "%[1]s" "%[1]s" "%[1]s" "%[1]s" "%[1]s" "%[1]s" "%[1]s"
`

// TestSameAnswers compares the answers to all names and types of a zone with NSD's and Knot's: code, flags, records of all sections that the standards name.
func TestSameAnswers(t *testing.T) {
	lab.NeedRoot(t)
	l := lab.New(t)
	l.Need("nsd", "knotd", "taskset")
	zone := fmt.Sprintf(zoneText, strings.Repeat("x", 200))
	hosts := make(map[string]*lab.Host)
	baton := baton(filepath.Join(filepath.Dir(experimentstest.Programs(t)), "baton-cdn"), "")
	for name, s := range map[string]server{"nsd": nsd, "knot": knot, "baton": baton} {
		h := l.Host(name)
		l.Link(lab.End{Host: l.Host("beside-" + name)}, lab.End{Host: h, Addrs: []string{address + "/24"}}, lab.LinkOptions{})
		if _, _, err := s.start(h, origin, address, zone); err != nil {
			t.Fatal(err)
		}
		hosts[name] = h
	}
	different := 0
	for _, name := range questions() {
		for _, kind := range []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeNS, dns.TypeMX, dns.TypeTXT, dns.TypeSOA, dns.TypeDS, dns.TypeCNAME, dns.TypeSRV, dns.TypeHTTPS, dns.TypeSVCB, dns.TypeCAA, 65280} {
			for _, network := range []string{"udp", "tcp"} {
				got := make(map[string]string)
				for who, h := range hosts {
					m := new(dns.Msg)
					m.SetQuestion(name, kind)
					a, err := exchange(h, address, network, m)
					if err != nil {
						t.Fatalf("%s: %s %s: %v", who, name, dns.TypeToString[kind], err)
					}
					got[who] = essence(a)
				}
				if (got["baton"] != got["nsd"] && got["baton"] != got["knot"]) && different < 10 {
					different++
					t.Errorf("%s %s over %s:\nbaton %s\n\nnsd %s\n\nknot %s", name, dns.TypeToString[kind], network, got["baton"], got["nsd"], got["knot"])
				} else if got["nsd"] != got["knot"] {
					t.Logf("%s %s over %s: NSD and Knot differ, baton answers as one of them", name, dns.TypeToString[kind], network)
				}
			}
		}
	}
}

// questions are the zone's names, names below and beside them, and others.
func questions() []string {
	words := []string{"", "ns1", "mail", "www", "web", "svc", "out", "dangling", "chain", "viacut", "_dns._udp", "_udp", "a.b.ent", "b.ent", "ent", "wild", "*.wild", "x.wild",
		"sub.wild", "x.sub.wild", "a.b.wild", "alias", "x.alias", "x.self", "child", "ns.child", "host.child", "x.ns.child", "plain", "x.plain", "far", "x.far", "large", "nothing",
		"x.web", "WeB", "*", "x.y.z"}
	var all []string
	for _, w := range words {
		all = append(all, strings.TrimPrefix(w+"."+origin, "."))
	}
	return append(all, "other.test.", ".", "test.")
}

// essence is what an answer must have, in any order. The authority section of answers with data, and additional records but glue, are each server's choice.
func essence(a *dns.Msg) string {
	out := fmt.Sprintf("%s aa=%v tc=%v", dns.RcodeToString[a.Rcode], a.Authoritative, a.Truncated)
	if a.Truncated {
		return out
	}
	referral := a.Rcode == dns.RcodeSuccess && slices.ContainsFunc(a.Ns, func(rr dns.RR) bool { return rr.Header().Rrtype == dns.TypeNS }) &&
		(len(a.Answer) == 0 || a.Answer[len(a.Answer)-1].Header().Rrtype == dns.TypeCNAME && a.Question[0].Qtype != dns.TypeCNAME)
	sections := [][]dns.RR{a.Answer}
	if referral || len(a.Ns) > 0 && a.Ns[0].Header().Rrtype == dns.TypeSOA {
		sections = append(sections, a.Ns)
	}
	if referral {
		sections = append(sections, a.Extra)
	}
	for i, section := range sections {
		var lines []string
		for _, rr := range section {
			if rr.Header().Rrtype != dns.TypeOPT {
				lines = append(lines, fmt.Sprintf("\n%d %s", i, strings.ToLower(rr.String())))
			}
		}
		slices.Sort(lines)
		out += strings.Join(lines, "")
	}
	return out
}
