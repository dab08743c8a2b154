package policy_test

import (
	"bytes"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/maxmind/mmdbwriter"
	"github.com/maxmind/mmdbwriter/mmdbtype"

	"baton/policy"
)

// entry is a network of a database as GeoLite2 City has them.
type entry struct {
	network, country, city string
	latitude, longitude    float64
}

var places = []entry{
	{"192.0.2.0/24", "AT", "Graz", 47.07, 15.44},
	{"198.51.100.0/25", "CZ", "", 50.08, 14.44},
	{"198.51.100.128/25", "CZ", "", 0, 0},
	{"2001:db8:7::/48", "SK", "Košice", 48.72, 21.26},
}

func database(t testing.TB, entries []entry) []byte {
	t.Helper()
	tree, err := mmdbwriter.New(mmdbwriter.Options{DatabaseType: "GeoLite2-City", IncludeReservedNetworks: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		r := mmdbtype.Map{"country": mmdbtype.Map{"iso_code": mmdbtype.String(e.country)}}
		if e.city != "" {
			r["city"] = mmdbtype.Map{"names": mmdbtype.Map{"en": mmdbtype.String(e.city), "de": mmdbtype.String("anders")}}
		}
		if e.latitude != 0 {
			r["location"] = mmdbtype.Map{"latitude": mmdbtype.Float64(e.latitude), "longitude": mmdbtype.Float64(e.longitude)}
		}
		_, network, err := net.ParseCIDR(e.network)
		if err != nil {
			t.Fatal(err)
		}
		if err := tree.Insert(network, r); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	if _, err := tree.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// clock gives each write its own time, as two in one tick of the file system's would look alike.
var clock = time.Unix(1e9, 0)

func write(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	clock = clock.Add(time.Second)
	if err := os.Chtimes(path, clock, clock); err != nil {
		t.Fatal(err)
	}
}

func load(t *testing.T, before *policy.Policy, dir, more string) *policy.Policy {
	t.Helper()
	p, err := policy.Load(*parse(t, strings.Replace(two, "    clients: [10.12.0.0/16]\n", "", 1)+strings.ReplaceAll(more, "DIR", dir)).Config(), before)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestGeo(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "geo"), database(t, places))
	s := load(t, nil, dir, "geo: DIR/geo\ncountries: {SK: bratislava}\n").State(nil, nil, nil)
	tests := []struct {
		client, site string
		scope        int
		why          string
	}{
		{"192.0.2.9", "wien", 24, "192.0.2.9 is in Graz, AT: nearest site wien, 145 km"},
		{"198.51.100.1", "praha", 25, "198.51.100.1 is in CZ: nearest site praha, 0 km"},
		{"198.51.100.200", "praha", 25, "198.51.100.200 is in CZ, and no site's distance from there is known"},
		{"2001:db8:7::1", "bratislava", 48, "2001:db8:7::1 is in Košice, SK: country SK -> site bratislava"},
		{"203.0.113.1", "praha", 5, "the database does not have 203.0.113.1"},
		{"10.11.0.1", "bratislava", 24, "coverage zone 10.11.0.0/24 -> site bratislava"},
	}
	for _, tt := range tests {
		d := s.Explain(&policy.Query{Client: client(tt.client)})
		if d.Site == nil || d.Site.Name != tt.site || !slices.Contains(d.Because, tt.why) || d.Scope < tt.scope {
			t.Errorf("%s: %+v, scope %d, because %q, want %s for %d, because %q", tt.client, d.Site, d.Scope, d.Because, tt.site, tt.scope, tt.why)
		}
	}
}

func TestGeoOfIPv4Alone(t *testing.T) {
	tree, err := mmdbwriter.New(mmdbwriter.Options{IPVersion: 4, RecordSize: 24})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := tree.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	geo, err := policy.OpenGeo(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range []string{"2001:db8::1", "192.0.2.1"} {
		if at, ok := geo.Find(netip.MustParseAddr(a)); ok {
			t.Errorf("%s is in %v", a, at)
		}
	}
}

const czf = `{"coverageZones": {
	"wien": {"network": ["10.12.0.0/16", "10.11.0.0/24"]},
	"graz": {"network": ["10.14.0.0/16"], "coordinates": {"latitude": 47.07, "longitude": 15.44}},
	"nowhere": {"network": ["10.15.0.0/16"]}}}`

// site returns the site of a client, and the first reason.
func siteOf(p *policy.Policy, address string) (site, why string) {
	d := p.State(nil, nil, nil).Explain(&policy.Query{Client: client(address)})
	return d.Site.Name, d.Because[0]
}

func TestCoverage(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "czf"), []byte(czf))
	write(t, filepath.Join(dir, "near"), []byte(`{"coverageZones": {"wein": {"network": ["10.99.0.0/16"]}}}`))
	p := load(t, nil, dir, "coverage: DIR/czf\n")
	for _, tt := range []struct{ client, site, why string }{
		{"10.12.3.4", "wien", "coverage zone 10.12.0.0/16 -> site wien"},
		{"10.11.0.1", "bratislava", "coverage zone 10.11.0.0/24 -> site bratislava"}, // the configuration is above the file
		{"10.14.0.1", "wien", "coverage zone 10.14.0.0/16 of graz, which is no site -> nearest site wien"},
		{"10.15.0.1", "praha", "no coverage zone has 10.15.0.1"},
	} {
		if site, why := siteOf(p, tt.client); site != tt.site || why != tt.why {
			t.Errorf("%s: %s, %q, want %s, %q", tt.client, site, why, tt.site, tt.why)
		}
	}
	if zones := p.Zones(); len(zones) != 4 { // bratislava's two, and wien's and graz's
		t.Errorf("zones %v", zones)
	}
	if w := load(t, nil, dir, "coverage: DIR/near\n").Warnings(); len(w) != 1 || !strings.HasSuffix(w[0], "no site near it is known (did you mean wien?)") {
		t.Errorf("warnings %q", w)
	}
	if w := p.Warnings(); len(w) != 1 || !strings.HasSuffix(w[0], `czf: 1 zones of "nowhere" are not used: the policy has no such site, and no site near it is known`) {
		t.Errorf("warnings %q", w)
	}
}

// TestLocationsOfCoverage: coordinates of a zone locate its site, unless the policy does.
func TestLocationsOfCoverage(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "czf"), []byte(`{"coverageZones": {"a": {"coordinates": {"latitude": 48.15, "longitude": 17.11}},
		"b": {"coordinates": {"latitude": -33.9, "longitude": 151.2}}, "x": {"network": ["10.0.0.0/8"], "coordinates": {"latitude": 48.2, "longitude": 16.4}}}}`))
	for text, want := range map[string]string{"": "a", "location: {latitude: 48.21, longitude: 16.37}, ": "b"} {
		p, err := policy.Load(*parse(t, "sites: {a: {surrogates: {s1: }}, b: {"+text+"surrogates: {s2: }}}\ndefault: none\ncoverage: "+dir+"/czf").Config(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if site, why := siteOf(p, "10.0.0.1"); site != want {
			t.Errorf("%q: %s, because %s", text, site, why)
		}
	}
}

// TestReload: a file that changes is read anew, one that is broken or gone is not used, and what was there stays.
func TestReload(t *testing.T) {
	dir := t.TempDir()
	zones, geo := filepath.Join(dir, "czf"), filepath.Join(dir, "geo")
	write(t, zones, []byte(czf))
	whole := database(t, places)
	write(t, geo, whole)
	more := "coverage: DIR/czf\ngeo: DIR/geo\n"
	p := load(t, nil, dir, more)
	if p.Changed() {
		t.Error("nothing has changed, and Changed says so")
	}
	write(t, zones, []byte(strings.Replace(czf, "10.12", "10.99", 1)))
	if !p.Changed() {
		t.Error("a file has changed, and Changed does not say so")
	}
	p = load(t, p, dir, more)
	if site, why := siteOf(p, "10.99.0.1"); site != "wien" || p.Changed() {
		t.Errorf("after the change: %s, %s, changed %v", site, why, p.Changed())
	}
	for _, broken := range []struct {
		name, file string
		data       []byte // nil: removed
		want       string
	}{
		{"zones", zones, []byte(strings.Replace(czf, "10.12.0.0/16", "10.12.0.0/33", 1)), `czf:2: coverageZones.wien.network[0]: "10.12.0.0/33" is not address/length`},
		{"no zones", zones, nil, "no such file"},
		{"half a database", geo, whole[:len(whole)/2], "is not a database"},
		{"a database with a broken record", geo, bytes.Replace(whole, []byte("\x42AT"), []byte("\x5fAT"), 1), "is a broken database"},
		{"a database with a hole", geo, slices.Concat(make([]byte, 300), whole[300:]), "is a broken database"},
		{"no database", geo, nil, "no such file"},
	} {
		t.Run(broken.name, func(t *testing.T) {
			good, err := os.ReadFile(broken.file)
			if err != nil {
				t.Fatal(err)
			}
			if broken.data != nil {
				write(t, broken.file, broken.data)
			} else if err := os.Remove(broken.file); err != nil {
				t.Fatal(err)
			}
			p = staysInForce(t, p, broken.want)
			write(t, broken.file, good)
			if p, err = policy.Load(*p.Config(), p); err != nil || p.Changed() {
				t.Errorf("repaired: %v, changed %v", err, p.Changed())
			}
		})
	}
}

// staysInForce loads a policy whose file is broken, twice.
func staysInForce(t *testing.T, p *policy.Policy, want string) *policy.Policy {
	t.Helper()
	for range 2 { // it is still broken when it is looked at again
		next, err := policy.Load(*p.Config(), p)
		if next == nil || err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "its earlier content stays in force") {
			t.Fatalf("%v, want %s", err, want)
		}
		if site, why := siteOf(next, "10.99.0.1"); site != "wien" {
			t.Errorf("%s: %s", site, why)
		}
		if site, why := siteOf(next, "192.0.2.9"); site != "wien" {
			t.Errorf("%s: %s", site, why)
		}
		if next.Changed() {
			t.Error("the broken file has not changed again, and Changed says so")
		}
		p = next
	}
	if none, err := policy.Load(*p.Config(), nil); none != nil || err == nil {
		t.Errorf("without an earlier content: %v, %v", none, err)
	}
	return p
}
