package config

import (
	"slices"
	"strings"
	"testing"

	"baton/document/documenttest"
)

// fielded is a file with two VIPs of HTTP and one of TLS, and a pool with fields.
const fielded = `vips:
  - address: "10.9.9.9:80"
    interfaces: [eth0]
    routes: [{pool: web}]
  - address: "10.9.9.9:81"
    interfaces: [eth0]
    routes: [{pool: other}]
  - address: "10.9.9.9:443"
    interfaces: [eth0]
    protocol: tls
    routes: [{match: {sni: a.test}, pool: secure}]
pools:
  web:
    client_address: x-forwarded-for
    surrogates: [{name: a, address: "10.2.1.2:80"}]
  other:
    surrogates: [{name: b, address: "10.2.1.3:80"}]
  secure:
    surrogates: [{name: c, address: "10.2.1.4:443"}]
`

func TestParseFields(t *testing.T) {
	for name, tt := range map[string]struct {
		keys     string
		address  ClientAddress
		mode     AddressMode
		fields   bool
		reuse    Reuse
		replaced string
	}{
		"a field":                {"client_address: x-forwarded-for", XForwardedFor, Replace, true, ReuseAlways, "x-forwarded-for"},
		"in another case":        {"client_address: X-Real-IP", XRealIP, Replace, true, ReuseAlways, "x-real-ip"},
		"appended":               {"client_address: forwarded\n    client_address_mode: append", Forwarded, Append, true, ReuseAlways, ""},
		"a name":                 {"client_address: X-Client-IP", "x-client-ip", Replace, true, ReuseAlways, "x-client-ip"},
		"more fields":            {"client_address: forwarded\n    add_fields: [x-request-id, x-forwarded-proto]", Forwarded, Replace, true, ReuseAlways, "forwarded x-request-id x-forwarded-proto"},
		"other fields alone":     {"add_fields: [x-request-id]\n    reuse: safe", "", "", true, ReuseSafe, "x-request-id"},
		"a header":               {"client_address: proxy-v2", ProxyV2, "", false, ReuseNever, ""},
		"the longest name":       {"client_address: " + strings.Repeat("x", 40), ClientAddress(strings.Repeat("x", 40)), Replace, true, ReuseAlways, strings.Repeat("x", 40)},
		"odd letters of a token": {"client_address: x!#$%&'*+.^|~", "x!#$%&'*+.^|~", Replace, true, ReuseAlways, "x!#$%&'*+.^|~"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, err := Parse("f", []byte(strings.Replace(fielded, "client_address: x-forwarded-for", tt.keys, 1)))
			if err != nil {
				t.Fatal(err)
			}
			p := &cfg.Pools[0]
			if p.ClientAddress != tt.address || p.AddressMode != tt.mode || p.HasFields() != tt.fields || p.Reuse != tt.reuse {
				t.Errorf("%q, mode %q, fields %v, reuse %s", p.ClientAddress, p.AddressMode, p.HasFields(), p.Reuse)
			}
			want := strings.Fields(tt.replaced)
			if got := cfg.ReplacedAt(&cfg.VIPs[0]); !slices.Equal(got, want) {
				t.Errorf("replaced %q, want %q", got, want)
			}
			if got := cfg.ReplacedAt(&cfg.VIPs[1]); len(got) != 0 {
				t.Errorf("replaced at the other VIP: %q", got)
			}
			held := map[bool]Pipelining{true: PipeliningHold, false: PipeliningPass}
			if got := cfg.VIPs[0].Pipelining; got != held[tt.fields] {
				t.Errorf("pipelining %q", got)
			}
			if got := cfg.VIPs[1].Pipelining; got != PipeliningPass {
				t.Errorf("pipelining of the other VIP %q", got)
			}
		})
	}
}

func TestRefuseFields(t *testing.T) {
	const key = "client_address: x-forwarded-for"
	ways := "proxy-v1, proxy-v2, x-forwarded-for, forwarded, x-real-ip or the name of a field"
	address := func(s string) [2]string { return [2]string{key, "client_address: " + s} }
	for name, tt := range map[string]struct {
		change [2]string
		want   string
	}{
		"misspelt":            {address("x-fowarded-for"), `f:14:21: pools.web.client_address: "x-fowarded-for" is not a way to tell the client's address (did you mean x-forwarded-for?)`},
		"with an underscore":  {address("proxy_v2"), `f:14:21: pools.web.client_address: "proxy_v2" is not a way to tell the client's address (did you mean proxy-v2?)`},
		"a version too far":   {address("proxy-v3"), `f:14:21: pools.web.client_address: "proxy-v3" is not a way to tell the client's address (did you mean proxy-v1?)`},
		"no version":          {address("proxy"), `f:14:21: pools.web.client_address: "proxy" is not a way to tell the client's address (did you mean proxy-v2?)`},
		"the proxy's own":     {address("Proxy-Authorization"), `f:14:21: pools.web.client_address: "Proxy-Authorization" is not a way to tell the client's address (did you mean proxy-v2?)`},
		"another part's":      {address("transparent"), `f:14:21: pools.web.client_address: "transparent" is not a way to tell the client's address (` + ways + `; none without client_address)`},
		"none":                {address("none"), `f:14:21: pools.web.client_address: "none" is not a way to tell the client's address (` + ways + `; none without client_address)`},
		"not a token":         {address(`"client address"`), `f:14:21: pools.web.client_address: "client address" is not the name of a field (such as x-client-ip)`},
		"with a colon":        {address(`"X-Client:"`), `f:14:21: pools.web.client_address: "X-Client:" is not the name of a field (such as x-client-ip)`},
		"not ASCII":           {address("x-klient-äddress"), `f:14:21: pools.web.client_address: "x-klient-äddress" is not the name of a field (such as x-client-ip)`},
		"too long":            {address(strings.Repeat("x", 41)), `f:14:21: pools.web.client_address: "` + strings.Repeat("x", 41) + `" is longer than 40 bytes (a shorter name)`},
		"Host":                {address("Host"), `f:14:21: pools.web.client_address: "Host" has a meaning of its own in a request (x-forwarded-for, or another name such as x-client-ip)`},
		"framing":             {address("content-length"), `f:14:21: pools.web.client_address: "content-length" has a meaning of its own in a request (x-forwarded-for, or another name such as x-client-ip)`},
		"transfer coding":     {address("Transfer-Encoding"), `f:14:21: pools.web.client_address: "Transfer-Encoding" has a meaning of its own in a request (x-forwarded-for, or another name such as x-client-ip)`},
		"a field to add":      {address("x-request-id"), `f:14:21: pools.web.client_address: "x-request-id" is not the field of an address (add_fields: [x-request-id])`},
		"empty":               {address(`""`), `f:14:21: pools.web.client_address: is empty (at least one character)`},
		"a list":              {address("[x-real-ip]"), `f:14:21: pools.web.client_address: is a list (a single value; quote it when it begins with [ or {)`},
		"another mode":        {[2]string{key, key + "\n    client_address_mode: prepend"}, `f:15:26: pools.web.client_address_mode: "prepend" is not a mode (replace or append)`},
		"a mode of nothing":   {[2]string{key, "client_address_mode: append"}, `f:14:26: pools.web.client_address_mode: is without client_address (client_address: x-forwarded-for)`},
		"a mode of a header":  {[2]string{key, "client_address: proxy-v2\n    client_address_mode: append"}, `f:15:26: pools.web.client_address_mode: is for fields, and proxy-v2 is a header in front of a connection (no mode: a client cannot send that header)`},
		"fields and a header": {[2]string{key, "client_address: proxy-v1\n    add_fields: [x-request-id]"}, `f:15:17: pools.web.add_fields: cannot be combined with proxy-v1: a connection gets that header, or its requests get fields (a field such as x-forwarded-for as client_address, or no add_fields)`},
		"a field misspelt":    {[2]string{key, "add_fields: [x-request-ID]"}, `f:14:18: pools.web.add_fields[0]: "x-request-ID" is not a field that the router can add (did you mean x-request-id?)`},
		"a field unknown":     {[2]string{key, "add_fields: [x-forwarded-host]"}, `f:14:18: pools.web.add_fields[0]: "x-forwarded-host" is not a field that the router can add (x-forwarded-proto or x-request-id)`},
		"a field twice":       {[2]string{key, "add_fields: [x-request-id, x-request-id]"}, `f:14:32: pools.web.add_fields[1]: "x-request-id" is there twice (each value once)`},
		"reuse with a header": {[2]string{key, "client_address: proxy-v2\n    reuse: safe"}, `f:15:12: pools.web.reuse: safe shares connections, and client_address: proxy-v2 is sent once per connection (never, or no reuse)`},
		"pipelining":          {[2]string{"routes: [{pool: web}]", "pipelining: pass\n    routes: [{pool: web}]"}, `f:4:17: vips[0].pipelining: pass lets requests follow unseen, without the fields of pool "web" on line 14 (hold, or no pipelining)`},
		"a VIP of TLS":        {[2]string{"  secure:\n", "  secure:\n    client_address: x-real-ip\n"}, `f:19:21: pools.secure.client_address: x-real-ip is for requests of HTTP, and those of the VIP on line 8 are encrypted by protocol tls (proxy-v2, or a pool for each)`},
		"more fields at TLS":  {[2]string{"  secure:\n", "  secure:\n    add_fields: [x-request-id]\n"}, `f:19:17: pools.secure.add_fields: add_fields is for requests of HTTP, and those of the VIP on line 8 are encrypted by protocol tls (no add_fields, or a pool for each)`},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(fielded, tt.change[0], tt.change[1], 1)
			if text == fielded {
				t.Fatalf("%q is not in the file", tt.change[0])
			}
			if _, err := Parse("f", []byte(text)); !documenttest.Reported(err, tt.want) {
				t.Errorf("got\n%v\nwant\n%s", err, tt.want)
			}
		})
	}
}

// TestFieldsOfQUIC: one message for a field in a pool of a VIP of protocol quic.
func TestFieldsOfQUIC(t *testing.T) {
	const want = "f:13:21: pools.q.client_address: x-forwarded-for is for requests of HTTP, and those of the VIP on line 6 are encrypted by protocol quic (source: keep, or a pool for each)"
	text := strings.Replace(both, "source: keep", "client_address: x-forwarded-for", 1)
	if _, err := Parse("f", []byte(text)); err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

// TestReplacedFieldsAreBounded: the kernel looks for few names in the requests of a VIP, whichever pools its routes lead to.
func TestReplacedFieldsAreBounded(t *testing.T) {
	with := func(second string) string {
		return strings.NewReplacer(
			"routes: [{pool: web}]", "routes: [{match: {host: a.test}, pool: other}, {match: {host: b.test}, pool: third}, {pool: web}]",
			"client_address: x-forwarded-for", "client_address: x-forwarded-for\n    add_fields: [x-request-id, x-forwarded-proto]",
			"  other:\n", "  third:\n    "+second+"\n    surrogates: [{name: d, address: \"10.2.1.9:80\"}]\n  other:\n    client_address: x-real-ip\n",
		).Replace(fielded)
	}
	for second, want := range map[string]string{
		"client_address: x-real-ip":                                  "",
		"client_address: forwarded\n    client_address_mode: append": "",
		"client_address: forwarded": "f:4:13: vips[0].routes: lead to pools with 5 fields that replace a client's own (x-forwarded-for, x-request-id, x-forwarded-proto, forwarded, x-real-ip), " +
			"and the kernel looks for 4 (the same fields in all pools, client_address_mode: append, or another VIP)",
	} {
		cfg, err := Parse("f", []byte(with(second)))
		switch {
		case want != "" && !documenttest.Reported(err, want):
			t.Errorf("%s:\n%v\nwant\n%s", second, err, want)
		case want == "" && (err != nil || cfg.VIPs[0].Pipelining != PipeliningHold):
			t.Errorf("%s: %v", second, err)
		}
	}
}

// TestUnderscoreInAField: it is accepted, and servers that drop such a field are named.
func TestUnderscoreInAField(t *testing.T) {
	const want = "f:14:21: pools.web.client_address: nginx and other servers drop fields with _ in their names: write x-client-ip if yours does"
	cfg, err := Parse("f", []byte(strings.Replace(fielded, "x-forwarded-for", "x_client_ip", 1)))
	if err != nil || !slices.Contains(cfg.Warnings, want) {
		t.Errorf("%v, %v", cfg, err)
	}
}
