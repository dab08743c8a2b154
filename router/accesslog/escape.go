package accesslog

import (
	"cmp"
	"strconv"
	"time"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	lowerHex = "0123456789abcdef"
	upperHex = "0123456789ABCDEF"
)

// What may stand in a line as it is.
var (
	plainJSON, plainQuoted, plainToken = plain('"', '\\'), plain('"', '\\'), plain('"', '\\', ' ')
)

// plain are the printable characters of ASCII but some.
func plain(but ...byte) (is [256]bool) {
	for c := ' '; c <= '~'; c++ {
		is[c] = true
	}
	for _, c := range but {
		is[c] = false
	}
	return is
}

// appendEscaped writes bytes for a line in Apache's format, as nginx does: a quote, a backslash, a control or a byte beyond ASCII is \xHH. So
// a quote ends a field, whatever a reader knows of backslashes. Nothing is "-".
func appendEscaped(dst, s []byte, isPlain *[256]bool) []byte {
	if len(s) == 0 {
		return append(dst, '-')
	}
	from := 0
	for i, c := range s {
		if isPlain[c] {
			continue
		}
		dst = append(dst, s[from:i]...)
		dst = append(dst, '\\', 'x', upperHex[c>>4], upperHex[c&15])
		from = i + 1
	}
	return append(dst, s[from:]...)
}

// appendJSON writes a JSON string of ASCII alone. A byte that is not UTF-8 becomes U+FFFD, as JSON cannot hold it.
func appendJSON[T string | []byte](dst []byte, s T) []byte {
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if plainJSON[c] {
			i++
			continue
		}
		dst = append(dst, s[from:i]...)
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
			i++
		case c < utf8.RuneSelf:
			dst = appendUnit(dst, uint16(c))
			i++
		default:
			r, n := utf8.DecodeRuneInString(string(s[i:min(i+utf8.UTFMax, len(s))]))
			if high, low := utf16.EncodeRune(r); high != utf8.RuneError {
				dst = appendUnit(dst, uint16(high))
				r = low
			}
			dst = appendUnit(dst, uint16(r))
			i += n
		}
		from = i
	}
	dst = append(dst, s[from:]...)
	return append(dst, '"')
}

func appendUnit(dst []byte, u uint16) []byte {
	return append(dst, '\\', 'u', lowerHex[u>>12], lowerHex[u>>8&15], lowerHex[u>>4&15], lowerHex[u&15])
}

// appendSeconds writes a duration in seconds, without zeros at its end.
func appendSeconds(dst []byte, d time.Duration) []byte {
	if d < 0 {
		d = 0
	}
	dst = strconv.AppendInt(dst, int64(d/time.Second), 10)
	rest := d % time.Second
	if rest == 0 {
		return dst
	}
	dst = appendDigits(append(dst, '.'), uint32(rest), 9)
	for dst[len(dst)-1] == '0' {
		dst = dst[:len(dst)-1]
	}
	return dst
}

// appendDigits writes a number of at most so many digits, with zeros before it.
func appendDigits(dst []byte, v uint32, digits int) []byte {
	for range digits {
		dst = append(dst, '0')
	}
	for i := len(dst) - 1; v > 0; i-- {
		dst[i] = byte('0' + v%10)
		v /= 10
	}
	return dst
}

// stamp writes times and remembers the last second, which most records share.
type stamp struct {
	layout string
	zone   *time.Location // nil: UTC
	second int64
	text   []byte
}

func (s *stamp) append(dst []byte, t time.Time) []byte {
	if now := t.Unix(); now != s.second || s.text == nil {
		s.second, s.text = now, t.In(cmp.Or(s.zone, time.UTC)).AppendFormat(s.text[:0], s.layout)
	}
	return append(dst, s.text...)
}
