package accesslog

import (
	"bytes"
	"cmp"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// apacheLine is what readers of Apache's formats look for: a quoted field ends at the next quote.
var apacheLine = regexp.MustCompile(`^(\S+) - - \[([^\]]+)\] "([^"]*)" (\d+|-) (\d+|-)(?: "([^"]*)" "([^"]*)")?$`)

// unescape takes \xHH back; "-" is nothing.
func unescape(t *testing.T, s string) []byte {
	t.Helper()
	if s == "-" {
		return nil
	}
	var out []byte
	for len(s) > 0 {
		rest, escaped := strings.CutPrefix(s, `\x`)
		if !escaped {
			out, s = append(out, s[0]), s[1:]
			continue
		}
		v, err := strconv.ParseUint(rest[:2], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		out, s = append(out, byte(v)), rest[2:]
	}
	return out
}

func checkApache(t *testing.T, got string, r *Record, combined bool) {
	t.Helper()
	m := apacheLine.FindStringSubmatch(got)
	if m == nil || (m[6] != "") != combined {
		t.Fatalf("not a line of the format: %s", got)
	}
	at, err := time.Parse("02/Jan/2006:15:04:05 -0700", m[2])
	if err != nil || at.Unix() != r.Time.Unix() || m[1] != r.Client.Addr().String() {
		t.Fatalf("time %q or client %q in %s: %v", m[2], m[1], got, err)
	}
	number := func(v uint64) string {
		if v == 0 {
			return "-"
		}
		return strconv.FormatUint(v, 10)
	}
	if m[4] != number(uint64(r.Status)) || m[5] != number(r.FromSurrogate) {
		t.Fatalf("status %q, bytes %q in %s, want %d, %d", m[4], m[5], got, r.Status, r.FromSurrogate)
	}
	same := func(name, escaped string, want []byte, longest int) {
		t.Helper()
		want = want[:min(len(want), longest)]
		if string(want) == "-" {
			want = nil // as Apache has it, too
		}
		if parsed := unescape(t, escaped); !bytes.Equal(parsed, want) {
			t.Fatalf("%s is %q, want %q in %s", name, parsed, want, got)
		}
	}
	words := strings.Split(m[3], " ")
	if len(r.Method) == 0 {
		same("request", m[3], nil, 0)
	} else {
		if want := 2 + min(int(r.Version), 1); len(words) != want {
			t.Fatalf("a request line of %d words, want %d, in %s", len(words), want, got)
		}
		same("method", words[0], r.Method, 64)
		same("path", words[1], r.Path, 2048)
	}
	if combined {
		same("referer", m[6], r.Referer, 2048)
		same("user agent", m[7], r.UserAgent, 2048)
	}
	if version := cmp.Or(r.Version.String(), "none"); len(words) == 3 && !strings.HasPrefix(words[2], "HTTP/"+version) {
		t.Fatalf("version %q in %s, want %s", words[2], got, version)
	}
}
