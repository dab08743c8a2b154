package part_test

import (
	"net/http"
	"strings"
	"testing"

	"baton/resume/part"
)

func header(lines ...string) http.Header {
	h := make(http.Header)
	for _, l := range lines {
		name, value, _ := strings.Cut(l, ": ")
		h.Add(name, value)
	}
	return h
}

const (
	noon    = "Mon, 02 Mar 2026 12:00:00 GMT"
	noon1   = "Mon, 02 Mar 2026 12:00:01 GMT"
	noon5   = "Mon, 02 Mar 2026 12:00:05 GMT"
	noon850 = "Monday, 02-Mar-26 12:00:00 GMT" // RFC 9110, section 5.6.7: the obsolete forms must be read
)

// TestIfRange has the rules of RFC 9110, sections 8.8.2.2, 8.8.3 and 13.1.5.
func TestIfRange(t *testing.T) {
	tests := []struct {
		name string
		h    http.Header
		want string
	}{
		{"strong tag", header(`ETag: "a"`), `"a"`},
		{"empty tag", header(`ETag: ""`), `""`},
		{"weak tag", header(`ETag: W/"a"`), ""},
		{"w/ in small letters is no tag", header(`ETag: w/"a"`), ""},
		{"no quotes", header("ETag: a"), ""},
		{"a quote within", header(`ETag: "a"b"`), ""},
		{"a space within", header(`ETag: "a b"`), ""},
		{"two tags", header(`ETag: "a"`, `ETag: "b"`), ""},
		{"a tag twice", header(`ETag: "a"`, `ETag: "a"`), `"a"`},
		{"strong date", header("Last-Modified: "+noon, "Date: "+noon1), noon},
		{"date in an obsolete form, as it was sent", header("Last-Modified: "+noon850, "Date: "+noon1), noon850},
		{"date of this very second", header("Last-Modified: "+noon, "Date: "+noon), ""},
		{"date of the future", header("Last-Modified: "+noon1, "Date: "+noon), ""},
		{"date of an answer without one", header("Last-Modified: " + noon), ""},
		{"no date", header("Last-Modified: yesterday", "Date: "+noon1), ""},
		{"tag before date", header(`ETag: "a"`, "Last-Modified: "+noon, "Date: "+noon1), `"a"`},
		{"no date where there is a weak tag", header(`ETag: W/"a"`, "Last-Modified: "+noon, "Date: "+noon1), ""},
		{"nothing", nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := part.ParseValidator(tt.h)
			if got := v.IfRange(); got != tt.want || v.Strong() != (tt.want != "") {
				t.Errorf("%+v: If-Range: %q, want %q", v, got, tt.want)
			}
		})
	}
}

func TestDigests(t *testing.T) {
	const (
		sha256 = "sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:" // of nothing
		sha512 = "sha-512=:z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBeoGlODJ6+SfaPg==:"
	)
	tests := []struct {
		name  string
		lines []string
		want  string
	}{
		{"one", []string{sha256}, "sha-256"},
		{"two in a line", []string{sha256 + ", " + sha512}, "sha-256 sha-512"},
		{"two lines", []string{sha256, sha512}, "sha-256 sha-512"},
		{"one that is not used", []string{"md5=:1B2M2Y8AsgTpgAmY7PhCfg==:, " + sha256}, "sha-256"},
		{"of another length", []string{"sha-256=:AAAA:"}, ""},
		{"no bytes", []string{`sha-256="47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="`}, ""},
		{"a list", []string{"sha-256=(:AAAA: :AAAA:)"}, ""},
		{"no dictionary", []string{"sha-256=:AA"}, ""},
		{"none", nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := part.ParseDigests(http.Header{"Repr-Digest": tt.lines}, part.ReprDigest)
			var names []string
			for _, name := range []string{"sha-256", "sha-512"} {
				if d[name] != nil {
					names = append(names, name)
				}
			}
			if got := strings.Join(names, " "); got != tt.want {
				t.Fatalf("got %q, want %q", got, tt.want)
			}
			check := part.NewCheck(d)
			if err := check.Err(); err != nil {
				t.Errorf("of nothing: %v", err)
			}
			if check == nil {
				return
			}
			check.Write([]byte("x"))
			if check.Err() == nil {
				t.Error("x has the digest of nothing")
			}
		})
	}
}

// FuzzFields reads fields of strangers: what is believed of them can be sent back, and is what RFC 9110 and RFC 9530 allow.
func FuzzFields(f *testing.F) {
	f.Add(`"a"`, "", noon, noon1, "sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:")
	f.Add(`W/"a"`, `"a"`, noon850, noon, "sha-512=:AA==:;x=1, sha-256=(:AA==:)")
	f.Add(`"\x80"`, `W/`, "Mon, 02 Mar 2026 12:00:60 GMT", "", "a=?1,,")
	f.Fuzz(func(t *testing.T, tag, second, modified, date, digest string) {
		h := http.Header{"Etag": {tag}, "Last-Modified": {modified}, "Date": {date}, "Repr-Digest": {digest}, "Retry-After": {second}}
		if second != "" {
			h["Etag"] = append(h["Etag"], second)
		}
		v := part.ParseValidator(h)
		if condition := v.IfRange(); condition != "" {
			again := part.ParseValidator(http.Header{"Etag": {condition}, "Last-Modified": {condition}, "Date": {date}})
			if again.IfRange() != condition || strings.HasPrefix(condition, "W/") || strings.ContainsAny(condition, "\r\n") {
				t.Fatalf("%+v is sent as %q, which is %+v", v, condition, again)
			}
		}
		if second != "" && second != tag && v.Tag != "" {
			t.Fatalf("one of two tags is believed: %+v", v)
		}
		d := part.ParseDigests(h, part.ReprDigest)
		if (part.NewCheck(d) != nil) != (len(d) > 0) {
			t.Fatalf("%v cannot be checked", d)
		}
		verdict := part.Judge(part.Fresh(), part.Answer{Status: http.StatusServiceUnavailable, Header: h})
		if verdict.Action != part.Later || verdict.After < 0 {
			t.Fatalf("%+v", verdict)
		}
	})
}
