package explain

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"baton/document"
	"baton/router/config"
)

func (q *Question) method() string {
	if q.Method == "" {
		return "GET"
	}
	return q.Method
}

// firstLine is the request as asked for, for people.
func (q *Question) firstLine() string {
	if q.Head != nil {
		line, _, _ := strings.Cut(string(q.Head), "\r\n")
		return strconv.Quote(document.Clip(line))
	}
	return strings.TrimSpace(q.method() + " " + q.URL)
}

// secure reports whether the client uses TLS.
func (q *Question) secure() bool {
	scheme, _, ok := strings.Cut(q.URL, "://")
	return ok && strings.EqualFold(scheme, "https")
}

// bytes returns the head that a client would send, and the URL's authority. Nothing is normalized: the router parses raw bytes.
func (q *Question) bytes() (raw []byte, authority string, err error) {
	if q.Head != nil {
		return q.Head, "", nil
	}
	if strings.ContainsAny(q.URL+q.method()+strings.Join(q.Headers, ""), "\r\n") {
		return nil, "", errors.New("line break in the request")
	}
	for _, name := range q.ALPN {
		if name == "" || len(name) > 255 {
			return nil, "", fmt.Errorf("%q is not a protocol that a hello can offer: it has %d bytes, not 1 to 255 (such as h2)", document.Clip(name), len(name))
		}
	}
	rest := q.URL
	if scheme, after, ok := strings.Cut(rest, "://"); ok && !strings.ContainsAny(scheme, "/?") {
		if !strings.EqualFold(scheme, "http") && !q.secure() {
			return nil, "", fmt.Errorf("%q is neither an http nor an https URL", q.URL)
		}
		rest = after
	}
	rest, _, _ = strings.Cut(rest, "#") // clients do not send the fragment
	authority, target := rest, "/"
	if end := strings.IndexAny(rest, "/?"); end >= 0 {
		authority, target = rest[:end], rest[end:]
	}
	if authority == "" {
		return nil, "", fmt.Errorf("%q has no host", q.URL)
	}
	if target[0] == '?' {
		target = "/" + target
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\n", q.method(), target)
	hasHost := false
	for _, h := range q.Headers {
		name, _, ok := strings.Cut(h, ":")
		if !ok {
			return nil, "", fmt.Errorf("header %q is not Name: value", h)
		}
		hasHost = hasHost || strings.EqualFold(name, "Host")
		b.WriteString(h + "\r\n")
	}
	if !hasHost {
		b.WriteString("Host: " + authority + "\r\n")
	}
	b.WriteString("\r\n")
	return []byte(b.String()), authority, nil
}

// vip finds the VIP of the question. Names are not resolved.
func (q *Question) vip(cfg *config.Config, authority string) (int, error) {
	host, port := authority, uint16(80)
	ending := ""
	if q.secure() {
		port, ending = 443, " for https"
	}
	if colon := strings.LastIndexByte(authority, ':'); colon > strings.LastIndexByte(authority, ']') {
		number, err := strconv.ParseUint(authority[colon+1:], 10, 16)
		if err != nil && authority[colon+1:] != "" {
			return 0, fmt.Errorf("%q has no valid port", q.URL)
		}
		host = authority[:colon]
		if err == nil {
			port = uint16(number)
		}
	}
	want, literal := q.VIP, q.VIP.IsValid()
	if address, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil && !literal {
		want, literal = netip.AddrPortFrom(address.Unmap(), port), true
	}
	known := make([]string, len(cfg.VIPs))
	for i, v := range cfg.VIPs {
		if v.Protocol != config.QUIC && v.Secure() == q.secure() && (literal && v.Address == want || !literal && v.Address.Port() == port) {
			return i, nil
		}
		known[i] = v.Address.String()
		switch {
		case v.Protocol == config.QUIC:
			known[i] += " for QUIC"
		case v.Secure():
			known[i] += " for https"
		}
	}
	what := fmt.Sprintf("port %d", port) + ending
	if literal {
		what = want.String() + ending
	}
	return 0, fmt.Errorf("no VIP is at %s (there is %s)", what, strings.Join(known, ", "))
}
