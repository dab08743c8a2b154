package part

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// ErrContentRange is wrapped by errors about an unusable Content-Range.
var ErrContentRange = errors.New("read the Content-Range")

// ContentRange is the content of a Content-Range field (RFC 9110, section 14.4).
type ContentRange struct {
	First, Last int64 // the bytes in the answer; both -1 in an answer without any ("bytes */1000")
	Length      int64 // of the representation, -1: not given
}

// ParseContentRange parses the only Content-Range of an answer. An invalid one, one with another unit than bytes, and several ones are
// errors that wrap [ErrContentRange].
func ParseContentRange(h http.Header) (ContentRange, error) {
	lines := h.Values("Content-Range")
	switch {
	case len(lines) == 0:
		return ContentRange{}, fmt.Errorf("%w: it is missing", ErrContentRange)
	case len(lines) > 1:
		return ContentRange{}, fmt.Errorf("%w: it occurs %d times", ErrContentRange, len(lines))
	}
	r, ok := parseContentRange(lines[0])
	if !ok {
		return ContentRange{}, fmt.Errorf("%w: %.80q is invalid", ErrContentRange, lines[0])
	}
	return r, nil
}

func parseContentRange(s string) (ContentRange, bool) {
	unit, rest, ok := strings.Cut(strings.Trim(s, " \t"), " ")
	if !ok || !strings.EqualFold(unit, "bytes") {
		return ContentRange{}, false
	}
	span, total, ok := strings.Cut(rest, "/")
	if !ok {
		return ContentRange{}, false
	}
	r := ContentRange{First: -1, Last: -1, Length: -1}
	if total != "*" {
		if r.Length, ok = number(total); !ok {
			return ContentRange{}, false
		}
	}
	if span == "*" {
		return r, r.Length >= 0
	}
	first, last, ok := strings.Cut(span, "-")
	if !ok {
		return ContentRange{}, false
	}
	var okFirst, okLast bool
	r.First, okFirst = number(first)
	r.Last, okLast = number(last)
	if !okFirst || !okLast || r.Last < r.First || r.Length >= 0 && r.Length <= r.Last {
		return ContentRange{}, false
	}
	return r, true
}

// number parses digits only: no sign, and nothing above the range of int64, less one.
func number(s string) (int64, bool) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, 62)
	return int64(n), err == nil
}

// String returns the field's value.
func (r ContentRange) String() string {
	span, length := "*", "*"
	if r.First >= 0 {
		span = fmt.Sprintf("%d-%d", r.First, r.Last)
	}
	if r.Length >= 0 {
		length = strconv.FormatInt(r.Length, 10)
	}
	return "bytes " + span + "/" + length
}
