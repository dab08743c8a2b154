package policy

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// czf is the example of Apache Traffic Control's administrator's guide, in form, with other places.
const czf = `{
	"customerName": "Example", "revision": {"number": [1, 2]},
	"coverageZones": {
		"bratislava": {
			"coordinates": {"latitude": 48.15, "longitude": 17.11},
			"network6": ["2001:db8:11::/48", "2001:db8:12::1"],
			"network": ["10.11.0.0/24", "10.11.0.0/24", "10.13.0.1/24"]
		},
		"graz": {
			"coordinates": {"latitude": 47.07, "longitude": 15.44},
			"network": ["10.14.0.0/16"]
		},
		"wien": {"network": ["10.12.0.0/16", "10.11.0.128/25"], "network6": [], "comment": {"by": "me"}},
		"berlin": {"network": ["10.15.0.0/16"]}
	}
}`

func zoneTexts(zones []Zone) (out []string) {
	for _, z := range zones {
		out = append(out, z.Prefix.String()+" "+z.Site)
	}
	slices.Sort(out)
	return out
}

func TestParseCoverage(t *testing.T) {
	want := []string{"10.11.0.0/24 bratislava", "10.11.0.128/25 wien", "10.12.0.0/16 wien", "10.13.0.0/24 bratislava", "10.14.0.0/16 graz", "10.15.0.0/16 berlin",
		"2001:db8:11::/48 bratislava", "2001:db8:12::1/128 bratislava"}
	c, err := parseCoverage("czf.json", []byte("\ufeff"+czf))
	if err != nil || !slices.Equal(zoneTexts(c.zones), want) {
		t.Errorf("%v, %v\nwant %v", zoneTexts(c.zones), err, want)
	}
	if len(c.locations) != 2 || c.locations["graz"] != (Coordinates{47.07, 15.44}) {
		t.Errorf("locations %v", c.locations)
	}
	warnings := []string{
		"czf.json:7: coverageZones.bratislava.network[2]: 10.13.0.1/24 has bits set after its length, and is taken as 10.13.0.0/24",
		"czf.json:13: coverageZones.wien.comment: is not known, and not used",
	}
	if !slices.Equal(c.warnings, warnings) {
		t.Errorf("warnings %q", c.warnings)
	}
	yaml := "zones:\n  bratislava: [10.11.0.0/24, 10.11.0.7, \"2001:db8::/32\"]\n  wien: []\n"
	c, err = parseCoverage("zones.yaml", []byte(yaml))
	if want := []string{"10.11.0.0/24 bratislava", "10.11.0.7/32 bratislava", "2001:db8::/32 bratislava"}; err != nil || !slices.Equal(zoneTexts(c.zones), want) {
		t.Errorf("%v, %v\nwant %v", zoneTexts(c.zones), err, want)
	}
}

func TestRefuseCoverage(t *testing.T) {
	zones := func(s string) string { return "{\n\"coverageZones\": {\n" + s + "}}" }
	tests := []struct{ name, text, want string }{
		{"empty", "", "f:1:1: is empty (zones are needed)"},
		{"no zones", "{}", `f:1: has no coverageZones ({"coverageZones": {"site": {"network": ["192.0.2.0/24"]}}})`},
		{"broken", `{"coverageZones": {`, "f:1: is not JSON: EOF"},
		{"broken in what is skipped", `{"revision": {"a": [1`, "f:1: is not JSON: EOF"},
		{"comma", zones(`"a": {"network": ["10.0.0.0/8",]}`), "f:3: is not JSON: "},
		{"two values", zones("") + "{}", "something follows the zones"},
		{"zones of another kind", `{"coverageZones": [1, {"a": []}]}`, "f:1: coverageZones: is not an object"},
		{"zone of another kind", zones(`"a": 7, "b": {"network": ["x"]}`), "f:3: coverageZones.a: is not an object\nf:3: coverageZones.b.network[0]: \"x\" is not address/length"},
		{"list of another kind", zones(`"a": {"network": "10.0.0.0/8"}`), "coverageZones.a.network: is not a list"},
		{"list of numbers", zones(`"a": {"network": [7]}`), "coverageZones.a.network[0]: is no text (address/length)"},
		{"family", zones(`"a": {"network": ["2001:db8::/32"], "network6": ["10.0.0.0/8"]}`),
			"network[0]: \"2001:db8::/32\" is of the other family (IPv4 in network, IPv6 in network6)\nf:3: coverageZones.a.network6[0]: \"10.0.0.0/8\" is of the other family"},
		{"IPv4 as IPv6", zones(`"a": {"network6": ["::ffff:10.0.0.0/104"]}`), "is not address/length"},
		{"two sites", zones(`"a": {"network": ["10.0.0.0/8"]},` + "\n" + `"b": {"network": ["10.1.0.0/8"]}`), "f:4: coverageZones.b.network[0]: 10.0.0.0/8 is a zone of a already (one site)"},
		{"site twice", zones(`"a": {}, "a": {}`), "coverageZones.a: is there twice"},
		{"site without a name", zones(`"": {}`), `coverageZones."": has no name`},
		{"coordinates", zones(`"a": {"coordinates": {"latitude": 91, "longitude": "17"}}`),
			"coverageZones.a.coordinates.latitude: is out of range (degrees from -90 to 90)\nf:3: coverageZones.a.coordinates.longitude: is out of range (degrees from -180 to 180)"},
		{"YAML", "zones: {a: [10.0.0.1/8]}", `f:1:13: zones.a[0]: "10.0.0.1/8" has bits set after its length (10.0.0.0/8)`},
		{"YAML with another key", "zoons: {a: [10.0.0.0/8]}", "f:1:1: zoons: is not a key (did you mean zones?)"},
		{"YAML with a zone of two sites", "zones: {a: [10.0.0.0/8], b: [10.0.0.0/8]}", `zones.b[0]: "10.0.0.0/8" is a zone of a already (one site)`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := parseCoverage("f", []byte(tt.text))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %s", err, tt.want)
			}
			if strings.Count(err.Error(), "is not JSON") > 1 {
				t.Errorf("one mistake is reported several times: %v", err)
			}
			if len(c.zones) > 0 {
				t.Errorf("a broken file has zones: %v", c.zones)
			}
		})
	}
}

func FuzzParseCoverage(f *testing.F) {
	for _, s := range []string{czf, "zones: {a: [10.0.0.0/8]}", `{"coverageZones": {"a": {"network": [1, {"b": []}]}}}`, "{", `{"coverageZones":{"a":{"coordinates":{"latitude":1e999}}}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := parseCoverage("f", data)
		if err != nil && (len(c.zones) > 0 || !strings.HasPrefix(err.Error(), "f:")) {
			t.Errorf("%d zones and %v", len(c.zones), err)
		}
		seen := make(map[netip.Prefix]bool)
		for _, z := range c.zones {
			if seen[z.Prefix] || !z.Prefix.IsValid() || z.Prefix != z.Prefix.Masked() || z.Prefix.Addr().Is4In6() {
				t.Errorf("zone %v", z)
			}
			seen[z.Prefix] = true
		}
		p, err := compile(Config{Sites: []Site{{Name: "a"}}}, files{coverage: c})
		if err != nil {
			t.Fatal(err)
		}
		for _, z := range p.Zones() {
			if i, _ := p.zones.find(z.Prefix.Addr()); i < 0 {
				t.Errorf("the table does not have %v", z)
			}
		}
	})
}
