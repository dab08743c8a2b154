package config

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// hostsFile is a file with one VIP and a route for each of n hosts, to ten pools.
func hostsFile(n int) []byte {
	var b strings.Builder
	b.WriteString("vips:\n  - address: 10.9.9.9:80\n    interfaces: [eth0]\n    routes:\n")
	for i := range n {
		fmt.Fprintf(&b, "      - {match: {host: h%d.example.net}, pool: p%d}\n", i, i%10)
	}
	b.WriteString("      - {pool: p0}\npools:\n")
	for i := range 10 {
		fmt.Fprintf(&b, "  p%d: {surrogates: [{name: s%d, address: \"10.0.0.%d:80\"}]}\n", i, i, i+1)
	}
	return []byte(b.String())
}

// TestManyHosts: a VIP may have routes for as many hosts as a hosting provider has.
func TestManyHosts(t *testing.T) {
	const hosts = 30000
	cfg, err := Parse("f", hostsFile(hosts))
	if err != nil {
		t.Fatal(err)
	}
	if got := len(cfg.VIPs[0].Routes); got != hosts+1 {
		t.Errorf("%d routes", got)
	}
}

// TestManyMistakes: a file with a mistake in every tenth of 10,000 routes is refused in about a second. The time for
// each mistake must not grow with their number.
func TestManyMistakes(t *testing.T) {
	file := bytes.ReplaceAll(hostsFile(10000), []byte(".example.net}, pool: p3}"), []byte("..example.net}, pool: p3}"))
	_, err := Parse("f", file)
	if err == nil || !strings.HasSuffix(err.Error(), "and 980 more mistakes") {
		t.Errorf("error: %.500v", err)
	}
}

// BenchmarkParse reads and checks routes of different hosts: the time for each must not grow with their number.
func BenchmarkParse(b *testing.B) {
	for _, n := range []int{1000, 10000, 100000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			file := hostsFile(n)
			for b.Loop() {
				if _, err := Parse("f", file); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*(n+1)), "ns/route")
		})
	}
}
