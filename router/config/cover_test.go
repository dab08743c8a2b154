package config

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestCoverIndex compares the index with the comparison of each route with all earlier ones, also for hosts that
// are refused.
func TestCoverIndex(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	found := 0
	for round := range 3000 {
		v := randomRoutes(r)
		index := newCoverIndex(v)
		for i := range v.Routes {
			want := slices.IndexFunc(v.Routes[:i], func(earlier Route) bool { return coversMatch(v, &earlier.Match, &v.Routes[i].Match) })
			if got := index.findFirst(i); got != want {
				t.Fatalf("round %d, %s: route %d %+v is covered by route %d, want %d\n%+v",
					round, v.Protocol, i, v.Routes[i].Match, got, want, v.Routes)
			}
			if want >= 0 {
				found++
			}
			index.addRoute(i)
		}
	}
	if found < 1000 {
		t.Errorf("%d routes are covered: too few", found)
	}
}

func randomRoutes(r *rand.Rand) *VIP {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	some := func(of ...string) (out []string) {
		for _, s := range of {
			if r.IntN(4) == 0 {
				out = append(out, s)
			}
		}
		return out
	}
	v := &VIP{Protocol: []Protocol{HTTP, TLS, QUIC}[r.IntN(3)]}
	for range r.IntN(30) {
		var m Match
		if v.Protocol.Encrypted() {
			m.SNI = pick("", "net", "a.net", "*.net", "*.a.net", "x.a.net", "y.x.a.net", "*.x.a.net")
			m.ALPN, m.NoSNI = some("h2", "h3", "x"), r.IntN(6) == 0
		} else {
			m.Host = pick("", "net", "a.net", "*.net", "*.a.net", "x.a.net", "*.x.a.net", "[::1]", "*", "*t", "a.*", ".net", "*.")
			m.PathPrefix, m.Methods = pick("", "/", "/a", "/a/", "/ab", "/a/b", "/b"), some("GET", "HEAD", "POST")
			if r.IntN(8) == 0 {
				m.PathRegex = regexp.MustCompile("x")
			}
			if r.IntN(8) == 0 {
				m.Headers = []HeaderMatch{{Name: "X"}}
			}
		}
		v.Routes = append(v.Routes, Route{Match: m})
	}
	return v
}

// TestCoverIndexComparesFew: routes of different hosts are not compared with each other.
func TestCoverIndexComparesFew(t *testing.T) {
	v := hostRoutes(10000)
	index := newCoverIndex(v)
	for i := range v.Routes {
		index.addRoute(i)
	}
	for key, routes := range index.routes {
		if len(routes) > 1 {
			t.Fatalf("%d routes under %+v", len(routes), key)
		}
	}
	for name, lengths := range index.lengths {
		if len(lengths) > 1 {
			t.Fatalf("%d lengths of paths under %q", len(lengths), name)
		}
	}
}

func hostRoutes(n int) *VIP {
	v := &VIP{Protocol: HTTP}
	for i := range n {
		m := Match{Host: fmt.Sprintf("h%d.example.net", i), PathPrefix: "/" + strings.Repeat("a", i%7)}
		v.Routes = append(v.Routes, Route{Match: m})
	}
	return v
}

// BenchmarkCoverIndex looks for routes that are never reached: the time for each must not grow with their number.
func BenchmarkCoverIndex(b *testing.B) {
	for _, n := range []int{1000, 10000, 100000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			v := hostRoutes(n)
			for b.Loop() {
				index := newCoverIndex(v)
				for i := range v.Routes {
					if index.findFirst(i) >= 0 {
						b.Fatal("covered")
					}
					index.addRoute(i)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/route")
		})
	}
}
