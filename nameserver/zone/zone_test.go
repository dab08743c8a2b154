package zone

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/miekg/dns"
)

const start = "$TTL 300\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n" // five lines with what is added

func parse(text string, routed ...string) (*Zone, error) {
	names := make(map[string]string)
	for _, name := range routed {
		names[name] = "service"
	}
	return Parse(fstest.MapFS{"z": {Data: []byte(text)}}, Options{Origin: "example.test.", File: "z", Routed: names})
}

// TestMistakes: each mistake has its place, and says what is wrong.
func TestMistakes(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"nothing", "", "z:1: the zone example.test. has no SOA record\nz:1: the zone example.test. has no NS record at its own name"},
		{"no NS", "@ 60 SOA ns h 1 2 3 4 5\n", "z:1: the zone example.test. has no NS record at its own name"},
		{"an address that is none", start + "a A 192.0.2.256\n", `z:5:15: "192.0.2.256" is wrong in the data of a record of type A (write: www A 192.0.2.1)`},
		{"an unknown type", start + "a ADDRESS 192.0.2.1\n", `z:5:10: "ADDRESS" is neither a type of record nor a time to live (write: name, time to live, type, data, as in www 3600 A 192.0.2.1)`},
		{"a bad time", start + "$TTL never\n", `z:5:10: "never" is no value of $TTL (write: $TTL 3600)`},
		{"an unbalanced bracket", start + "a TXT ( \"x\"\n", "z:5"},
		{"outside", start + "other.test. A 192.0.2.1\n", "z:5: other.test. is outside of the zone example.test. (a name of the zone, or another file)"},
		{"a name that only ends alike", start + "notexample.test. A 192.0.2.1\n", "z:5: notexample.test. is outside of the zone example.test. (a name of the zone, or another file)"},
		{"another class", start + "a CH A 192.0.2.1\n", "z:5"},
		{"an alias with other data", start + "a CNAME ns\na TXT x\n", "z:5: a.example.test. is an alias (CNAME) and has other records too (RFC 1034, section 3.6.2)"},
		{"two aliases", start + "a CNAME ns\na CNAME b\n", "z:6: a.example.test. has more than one CNAME"},
		{"an alias at the top", start + "@ CNAME ns\n", "z:2: example.test. is an alias (CNAME) and has other records too (RFC 1034, section 3.6.2)"},
		{"a loop", start + "a CNAME b\nb CNAME a\n", "z:5: a.example.test. is an alias that leads nowhere: more than 16 aliases in a row, or a loop\n" +
			"z:6: b.example.test. is an alias that leads nowhere: more than 16 aliases in a row, or a loop"},
		{"a second SOA", start + "@ SOA ns h 2 2 3 4 5\n", "z:5: example.test. has more than one SOA"},
		{"a SOA elsewhere", start + "a SOA ns h 2 2 3 4 5\n", "z:5: a SOA at a.example.test.: the zone is example.test."},
		{"no glue", start + "child NS ns.child\n", "z:5: child.example.test. NS leads to ns.child.example.test., which has no address in this zone"},
		{"a name server without an address", start + "@ NS ns2\n", "z:2: example.test. NS leads to ns2.example.test., which has no address in this zone"},
		{"DS without a delegation", start + "a DS 1 13 2 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n", "z:5: a.example.test. has DS records, but no NS records: it is no delegation"},
		{"a delegated wildcard", start + "*.a NS ns\n", "z:5: *.a.example.test.: a wildcard cannot be delegated (RFC 4592, section 4.2)"},
		{"signatures", start + "a NSEC b A\n", "z:5: a.example.test. NSEC: signatures are made when a question is answered (leave it out, and give the zone keys in keys:)"},
		{"DNAME", start + "a DNAME b\n", "z:5: a.example.test. DNAME is not served (a CNAME at each name, or at a wildcard)"},
		{"a time above all", start + "a 4000000000 A 192.0.2.1\n", "z:5: a.example.test. A: the TTL"},
		{"data that is missing", start + "a MX 10\n", "z:5:5: the data of this MX record is incomplete (write: @ MX 10 mail)"},
		{"no time to live", "@ SOA ns h 1 2 3 4 5\nns A 192.0.2.1\n", "z:1"},
		{"more data than a record has", start + "a A 192.0.2.1 192.0.2.2\n", `z:5:23: "192.0.2.2" comes after the end of the record's data (remove it`},
		{"a file that is not there", start + "$INCLUDE none\n", `z:5:13: $INCLUDE "none": file does not exist`},
		{"many", start + strings.Repeat("a CH A 192.0.2.1\n", 3), "z:5"},
		{"a record of several lines", start + "\n; remark\nother.test. TXT ( \"a\"\n  \"b\" )\n", "z:7: other.test. is outside of the zone example.test. (a name of the zone, or another file)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parse(tt.text)
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got %v\nwant %s", err, tt.want)
			}
		})
	}
}

func TestRoutedNames(t *testing.T) {
	for _, tt := range []struct{ name, text, routed, want string }{
		{"with an address", start + "cdn A 192.0.2.1\n", "cdn.example.test.", "z:5: cdn.example.test. has A records, but is routed: its addresses are chosen for each client"},
		{"an alias", start + "cdn CNAME ns\n", "cdn.example.test.", "z:5: cdn.example.test. has CNAME records, but is routed"},
		{"elsewhere", start, "cdn.other.test.", "z:1: the routed name cdn.other.test. is outside of the zone example.test."},
		{"delegated", start + "child NS ns\n", "cdn.child.example.test.", "z:1: cdn.child.example.test. is routed, but child.example.test. is delegated to other name servers"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := parse(tt.text, tt.routed); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got %v\nwant %s", err, tt.want)
			}
		})
	}
	z, err := parse(start+"cdn TXT x\n", "cdn.example.test.", "*.cdn.example.test.")
	if err != nil || z.Nodes["\x03cdn\x07example\x04test\x00"].Routed != "service" || z.Nodes["\x01*\x03cdn\x07example\x04test\x00"].Routed != "service" {
		t.Errorf("%v, %v", z, err)
	}
}

func TestWarnings(t *testing.T) {
	z, err := parse(start + "a A 192.0.2.1\na A 192.0.2.1\nb 60 A 192.0.2.1\nb 30 A 192.0.2.2\nc CNAME none\n@ MX 5 c\nd MX 5 none\ne NS ns\ne TXT x\nf.e MX 1 ns\n")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"z:6: a.example.test. A is there twice: once is enough",
		"z:8: b.example.test. A has the TTLs 60 and 30: all get 30 (RFC 2181, section 5.2)",
		"z:2: example.test. MX leads to c.example.test., which is an alias (RFC 2181, section 10.3)",
		"z:9: c.example.test. is an alias of none.example.test., which does not exist",
		"z:11: d.example.test. MX leads to none.example.test., which has no address",
		"z:12: e.example.test. TXT is not served: the name is delegated to other name servers",
		"z:14: f.e.example.test. MX is not served: e.example.test. is delegated to other name servers",
	}
	if got := strings.Join(z.Warnings, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	for _, rr := range z.Nodes["\x01b\x07example\x04test\x00"].Set(dns.TypeA) {
		if rr.Header().Ttl != 30 {
			t.Errorf("%v", rr)
		}
	}
}

// TestInclude: files of the folder and below can be included, and mistakes in them have their places; no way leads outside.
func TestInclude(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("secret", "password A 192.0.2.66\n")
	write("zones/hosts/more", "deep A 192.0.2.3\n")
	write("zones/hosts/web", "; remark\nwww A 192.0.2.2\n$INCLUDE more\n")
	if err := os.Symlink(filepath.Join(dir, "secret"), filepath.Join(dir, "zones/link")); err != nil {
		t.Fatal(err)
	}
	load := func(include string) (*Zone, error) {
		write("zones/z", start+include+"last A 192.0.2.4\n")
		return Load(Options{Origin: "example.test.", File: filepath.Join(dir, "zones/z")})
	}
	z, err := load("$INCLUDE hosts/web sub\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"www.sub", "deep.sub", "last", "ns"} {
		key, _ := KeyOf(name + ".example.test.")
		if z.Nodes[key] == nil {
			t.Errorf("%s is missing", name)
		}
	}
	for _, include := range []string{"../secret", "link", filepath.Join(dir, "secret"), "hosts", "/etc/passwd"} {
		_, err := load("$INCLUDE " + include + "\n")
		if err == nil || !strings.HasPrefix(err.Error(), filepath.Join(dir, "zones/z")+":5:") || !strings.Contains(err.Error(), "$INCLUDE ") || strings.Contains(err.Error(), "password") {
			t.Errorf("%s: %v", include, err)
		}
	}
	write("zones/hosts/web", "\n\nwww A 192.0.2.2\nother.test. A 192.0.2.3\n")
	if _, err := load("$INCLUDE hosts/web\n"); err == nil || err.Error() != filepath.Join(dir, "zones/hosts/web")+":4: other.test. is outside of the zone example.test. (a name of the zone, or another file)" {
		t.Errorf("%v", err)
	}
	write("zones/hosts/web", "\nwww A nonsense\n")
	if _, err := load("$INCLUDE hosts/web\n"); err == nil || !strings.HasPrefix(err.Error(), filepath.Join(dir, "zones/hosts/web")+":2:") {
		t.Errorf("%v", err)
	}
	write("zones/hosts/web", "$INCLUDE web\n")
	if _, err := load("$INCLUDE hosts/web\n"); err == nil || !strings.Contains(err.Error(), "too deeply nested $INCLUDE") {
		t.Errorf("%v", err)
	}
}

func TestAll(t *testing.T) {
	z, err := parse("$TTL 60\nns A 192.0.2.1\n" + strings.Replace(start, "ns A 192.0.2.1\n", "", 1))
	if err != nil {
		t.Fatal(err)
	}
	var types []string
	for rr := range z.All {
		types = append(types, dns.TypeToString[rr.Header().Rrtype])
	}
	if got := strings.Join(types, " "); got != "SOA A NS" {
		t.Errorf("%s", got)
	}
}

func TestKeys(t *testing.T) {
	for _, tt := range []struct {
		name, within string
		is           bool
	}{{"a.b.", "b.", true}, {"b.", "b.", true}, {"ab.", "b.", false}, {"B.A.", "a.", true}, {"x.", ".", true}, {".", "x.", false}} {
		name, _ := KeyOf(tt.name)
		within, _ := KeyOf(tt.within)
		if name.Within(within) != tt.is {
			t.Errorf("%s within %s is not %v", tt.name, tt.within, tt.is)
		}
	}
	if _, err := KeyOf(strings.Repeat("x", 64) + "."); err == nil {
		t.Error("a label of 64 octets")
	}
	if k, err := KeyOf(`a\.B\000.c.`); err != nil || k != "\x04a.b\x00\x01c\x00" || k.String() != `a\.b\000.c.` {
		t.Errorf("%q, %v", k, err)
	}
}
