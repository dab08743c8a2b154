package nameserver

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"baton/api"
)

// keeper is an operator with BIND's tools.
type keeper struct {
	*network
	folder string
}

// key makes a key with times, and returns its name.
func (k *keeper) key(args string) string {
	k.t.Helper()
	lines := strings.Fields(tool(k.t, "dnssec-keygen", append([]string{"-q", "-K", k.folder}, strings.Fields(args+" example.test")...)...))
	return lines[len(lines)-1]
}

func (k *keeper) settime(key, args string) {
	k.t.Helper()
	tool(k.t, "dnssec-settime", append(append([]string{"-K", k.folder}, strings.Fields(args)...), key)...)
}

// anchor is a file that trusts a key.
func (k *keeper) anchor(key string) string {
	k.t.Helper()
	text, err := os.ReadFile(filepath.Join(k.folder, key+".key"))
	if err != nil {
		k.t.Fatal(err)
	}
	rr, err := dns.NewRR(string(text))
	if err != nil {
		k.t.Fatal(err)
	}
	r := rr.(*dns.DNSKEY)
	return k.write(key+".anchor", fmt.Sprintf("trust-anchors { \"example.test.\" static-key %d %d %d %q; };\n", r.Flags, r.Protocol, r.Algorithm, r.PublicKey))
}

// signedBy are the tags of the keys that have signed an answer.
func (k *keeper) signedBy(name string, kind uint16) (tags []string, records int) {
	k.t.Helper()
	m := new(dns.Msg)
	m.SetQuestion(name, kind)
	m.SetEdns0(4096, true)
	a, _, err := (&dns.Client{Net: "tcp", Timeout: patience}).Exchange(m, k.at)
	if err != nil {
		k.t.Fatal(err)
	}
	for _, rr := range a.Answer {
		if sig, ok := rr.(*dns.RRSIG); ok {
			tags = append(tags, fmt.Sprintf("%05d", sig.KeyTag))
		} else {
			records++
		}
	}
	slices.Sort(tags)
	return tags, records
}

// step reloads, and has BIND's validator look at all kinds of answers.
func (k *keeper) step(name string, anchors []string, keys int, top, data []string) {
	k.t.Helper()
	if _, err := k.Reload(); err != nil {
		k.t.Fatal(err)
	}
	tags := func(names []string) (out []string) {
		for _, n := range names {
			out = append(out, n[strings.LastIndexByte(n, '+')+1:])
		}
		slices.Sort(out)
		return out
	}
	if by, n := k.signedBy("example.test.", dns.TypeDNSKEY); n != keys || !slices.Equal(by, tags(top)) {
		k.t.Errorf("%s: %d keys, signed by %v; want %d, %v", name, n, by, keys, tags(top))
	}
	if by, _ := k.signedBy("ns.example.test.", dns.TypeA); !slices.Equal(by, tags(data)) {
		k.t.Errorf("%s: records are signed by %v, want %v", name, by, tags(data))
	}
	port := k.at[strings.LastIndexByte(k.at, ':')+1:]
	for _, anchor := range anchors {
		for question, want := range map[string]string{
			"ns A": "; fully validated", "cdn A": "; fully validated", "cdn HTTPS": "; fully validated", "nothing A": "; negative response, fully validated", "ns TXT": "; negative response, fully validated",
		} {
			q := strings.Fields(question)
			out := tool(k.t, "delv", "@127.0.0.1", "-p", port, "-a", k.anchor(anchor), "+root=example.test", q[0]+".example.test", q[1])
			if !strings.HasPrefix(out, want) && !strings.Contains(out, "\n"+want) {
				k.t.Errorf("%s, %s, by %s: want %q\n%s", name, question, anchor, want, out)
			}
		}
	}
}

// TestRollover: keys that an operator makes and times with BIND's tools take turns, and BIND's validator trusts the zone at each step: a ZSK that is published before it signs,
// a KSK with two signatures, another algorithm, and a key whose successor comes late.
func TestRollover(t *testing.T) {
	n := &network{t: t, dir: t.TempDir(), zones: ", keys: keys"}
	k := &keeper{network: n, folder: filepath.Join(n.dir, "keys")}
	if err := os.Mkdir(k.folder, 0o700); err != nil {
		t.Fatal(err)
	}
	ksk1, zsk1 := k.key("-a ECDSAP256SHA256 -f KSK"), k.key("-a ECDSAP256SHA256")
	n.start("")
	k.step("at first", []string{ksk1}, 2, []string{ksk1}, []string{zsk1})

	zsk2 := k.key("-a ECDSAP256SHA256 -P now -A +1d")
	k.settime(zsk1, "-I +1d -D +2d")
	k.step("a ZSK is published", []string{ksk1}, 3, []string{ksk1}, []string{zsk1})
	k.settime(zsk2, "-A now")
	k.settime(zsk1, "-I now")
	k.step("it signs", []string{ksk1}, 3, []string{ksk1}, []string{zsk2})
	s, err := n.Status()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(s.Zones[0].Keys, func(one api.NameserverKey) bool { return strings.HasSuffix(zsk1, fmt.Sprintf("+%05d", one.Tag)) })
	if one := s.Zones[0].Keys[i]; one.Now != "published" || one.Next != "is removed" || time.Until(*one.At) < 47*time.Hour || one.Role != "ZSK" {
		t.Errorf("%+v", one)
	}
	k.settime(zsk1, "-D now")
	k.step("the old one is removed", []string{ksk1}, 2, []string{ksk1}, []string{zsk2})

	ksk2 := k.key("-a ECDSAP256SHA256 -f KSK -P sync now")
	k.step("a KSK with two signatures", []string{ksk1, ksk2}, 3, []string{ksk1, ksk2}, []string{zsk2})
	for _, kind := range []uint16{dns.TypeCDS, dns.TypeCDNSKEY} {
		if by, n := k.signedBy("example.test.", kind); n != 1 || len(by) != 2 {
			t.Errorf("%s: %d records, signed by %v", dns.TypeToString[kind], n, by)
		}
	}
	k.settime(ksk1, "-I now -D now")
	k.step("the old KSK is removed", []string{ksk2}, 2, []string{ksk2}, []string{zsk2})

	ksk3, zsk3 := k.key("-a ED25519 -f KSK -P +1d -A now"), k.key("-a ED25519 -P +1d -A now")
	k.step("signatures of another algorithm", []string{ksk2}, 2, []string{ksk2, ksk3}, []string{zsk2, zsk3})
	k.settime(ksk3, "-P now")
	k.settime(zsk3, "-P now")
	k.step("keys of another algorithm", []string{ksk2, ksk3}, 4, []string{ksk2, ksk3}, []string{zsk2, zsk3})
	for _, old := range []string{ksk2, zsk2} {
		k.settime(old, "-D now")
	}
	k.step("the old algorithm is gone", []string{ksk3}, 2, []string{ksk3}, []string{zsk3})

	k.settime(zsk3, "-I now")
	k.step("the next ZSK comes late", []string{ksk3}, 2, []string{ksk3}, []string{zsk3})
	for _, end := range []string{ksk3, zsk3} {
		k.settime(end, "-D now")
	}
	if _, err := n.Reload(); err != nil {
		t.Fatal(err)
	}
	if s, _ := n.Status(); s.Zones[0].Signed {
		t.Error("without keys it is signed")
	}
	if by, n := k.signedBy("ns.example.test.", dns.TypeA); len(by) != 0 || n != 1 {
		t.Errorf("not signed any more: %v, %d", by, n)
	}
}
