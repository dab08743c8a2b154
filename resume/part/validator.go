package part

import (
	"net/http"
	"strings"
	"time"
)

// Validator identifies an answer's representation (RFC 9110, section 8.8). A weak one can prove that a representation is different, never
// that it is the same. The zero value proves nothing.
type Validator struct {
	Tag      string `json:"tag,omitempty"`      // of an ETag, with quotes and without W/
	WeakTag  bool   `json:"weak_tag,omitempty"` // the tag had W/
	Date     string `json:"date,omitempty"`     // of a Last-Modified, unchanged
	WeakDate bool   `json:"weak_date,omitempty"`
}

// ParseValidator parses the validators of an answer. It ignores malformed ones, and fields that occur twice with different values.
//
// A date is strong if the answer was made at least a second after it (section 8.8.2.2), by the server's own clock.
func ParseValidator(h http.Header) Validator {
	var v Validator
	tag, weak := strings.CutPrefix(single(h, "ETag"), "W/")
	if isTag(tag) {
		v.Tag, v.WeakTag = tag, weak
	}
	date := single(h, "Last-Modified")
	if modified, err := http.ParseTime(date); err == nil {
		v.Date = date
		made, err := http.ParseTime(single(h, "Date"))
		v.WeakDate = err != nil || made.Sub(modified) < time.Second
	}
	return v
}

// single returns the value of a field that may occur once: "" if it is missing or has several values.
func single(h http.Header, name string) string {
	lines := h.Values(name)
	if len(lines) == 0 {
		return ""
	}
	for _, l := range lines[1:] {
		if l != lines[0] {
			return ""
		}
	}
	return strings.Trim(lines[0], " \t")
}

// isTag reports whether s is an opaque-tag (RFC 9110, section 8.8.3).
func isTag(s string) bool {
	if len(s) < 2 || s[0] != '"' || s[len(s)-1] != '"' {
		return false
	}
	for _, c := range []byte(s[1 : len(s)-1]) {
		if c <= ' ' || c == '"' || c == 0x7f {
			return false
		}
	}
	return true
}

// Strong reports whether two answers with this validator have the same bytes.
func (v Validator) Strong() bool { return v.IfRange() != "" }

// IfRange returns the value for an If-Range field, "" if none is allowed: no weak validators, and a date only without any tag (RFC 9110,
// section 13.1.5).
func (v Validator) IfRange() string {
	switch {
	case v.Tag != "" && !v.WeakTag:
		return v.Tag
	case v.Tag == "" && v.Date != "" && !v.WeakDate:
		return v.Date
	}
	return ""
}

// String is for messages.
func (v Validator) String() string {
	switch {
	case v.Tag != "" && v.WeakTag:
		return "weak ETag W/" + v.Tag
	case v.Tag != "":
		return "ETag " + v.Tag
	case v.Date != "" && v.WeakDate:
		return "weak Last-Modified " + v.Date
	case v.Date != "":
		return "Last-Modified " + v.Date
	}
	return "no validator"
}

// answer is yes, no or unknown.
type answer int

const (
	unknown answer = iota
	yes
	no
)

// same reports whether two answers are of the same representation, by their validators alone.
func (v Validator) same(o Validator) answer {
	switch {
	case v.Tag != "" && o.Tag != "":
		if v.Tag != o.Tag {
			return no
		}
		if !v.WeakTag && !o.WeakTag {
			return yes
		}
		return unknown
	case v.Date != "" && o.Date != "":
		if !sameTime(v.Date, o.Date) {
			return no
		}
		if v.strongDate() && o.strongDate() {
			return yes
		}
	}
	return unknown
}

// strongDate reports whether the date identifies one version. With a weak tag the date is not trusted either.
func (v Validator) strongDate() bool { return v.Date != "" && !v.WeakDate && !v.WeakTag }

func sameTime(a, b string) bool {
	ta, errA := http.ParseTime(a)
	tb, errB := http.ParseTime(b)
	return errA == nil && errB == nil && ta.Equal(tb)
}
