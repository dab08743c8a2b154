package fallback

import (
	"bytes"
	"errors"
	"net/http"
	"net/url"

	"baton/router/head"
)

// framing is how far a request reaches: what RFC 9112 section 6 derives from its head.
type framing struct {
	length  int64 // octets of the body, when it is not chunked
	chunked bool
	upgrade bool // another protocol follows, if the surrogate agrees
}

// checkHead reads the head that b begins with, as the router does ahead of a handoff: a request is refused by both or by none.
// In addition it refuses what only a proxy must understand. n is the head's length, 0 when it is not yet complete; a non-nil
// verdict says why the request must not be passed on.
func checkHead(b []byte) (f framing, n int, refused *Verdict) {
	req, n, err := head.Parse(b)
	var bad *head.Error
	switch {
	case errors.As(err, &bad):
		return framing{}, 0, &Verdict{bad.Status, bad.Reason}
	case err != nil:
		return framing{}, 0, nil
	}
	if req.Form != head.Asterisk {
		if _, err := url.ParseRequestURI(string(req.Target)); err != nil { // net/http would say so, without our hooks
			return framing{}, 0, malformed("malformed request target")
		}
	}
	var upgrade, upgrades, clear bool
	for name, value := range req.Fields.All() {
		switch {
		case bytes.EqualFold(name, []byte("Expect")):
			if !bytes.EqualFold(value, []byte("100-continue")) {
				return framing{}, 0, &Verdict{http.StatusExpectationFailed, "unsupported expectation"}
			}
		case bytes.EqualFold(name, []byte("Connection")):
			upgrade = upgrade || lists(value, "upgrade")
		case bytes.EqualFold(name, []byte("Upgrade")):
			upgrades = true
			// HTTP/2 in the clear would be a tunnel through the routes; RFC 9113 section 3.1 has dropped it.
			clear = clear || lists(value, "h2c")
		}
	}
	return framing{
		length: max(req.ContentLength, 0), chunked: req.ContentLength < 0,
		upgrade: upgrade && upgrades && !clear && req.Version == head.HTTP11,
	}, n, nil
}

func malformed(reason string) *Verdict { return &Verdict{http.StatusBadRequest, reason} }

// lists tells whether a comma-separated list has the member, in any case.
func lists(list []byte, member string) bool {
	for element := range bytes.SplitSeq(list, []byte(",")) {
		if bytes.EqualFold(bytes.Trim(element, " \t"), []byte(member)) {
			return true
		}
	}
	return false
}
