package route

import (
	"bytes"
	"fmt"
	"strings"

	"baton/router/head"
)

// Bounds of what the kernel program reads of a head, in bytes.
const (
	MaxKernelName = 63  // of a field
	maxHostValue  = 255 // of Host
	maxPortDigits = 5
	maxDigits     = 15 // of Content-Length
	maxLength     = 23 // of Content-Length with the blanks in front
)

// Unread says why the kernel program does not look up a request with a head of so many bytes, "" if it does. It is
// the model of bpf/router/parse.h and host.h: a test compares both on generated heads.
func Unread(req *head.Request, size int) string {
	switch {
	case req.Form != head.Origin:
		return "the target is not a path"
	case MethodID(req.Method) == 0:
		return "the kernel looks up GET, HEAD, POST, PUT and DELETE alone"
	case req.Blank:
		return "an empty line is in front of it"
	}
	if why := UnreadHead(req, size); why != "" {
		return why
	}
	for name, value := range req.Fields.Lines() {
		if bytes.EqualFold(name, []byte("host")) && !isPlainHost(withoutBlank(value)) {
			return "its Host is more than a name of letters, digits, - . and _, or an IPv6 address, and a port"
		}
	}
	return ""
}

// UnreadHead says why the kernel program does not read a head of so many bytes, even if user space routes it; "" if
// it does.
func UnreadHead(req *head.Request, size int) string {
	switch {
	case size > MaxKernelHead:
		return fmt.Sprintf("the head has more than %d bytes", MaxKernelHead)
	case req.ContentLength < 0:
		return "the body comes in chunks"
	case req.Upgrade:
		return "it requests an upgrade"
	case req.Form == head.Origin && MethodID(req.Method) != 0 && !isEscaped(req.Target):
		return "its query has a % that begins no escape"
	}
	for name, value := range req.Fields.Lines() {
		if why := unreadField(name, value); why != "" {
			return why
		}
	}
	return ""
}

// unreadField says why the kernel program does not read a field; value is all that follows the colon.
func unreadField(name, value []byte) string {
	lower := head.Lower(name)
	switch {
	case len(name) > MaxKernelName:
		return fmt.Sprintf("the name of a field has more than %d bytes", MaxKernelName)
	case len(cutWords(name)) < len(name):
		return fmt.Sprintf("the name of field %s has more than letters, digits, hyphens, dots and underscores", name)
	case string(lower) == "content-length" && !isPlainLength(value):
		return "its Content-Length is written in an unusual way"
	case string(lower) == "connection" && !isOneOf(value, "close", "keep-alive"):
		return "it has other connection options than close or keep-alive"
	case string(lower) == "expect" && !isOneOf(value, "100-continue"):
		return "its Expect has blanks around 100-continue"
	case len(name) > len("content-length") && bytes.HasPrefix(lower, []byte("content-length")),
		bytes.HasPrefix(lower, []byte("transfer-encodin")):
		return fmt.Sprintf("field %s begins like one of framing", name)
	}
	return ""
}

// cutWords returns what is in front of the first byte that is no letter, digit, hyphen, dot or underscore.
func cutWords(b []byte) []byte {
	for i, c := range b {
		if (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && c != '-' && c != '.' && c != '_' {
			return b[:i]
		}
	}
	return b
}

// withoutBlank takes away the one blank behind the colon that the kernel program expects.
func withoutBlank(value []byte) []byte { return bytes.TrimPrefix(value, []byte(" ")) }

func isOneOf(value []byte, options ...string) bool {
	value = withoutBlank(value)
	for _, option := range options {
		if bytes.EqualFold(value, []byte(option)) {
			return true
		}
	}
	return false
}

func isPlainLength(value []byte) bool {
	digits := bytes.TrimLeft(value, " ")
	return len(value) <= maxLength && len(digits) <= maxDigits && isDecimal(digits)
}

func isDecimal(b []byte) bool {
	for _, c := range b {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// isPlainHost reports whether the kernel program reads a value of Host that head.Parse accepts.
func isPlainHost(value []byte) bool {
	name := cutWords(value)
	port := value[len(name):]
	if len(name) == 0 && len(port) > 0 && port[0] == '[' {
		end := bytes.IndexByte(value, ']')
		name, port = value[:end], value[end+1:]
		if bytes.IndexByte(name, '.') >= 0 { // with an IPv4 address
			return false
		}
	}
	if len(name) > maxHostValue || len(port) == 0 {
		return len(name) <= maxHostValue
	}
	return port[0] == ':' && len(port)-1 <= maxPortDigits && isDecimal(port[1:])
}

// isEscaped reports whether each % of a target begins an escape.
func isEscaped(target []byte) bool {
	const hex = "0123456789abcdefABCDEF"
	for {
		_, rest, found := bytes.Cut(target, []byte("%"))
		if !found {
			return true
		}
		if len(rest) < 2 || !strings.Contains(hex, string(rest[:1])) || !strings.Contains(hex, string(rest[1:2])) {
			return false
		}
		target = rest[2:]
	}
}
