package route

import (
	"fmt"
	"strings"
	"testing"

	"baton/router/config"
	"baton/router/head"
)

func TestUnread(t *testing.T) {
	const get = "GET / HTTP/1.1\r\nHost: a\r\n"
	for _, tt := range []struct {
		name, head string
		want       string // "" if the kernel reads it
	}{
		{"get", get, ""},
		{"close", get + "Connection: Close\r\n", ""},
		{"keep-alive", get + "Connection: keep-alive\r\n", ""},
		{"old", "GET / HTTP/1.0\r\n", ""},
		{"upload", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n", ""},
		{"options of the connection", get + "Connection: keep-alive, TE\r\n", "other connection options"},
		{"upgrade", get + "Connection: Upgrade\r\nUpgrade: websocket\r\n", "requests an upgrade"},
		{"chunked", "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n", "in chunks"},
		{"method", "PATCH / HTTP/1.1\r\nHost: a\r\n", "PUT and DELETE alone"},
		{"empty line", "\r\n" + get, "an empty line"},
		{"name of digits, dots and underscores", get + "x_1.2: a\r\n", ""},
		{"name with other bytes", get + "x!: a\r\n", "the name of field x!"},
		{"longest name", get + strings.Repeat("x", MaxKernelName) + ": a\r\n", ""},
		{"longer name", get + strings.Repeat("x", MaxKernelName+1) + ": a\r\n", "more than 63 bytes"},
		{"length with blanks", get + "Content-Length: 5 \r\n", "Content-Length"},
		{"like a length", get + "Content-Lengths: 5\r\n", "like one of framing"},
		{"blanks around an option", get + "Connection:  close\r\n", "other connection options"},
		{"expectation", get + "Expect: 100-Continue\r\n", ""},
		{"blanks around an expectation", get + "Expect: 100-continue \r\n", "its Expect"},
		{"bad escape in the query", "GET /?100% HTTP/1.1\r\nHost: a\r\n", "its query"},
		{"host of reg-name", "GET / HTTP/1.1\r\nHost: a;b\r\n", "its Host"},
		{"host with a trailing dot and a port", "GET / HTTP/1.1\r\nHost: A.b_c.:80\r\n", ""},
		{"host with a long port", "GET / HTTP/1.1\r\nHost: a:000080\r\n", "its Host"},
		{"IPv6 address", "GET / HTTP/1.1\r\nHost: [2001:db8::9]:80\r\n", ""},
		{"IPv6 address with one of IPv4", "GET / HTTP/1.1\r\nHost: [::ffff:1.2.3.4]\r\n", "its Host"},
		{"absolute target", "GET http://a/ HTTP/1.1\r\nHost: a\r\n", "not a path"},
		{"longest head", get + "X: " + strings.Repeat("x", MaxKernelHead-len(get)-7) + "\r\n", ""},
		{"longer head", get + "X: " + strings.Repeat("x", MaxKernelHead-len(get)-6) + "\r\n", "more than 2048 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			req, n, err := head.Parse([]byte(tt.head + "\r\n"))
			if err != nil {
				t.Fatal(err)
			}
			if got := Unread(&req, n); (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("Unread = %q, want %q", got, tt.want)
			}
		})
	}
}

func TestUnchosen(t *testing.T) {
	surrogates := func(count int) string {
		var out []string
		for i := range count {
			out = append(out, fmt.Sprintf("{name: NAME%d, address: \"10.3.%d.%d:80\"}", i, i/250, 1+i%250))
		}
		return "[" + strings.Join(out, ", ") + "]"
	}
	zones := func(count int) string {
		var out []string
		for i := range count {
			out = append(out, fmt.Sprintf("{prefix: 10.%d.%d.0/24, surrogates: [NAME0]}", i/256, i%256))
		}
		return "[" + strings.Join(out, ", ") + "]"
	}
	file := `vips: [{address: "10.9.9.9:80", interfaces: [eth0], routes: [{pool: few}]}]
pools:
`
	want := []struct{ name, keys, want string }{
		{"few", "policy: least-sessions, surrogates: " + surrogates(KernelMembers), ""},
		{"many", "policy: least-sessions, surrogates: " + surrogates(KernelMembers+1), "more than 64 surrogates"},
		{"turns", "surrogates: " + surrogates(KernelMembers+1), ""},
		{"query", "policy: hash, hash_query: [id], surrogates: " + surrogates(2), "hashes query parameters"},
		{"hash", "policy: hash, surrogates: " + surrogates(2), ""},
		{"near", "policy: nearest, nearest: " + zones(4*KernelTables) + ", surrogates: " + surrogates(2), ""},
		{"wide", "policy: nearest, nearest: " + zones(KernelTables) + ", surrogates: " + surrogates(KernelTables-PoolTables-3-1), ""},
		{"farther", "policy: nearest, nearest: " + zones(1) + ", surrogates: " + surrogates(2), "more zones"},
		{"own", "surrogates: " + surrogates(2), "own1 of pool own can only be proxied: it is on this host"},
	}
	for _, p := range want {
		file += "  " + p.name + ": {" + strings.ReplaceAll(p.keys, "NAME", p.name) + "}\n"
	}
	cfg, err := config.Parse("f", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	table, err := Compile(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range want {
		got := table.Unchosen(i, &cfg.Pools[i], func(name string) bool { return name == "own1" })
		if (got == "") != (p.want == "") || !strings.Contains(got, p.want) {
			t.Errorf("pool %s: %q, want %q", p.name, got, p.want)
		}
	}
	for length, want := range map[int]bool{MaxKernelPath: true, MaxKernelPath + 1: false} {
		if got := Unhashed(&cfg.Pools[4], []byte("/"+strings.Repeat("x", length-1))); (got == "") != want {
			t.Errorf("path of %d bytes: %q, want it hashed in the kernel: %v", length, got, want)
		}
	}
}

// TestOnePoolLooksAtNoHost: if every request goes to the same pool, a host that the kernel cannot look up does not matter.
func TestOnePoolLooksAtNoHost(t *testing.T) {
	long := strings.Repeat("h", MaxKernelHost) + "h.net"
	for _, tt := range []struct {
		name, other string
		upcall      bool
	}{{"one pool", "a", false}, {"two pools", "b", true}} {
		table := compile(t, vipOf("{match: {host: x.net}, pool: "+tt.other+"}", "{pool: a}"))
		k := table.Kernel(RoomOf(MaxHosts))
		for _, host := range []string{long, "[2001:db8::1]"} {
			if got := k.Lookup(0, request(t, "GET", "/", host)); got.Upcall != tt.upcall {
				t.Errorf("%s: Lookup of host %s = %+v, want Upcall %v", tt.name, host, got, tt.upcall)
			}
		}
	}
}
