package hello

import (
	"crypto/x509"
	"strings"
	"testing"
)

func TestCanonical(t *testing.T) {
	for name, want := range map[string]string{
		"":                    "",
		".":                   "",
		"a.example.net":       "a.example.net",
		"A.eXAMPLE.net.":      "a.example.net",
		"*.EXAMPLE.net.":      "*.example.net",
		"a..":                 "a.",
		"Z.example":           "z.example",
		"\u212aELVIN.example": "\u212aelvin.example", // the Kelvin sign is no k
		"B\u00dcCHER":         "b\u00dccher",
	} {
		if got := Canonical(name); got != want {
			t.Errorf("Canonical(%q) = %q, want %q", name, got, want)
		}
	}
}

// TestMatch has crypto/x509 judge the same: a certificate for the pattern is good for the names that it matches, no others.
func TestMatch(t *testing.T) {
	for _, test := range []struct {
		pattern, name string
		want          bool
	}{
		{"a.example.net", "a.example.net", true},
		{"a.example.net", "b.example.net", false},
		{"example.net", "a.example.net", false},
		{"*.example.net", "a.example.net", true},
		{"*.example.net", "xn--bcher-kva.example.net", true},
		{"*.example.net", "example.net", false},
		{"*.example.net", "a.b.example.net", false},
		{"*.example.net", ".example.net", false},
		{"*.example.net", "aexample.net", false},
		{"*.example.net", "a.example.network", false},
		{"*.b.example.net", "a.b.example.net", true},
		{"*.net", "example.net", true},
		{"*.example.net", "", false},
		{"a.example.net", "", false},
		{"*", "localhost", false},
		{"*", "", false},
		{"", "", false},
	} {
		if got := Match(test.pattern, test.name); got != test.want {
			t.Errorf("Match(%q, %q) = %v, want %v", test.pattern, test.name, got, test.want)
		}
		certificate := x509.Certificate{DNSNames: []string{test.pattern}}
		if got := certificate.VerifyHostname(test.name) == nil; got != test.want {
			t.Errorf("%q, %q: crypto/x509 says %v", test.pattern, test.name, got)
		}
	}
}

func TestCheckPattern(t *testing.T) {
	for _, pattern := range []string{
		"a.example.net", "A.Example.NET.", "*.example.net", "*.net", "localhost", "_dmarc.example", "1.example", "xn--bcher-kva.example",
	} {
		if err := CheckPattern(pattern); err != nil {
			t.Errorf("CheckPattern(%q) = %v", pattern, err)
		}
	}
	for pattern, want := range map[string]string{
		"":                                     "empty",
		".":                                    "empty",
		"*":                                    "first label",
		"*.":                                   "first label",
		"**.example.net":                       "first label",
		"*.*.example.net":                      "first label",
		"a.*.example.net":                      "first label",
		"w*.example.net":                       "first label",
		"*example.net":                         "first label",
		"https://a.example.net":                "scheme",
		"a.example.net:443":                    "port",
		"a.example.net/index.html":             "path",
		"192.0.2.1":                            "addresses",
		"2001:db8::1":                          "addresses",
		"[2001:db8::1]":                        "addresses",
		"*.192.0.2.1":                          "addresses",
		"bücher.example":                       "xn--",
		"a b":                                  "byte",
		"a..example.net":                       "empty label",
		"*..example.net":                       "empty label",
		"a.example.net..":                      "empty label",
		strings.Repeat("a", 64):                "63 bytes",
		strings.Repeat("a.", 127):              "", // 253 bytes and a dot
		strings.Repeat("ab", 128):              "253 bytes",
		"*." + strings.Repeat("a.", 126) + "a": "", // of a name that is long enough
	} {
		err := CheckPattern(pattern)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("CheckPattern(%q) = %v, want %q", pattern, err, want)
		}
	}
}
