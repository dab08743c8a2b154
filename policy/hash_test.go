package policy

import (
	"math"
	"net/url"
	"slices"
	"strings"
	"testing"
)

func TestCanonicalQuery(t *testing.T) {
	tests := []struct {
		query string
		names string // with commas; "all"
		want  string
	}{
		{"b=2&a=1", "all", "a=1&b=2"},
		{"b=2&a=1", "a", "a=1"},
		{"b=2&a=1", "", ""},
		{"b=2&a=1", "c", ""},
		{"%61=1", "a", "a=1"},
		{"a=x+y&a=x%20y", "a", "a=x%20y&a=x%20y"},
		{"a=2&a=1", "a", "a=2&a=1"},
		{"a", "a", "a="},
		{"a=b=c", "a", "a=b%3Dc"},
		{"&&a=1&", "all", "a=1"},
		{"=1", "all", "=1"},
		{"a=%zz&b=%4", "all", "a=%25zz&b=%254"},
		{"a=ä%e4/", "all", "a=%C3%A4%E4%2F"},
		{"A=1", "a", ""},
	}
	for _, tt := range tests {
		if got := string(CanonicalQuery(nil, tt.query, tt.names == "all", strings.Split(tt.names, ","))); got != tt.want {
			t.Errorf("%q of %q: %q, want %q", tt.names, tt.query, got, tt.want)
		}
	}
}

// FuzzCanonicalQuery: the form is stable, independent of the order of names, and has the meaning that net/url sees.
func FuzzCanonicalQuery(f *testing.F) {
	for _, s := range []string{"", "a=1&b=2", "b=2&a=1&b=1", "%61=%zz&+=&&=", "size=2;t=1", strings.Repeat("a=1&", 40)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, query string) {
		all := string(CanonicalQuery(nil, query, true, nil))
		if again := string(CanonicalQuery(nil, all, true, nil)); again != all {
			t.Errorf("%q: %q, and of that %q", query, all, again)
		}
		parts := strings.Split(query, "&")
		slices.SortStableFunc(parts, func(a, b string) int { // by name, downwards: values of a name keep their order
			a, _, _ = strings.Cut(a, "=")
			b, _, _ = strings.Cut(b, "=")
			return strings.Compare(unescape(b), unescape(a))
		})
		if turned := string(CanonicalQuery(nil, strings.Join(parts, "&"), true, nil)); turned != all {
			t.Errorf("%q: %q, in another order %q", query, all, turned)
		}
		if want, err := url.ParseQuery(query); err == nil {
			got, err := url.ParseQuery(all)
			if err != nil || !equalValues(got, want) {
				t.Errorf("%q: %v, want %v", query, got, want)
			}
		}
		if one := string(CanonicalQuery(nil, query, false, []string{"a"})); one != "" && !strings.Contains("&"+all, "&"+one) {
			t.Errorf("%q: parameter a is %q, of all %q", query, one, all)
		}
	})
}

func equalValues(a, b url.Values) bool {
	if len(a) != len(b) {
		return false
	}
	for name := range a {
		if !slices.Equal(a[name], b[name]) {
			return false
		}
	}
	return true
}

func TestUnit(t *testing.T) {
	for _, h := range []uint64{0, 1, 1 << 12, 1 << 63, math.MaxUint64 - 1<<12, math.MaxUint64} {
		if u := unit(h); u <= 0 || u >= 1 {
			t.Errorf("%#x gives %v", h, u)
		}
	}
}

func TestCanonicalHost(t *testing.T) {
	for host, want := range map[string]string{
		"cdn.example.org": "cdn.example.org", "CDN.Example.ORG.": "cdn.example.org", "cdn.example.org:8080": "cdn.example.org",
		"[2001:db8::1]": "[2001:db8::1]", "[2001:DB8::1]:80": "[2001:db8::1]", "": "", "cdn.example.org.:80": "cdn.example.org",
	} {
		if got := canonicalHost(host); got != want {
			t.Errorf("%q: %q, want %q", host, got, want)
		}
	}
}

// TestKilometres: distances between airports, from the great circle mapper (which knows that the earth is no sphere: 0.5 %).
func TestKilometres(t *testing.T) {
	vienna, sydney, quito := Coordinates{48.1103, 16.5697}, Coordinates{-33.9461, 151.1772}, Coordinates{-0.1292, -78.3575}
	for _, tt := range []struct {
		a, b Coordinates
		want float64
	}{{vienna, vienna, 0}, {vienna, sydney, 15965}, {sydney, vienna, 15965}, {Coordinates{0, 90}, Coordinates{0, -90}, math.Pi * earth}, {Coordinates{90, 0}, quito, 10016}} {
		if got := tt.a.Kilometres(tt.b); math.Abs(got-tt.want) > 0.005*tt.want+1e-6 {
			t.Errorf("%v to %v: %.0f km, want %.0f", tt.a, tt.b, got, tt.want)
		}
	}
}
