package fields

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	kernel "baton/datapath/router"
	"baton/router/config"
	"baton/router/head"
	"baton/router/outcome"
)

var all = []config.AddedField{config.XForwardedProto, config.XRequestID}

func TestText(t *testing.T) {
	id := [16]byte{0: 0xab, 15: 0x01}
	const digits = "ab000000000000000000000000000001"
	four, six := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")
	for name, tt := range map[string]struct {
		pool   config.Pool
		client Client
		text   string
		lines  []string
	}{
		"nothing":  {config.Pool{}, Client{Address: four}, "", nil},
		"a header": {config.Pool{ClientAddress: config.ProxyV2}, Client{Address: four}, "", nil},
		"X-Forwarded-For and all": {config.Pool{ClientAddress: config.XForwardedFor, AddFields: all}, Client{Address: four, ID: id},
			"X-Forwarded-For: \x01\r\nX-Forwarded-Proto: http\r\nX-Request-Id: \x03\r\n",
			[]string{"X-Forwarded-For: 192.0.2.1", "X-Forwarded-Proto: http", "X-Request-Id: " + digits}},
		"Forwarded": {config.Pool{ClientAddress: config.Forwarded}, Client{Address: four}, "Forwarded: for=\x02;proto=http\r\n", []string{"Forwarded: for=192.0.2.1;proto=http"}},
		"Forwarded of IPv6 over TLS": {config.Pool{ClientAddress: config.Forwarded}, Client{Address: six, Secure: true},
			"Forwarded: for=\x02;proto=http\r\n", []string{`Forwarded: for="[2001:db8::1]";proto=https`}},
		"an address with a zone": {config.Pool{ClientAddress: config.XRealIP}, Client{Address: netip.MustParseAddr("fe80::1%eth0")}, "X-Real-Ip: \x01\r\n", []string{"X-Real-Ip: fe80::1"}},
		"a name":                 {config.Pool{ClientAddress: "cf-connecting-ip"}, Client{Address: six}, "Cf-Connecting-Ip: \x01\r\n", []string{"Cf-Connecting-Ip: 2001:db8::1"}},
		"others alone": {config.Pool{AddFields: []config.AddedField{config.XRequestID, config.XForwardedProto}}, Client{Secure: true, ID: id},
			"X-Request-Id: \x03\r\nX-Forwarded-Proto: http\r\n", []string{"X-Request-Id: " + digits, "X-Forwarded-Proto: https"}},
	} {
		s := Of(&tt.pool)
		if got := s.Text(); got != tt.text {
			t.Errorf("%s: text %q, want %q", name, got, tt.text)
		}
		var got []string
		for _, f := range s {
			got = append(got, f.name+": "+f.of(&tt.client))
		}
		if !slices.Equal(got, tt.lines) {
			t.Errorf("%s: lines %q, want %q", name, got, tt.lines)
		}
	}
}

func TestDescribe(t *testing.T) {
	appended := Of(&config.Pool{ClientAddress: config.XForwardedFor, AddressMode: config.Append, AddFields: all})
	forwarded := Of(&config.Pool{ClientAddress: config.Forwarded})
	client := netip.MustParseAddr("2001:db8::1")
	for _, tt := range []struct{ got, want []string }{
		{appended.Describe(client, true), []string{"X-Forwarded-For: 2001:db8::1 (behind the client's own)", "X-Forwarded-Proto: https", "X-Request-Id: 32 hexadecimal digits"}},
		{appended.Describe(netip.Addr{}, false)[:1], []string{"X-Forwarded-For: the client's address (behind the client's own)"}},
		{forwarded.Describe(client, false), []string{`Forwarded: for="[2001:db8::1]";proto=http`}},
		{forwarded.Describe(netip.Addr{}, false), []string{"Forwarded: for=the client's address;proto=http"}},
	} {
		if !slices.Equal(tt.got, tt.want) {
			t.Errorf("%q, want %q", tt.got, tt.want)
		}
	}
}

// TestLongestText: the fields of every valid pool fit the kernel's text.
func TestLongestText(t *testing.T) {
	text := Of(&config.Pool{ClientAddress: config.ClientAddress(strings.Repeat("x", 40)), AddFields: all}).Text()
	if len(text) > kernel.EditText {
		t.Errorf("%d bytes, and the kernel holds %d", len(text), kernel.EditText)
	}
}

// TestKernelMarks: no name or value is a mark.
func TestKernelMarks(t *testing.T) {
	marks := []string{kernel.MarkAddress, kernel.MarkNode, kernel.MarkRequestID}
	for i, mark := range marks {
		if len(mark) != 1 || mark >= " " || mark == "\r" || mark == "\n" || slices.Contains(marks[:i], mark) {
			t.Errorf("mark %q", mark)
		}
	}
}

func TestSetProxied(t *testing.T) {
	client := Client{Address: netip.MustParseAddr("192.0.2.1"), Host: "a.test", Secure: true}
	usual := http.Header{"X-Forwarded-For": {"192.0.2.1"}, "X-Forwarded-Host": {"a.test"}, "X-Forwarded-Proto": {"https"}}
	with := func(more http.Header) http.Header {
		h := usual.Clone()
		for name, values := range more {
			h[name] = values
		}
		return h
	}
	pool := func(a config.ClientAddress, m config.AddressMode) config.Pool {
		return config.Pool{ClientAddress: a, AddressMode: m}
	}
	for name, tt := range map[string]struct {
		pool     config.Pool
		in, want http.Header
	}{
		"nothing of the pool's": {config.Pool{}, http.Header{"X-Forwarded-For": {"6.6.6.6"}, "X_forwarded_for": {"6.6.6.6"}, "X-Forwarded_proto": {"x"}}, usual},
		"replace":               {pool(config.XForwardedFor, config.Replace), http.Header{"X-Forwarded-For": {"6.6.6.6", "7.7.7.7"}, "A": {"b"}}, with(http.Header{"A": {"b"}})},
		"append": {pool(config.XForwardedFor, config.Append), http.Header{"X-Forwarded-For": {"6.6.6.6", "7.7.7.7"}, "X_forwarded_for": {"8.8.8.8"}},
			with(http.Header{"X-Forwarded-For": {"6.6.6.6", "7.7.7.7", "192.0.2.1"}})},
		"append to what Connection takes away": {pool(config.XForwardedFor, config.Append),
			http.Header{"X-Forwarded-For": {"6.6.6.6"}, "Connection": {"close", "te , X-FORWARDED-for"}}, with(http.Header{"Connection": {"close", "te , X-FORWARDED-for"}})},
		"another field": {pool("x-client_ip", config.Replace), http.Header{"X-Client-Ip": {"6.6.6.6"}, "X_client_ip": {"6.6.6.6"}, "X-Client_ip": {"6.6.6.6"}, "X-Client-Ips": {"1"}},
			with(http.Header{"X-Client_ip": {"192.0.2.1"}, "X-Client-Ips": {"1"}})},
		"an id": {config.Pool{AddFields: all}, http.Header{"X-Request-Id": {"mine"}}, with(http.Header{"X-Request-Id": {strings.Repeat("0", 32)}})},
	} {
		out := tt.in.Clone()
		Of(&tt.pool).SetProxied(out, tt.in, &client)
		if diff := cmp.Diff(tt.want, out); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestStrip(t *testing.T) {
	h := http.Header{"X-Forwarded-For": {"a"}, "X_real_ip": {"b"}, "X-Checksum": {"c"}}
	Of(&config.Pool{ClientAddress: config.XRealIP}).Strip(h)
	if diff := cmp.Diff(http.Header{"X-Checksum": {"c"}}, h); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestUnfit(t *testing.T) {
	watched := []string{"x-forwarded-for", "x-request-id"}
	const begin = "GET / HTTP/1.1\r\nHost: a\r\n"
	for name, tt := range map[string]struct {
		head    string
		outcome outcome.Outcome
		why     string
	}{
		"plain":                {begin + "\r\n", "", ""},
		"another method":       {"PATCH / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n", "", ""},
		"close":                {begin + "Connection: close\r\n\r\n", "", ""},
		"a field of ours":      {begin + "x-forwarded-for: 6.6.6.6\r\n\r\n", outcome.ClientField, "the request has x-forwarded-for, which the router sets"},
		"with _":               {begin + "X_Forwarded-For: 6.6.6.6\r\n\r\n", outcome.ClientField, "the request has X_Forwarded-For, which the router sets"},
		"a field of the VIP's": {begin + "X-Real-Ip: 6.6.6.6\r\n\r\n", "", ""},
		"chunked":              {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", outcome.NotInsertable, "the body comes in chunks"},
		"upgrade":              {begin + "Connection: upgrade\r\nUpgrade: websocket\r\n\r\n", outcome.NotInsertable, "it requests an upgrade"},
		"connection":           {begin + "Connection: X-Real-Ip\r\n\r\n", outcome.NotInsertable, "it has other connection options than close or keep-alive"},
		"long":                 {begin + "A: " + strings.Repeat("x", 2048) + "\r\n\r\n", outcome.NotInsertable, "the head has more than 2048 bytes"},
	} {
		req, n, err := head.Parse([]byte(tt.head))
		if err != nil {
			t.Fatal(err)
		}
		if got, why := Unfit(&req, n, n, watched, config.Rewrite{}); got != tt.outcome || why != tt.why {
			t.Errorf("%s: %q, %q, want %q, %q", name, got, why, tt.outcome, tt.why)
		}
	}
	req, n, _ := head.Parse([]byte(begin + "\r\n"))
	if got, why := Unfit(&req, n, n-1, watched, config.Rewrite{}); got != outcome.NotInsertable || why == "" {
		t.Errorf("in two packets: %q, %q", got, why)
	}
}

// TestUnrewritten: what the kernel would not rewrite is known before it is asked.
func TestUnrewritten(t *testing.T) {
	host, path := config.Rewrite{Host: "o"}, config.Rewrite{Prefix: "/b", Strip: 2}
	for _, tt := range []struct {
		head    string
		rewrite config.Rewrite
		why     string
	}{
		{"GET /a HTTP/1.1\r\nHost: a\r\n\r\n", path, ""},
		{"PATCH /a HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", host, ""},
		{"PATCH /a HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", path, "the kernel rewrites paths of GET, HEAD, POST, PUT and DELETE alone"},
		{"GET http://a/a HTTP/1.1\r\nHost: a\r\n\r\n", host, "the target is not a path"},
		{"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", host, "the target is not a path"},
		{"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", config.Rewrite{}, ""},
		{"GET /a HTTP/1.0\r\nA: b\r\n\r\n", host, "it has no Host"},
		{"GET /a HTTP/1.0\r\n\r\n", path, "it has no field"},
		{"GET /a HTTP/1.1\r\nHost: " + strings.Repeat("h", 250) + "\r\n\r\n", host, ""},
		{"GET /a HTTP/1.1\r\nHost: " + strings.Repeat("h", 250) + "\r\n\r\n", config.Rewrite{Host: "o", Prefix: "/b", Strip: 7}, "its Host is too long to be replaced"},
	} {
		req, n, err := head.Parse([]byte(tt.head))
		if err != nil {
			t.Fatal(err)
		}
		if _, why := Unfit(&req, n, n, nil, tt.rewrite); why != tt.why {
			t.Errorf("%q, %+v: %q, want %q", tt.head, tt.rewrite, why, tt.why)
		}
	}
}
