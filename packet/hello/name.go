package hello

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// Canonical gives the form in which names and patterns are compared: ASCII letters in lower case, without one dot at the end.
// Certificates have names in no other form (RFC 9525 section 6.3).
func Canonical(name string) string {
	return lower(strings.TrimSuffix(name, "."))
}

// Match tells whether a pattern holds for a name, both as Canonical gives them: the same name, or "*." and all of the name but
// its first label. As in certificates (RFC 9525 section 6.3), and unlike a host of HTTP, a wildcard is one label, no more.
func Match(pattern, name string) bool {
	suffix, wildcard := strings.CutPrefix(pattern, "*")
	if !wildcard {
		return pattern == name && name != ""
	}
	dot := strings.IndexByte(name, '.')
	return dot > 0 && name[dot:] == suffix
}

// CheckPattern says what is wrong with a pattern as someone wrote it, for that person; nil: Canonical gives its form for Match.
func CheckPattern(pattern string) error {
	name := strings.TrimPrefix(pattern, "*.")
	switch {
	case pattern == "":
		return errors.New("the name is empty")
	case strings.Contains(pattern, "://"):
		return errors.New("a name has no scheme: leave out what is before and with \"://\"")
	case isAddress(name):
		return errors.New("clients send no addresses as names (RFC 6066, section 3)")
	case strings.ContainsRune(name, ':'):
		return errors.New("a name has no port: the VIP has it")
	case strings.ContainsRune(name, '/'):
		return errors.New("a name has no path, and paths of TLS clients cannot be read")
	case strings.ContainsRune(name, '*') || name == "":
		return errors.New("a * stands for the whole first label of a name, as in *.example.net")
	}
	if fault := nameFault([]byte(name)); fault != "" {
		return fmt.Errorf("the name %s", fault)
	}
	return nil
}

// isAddress knows IPv4 addresses, and IPv6 ones with brackets or without.
func isAddress(s string) bool {
	_, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"))
	return err == nil
}

// nameFault says why bytes are not a host name, "" when they are. Underscores are in use, and there are names with a hyphen
// first or last in a label.
func nameFault(name []byte) string {
	if n := len(name); n > 0 && name[n-1] == '.' {
		name = name[:n-1]
	}
	if len(name) == 0 {
		return "is empty"
	}
	if len(name) > maxHostName {
		return "has more than 253 bytes"
	}
	label := 0
	for _, c := range name {
		label++
		switch {
		case c == '.' && label == 1:
			return "has an empty label"
		case c == '.':
			label = 0
		case label > maxLabel:
			return "has a label of more than 63 bytes"
		case c >= 0x80:
			return "is not ASCII: write its labels in the xn-- form"
		case !inName(c):
			return "has a byte that is no letter, digit, hyphen, dot or underscore"
		}
	}
	if label == 0 {
		return "has an empty label"
	}
	return ""
}

func inName(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}

// lower has strings.ToLower's result for ASCII, and leaves all else as it is.
func lower(s string) string {
	for i := range len(s) {
		if c := s[i]; c >= 'A' && c <= 'Z' {
			b := []byte(s)
			for j := i; j < len(b); j++ {
				if b[j] >= 'A' && b[j] <= 'Z' {
					b[j] += 'a' - 'A'
				}
			}
			return string(b)
		}
	}
	return s
}
