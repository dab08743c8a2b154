package state

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	kernel "baton/datapath/router"
	"baton/router/config"
)

// sized is a file with so many VIPs and, per pool, so many surrogates. Every entry has its own line.
func sized(vips int, pools ...int) string {
	var b strings.Builder
	b.WriteString("limits: {sessions: 1000000}\nvips:\n")
	for i := range vips {
		fmt.Fprintf(&b, "  - {address: \"10.9.%d.%d:80\", interfaces: [eth0], routes: [{pool: p0}]}\n", i/250, i%250)
	}
	b.WriteString("pools:\n")
	n := 0
	for i, surrogates := range pools {
		fmt.Fprintf(&b, "  p%d:\n    surrogates:\n", i)
		for range surrogates {
			fmt.Fprintf(&b, "      - {name: s%d, address: \"10.2.%d.%d:80\"}\n", n, n/250, n%250)
			n++
		}
	}
	return b.String()
}

// fielded is a file with so many pools with fields of their own, and a route with a rewrite.
func fielded(pools int) string {
	file := strings.Replace(sized(1, ones(pools)...), "routes: [", "routes: [{match: {host: a}, rewrite: {host: b}, pool: p0}, ", 1)
	for i := range pools {
		file = strings.Replace(file, fmt.Sprintf("  p%d:\n", i), fmt.Sprintf("  p%d:\n    client_address: x-client-%d\n    client_address_mode: append\n", i, i), 1)
	}
	return file
}

func ones(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = 1
	}
	return out
}

// TestCheck compares Check with a start for files at the data path's limits.
func TestCheck(t *testing.T) {
	for _, tt := range []struct {
		name, file, want string
	}{
		{"VIPs", sized(kernel.MaxVIPs, 1), ""},
		{"one VIP more", sized(kernel.MaxVIPs+1, 1), "f:259:6: vips[256]: is one of 257, and the data path holds 256 (several routers)"},
		{"pools", sized(1, ones(kernel.MaxPools)...), ""},
		{"one pool more", sized(1, ones(kernel.MaxPools+1)...), "f:773:3: pools.p256: is one of 257, and the data path holds 256 (several routers)"},
		{"surrogates", sized(1, 500, 500, 24), ""},
		{"one surrogate more", sized(1, 500, 500, 25), "f:1035:10: pools.p2.surrogates[24]: is one of 1025, and the data path holds 1024 (several routers)"},
		{"edits", fielded(maxEdits - 1), ""},
		{"one rewrite more", fielded(maxEdits), "f:3:60: vips[0].routes[0]: has one more than 128 different fields and rewrites of requests, which the data path holds (several routers)"},
		{"one field more", fielded(maxEdits + 1), "f:645:3: pools.p128: has one more than 128 different fields and rewrites of requests, which the data path holds (several routers)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg, err := config.Parse("f", []byte(tt.file))
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if err := Check(cfg); err != nil {
				got = err.Error()
				var e *config.Error
				if !errors.As(err, &e) {
					t.Errorf("error is a %T, want *config.Error", err)
				}
			}
			if got != tt.want {
				t.Errorf("Check:\n got %q\nwant %q", got, tt.want)
			}
			if _, err := Compile(cfg, &Numbers{}, nil); (err != nil) != (tt.want != "") {
				t.Errorf("a state of it: %v, want what Check says", err)
			}
		})
	}
}

// TestSurrogatesKeepTheirNumbers: numbers carried by adopted sessions are not reassigned, even if that leaves too few.
func TestSurrogatesKeepTheirNumbers(t *testing.T) {
	cfg, err := config.Parse("f", []byte(sized(1, 1000)))
	if err != nil {
		t.Fatal(err)
	}
	var splices []NumberedSurrogate
	for i := range 24 {
		splices = append(splices, NumberedSurrogate{"", netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 3, 0, byte(i)}), 80), uint16(i)})
	}
	splices = append(splices, NumberedSurrogate{"", cfg.Pools[0].Surrogates[7].Address, 500})
	known := func() *Numbers {
		return &Numbers{Carried: func() (Carried, error) { return Carried{Surrogates: splices}, nil }}
	}
	s, err := Compile(cfg, known(), nil)
	if err == nil && s.IDs["s7"] != 500 {
		t.Errorf("s7 has number %d, want its old one", s.IDs["s7"])
	}
	if err != nil {
		t.Error(err)
	}
	splices = append(splices, NumberedSurrogate{"", netip.MustParseAddrPort("10.3.1.1:80"), 24})
	if _, err := Compile(cfg, known(), nil); err == nil || !strings.Contains(err.Error(), "including those of existing sessions") {
		t.Errorf("state with too few numbers left: %v", err)
	}
}
