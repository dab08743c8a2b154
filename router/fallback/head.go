package fallback

import (
	"bytes"
	"errors"
	"net/http"

	"baton/router/head"
)

// framing is the extent of a request by RFC 9112 section 6.
type framing struct {
	length  int64 // length of the body, if not chunked
	chunked bool
	upgrade bool // another protocol follows, if the surrogate agrees
}

// checkHead parses the head at the start of b, as the router does before a handoff: both refuse the same requests.
// n is the head's length, 0 if it is incomplete; a non-nil verdict refuses the request.
func checkHead(b []byte) (f framing, n int, refused *Verdict) {
	req, n, err := head.Parse(b)
	var bad *head.Error
	switch {
	case errors.As(err, &bad):
		return framing{}, 0, &Verdict{bad.Status, bad.Reason}
	case err != nil:
		return framing{}, 0, nil
	}
	var upgrade, upgrades, clear bool
	for name, value := range req.Fields.All() {
		switch {
		case bytes.EqualFold(name, []byte("Connection")):
			upgrade = upgrade || lists(value, "upgrade")
		case bytes.EqualFold(name, []byte("Upgrade")):
			upgrades = true
			// Cleartext HTTP/2 would tunnel past the routes; RFC 9113 section 3.1 has deprecated it.
			clear = clear || lists(value, "h2c")
		}
	}
	return framing{
		length: max(req.ContentLength, 0), chunked: req.ContentLength < 0,
		upgrade: upgrade && upgrades && !clear && req.Version == head.HTTP11,
	}, n, nil
}

func malformed(reason string) *Verdict { return &Verdict{http.StatusBadRequest, reason} }

// lists reports whether a comma-separated list contains the member, ignoring case.
func lists(list []byte, member string) bool {
	for element := range bytes.SplitSeq(list, []byte(",")) {
		if bytes.EqualFold(bytes.Trim(element, " \t"), []byte(member)) {
			return true
		}
	}
	return false
}
