package part

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Answer is the head of the final answer to a request of Have.Ask.
type Answer struct {
	Status int
	Header http.Header
	Length int64 // of the content, by its framing; -1: it ends with its last chunk, its stream or the connection
}

// Action is what to do with an answer.
type Action int

// The actions.
const (
	Refuse   Action = iota // nothing is usable: see Verdict.Reason
	Append                 // its bytes go to Offset, after the first Skip
	Restart                // discard the existing bytes and start over, with this answer's bytes if Verdict.Body, else with another request
	Complete               // nothing is missing
	Later                  // the server asks to retry later
)

// Reason is why an answer, or the existing bytes, cannot be used.
type Reason string

// The reasons.
const (
	Changed      Reason = "the file has changed"
	Unproven     Reason = "nothing proves that the file is still the same"
	Recoded      Reason = "the content coding has changed"
	Relength     Reason = "the length has changed under the same validator"
	Gap          Reason = "it starts after the first missing byte"
	Behind       Reason = "it ends before the first missing byte"
	BadRange     Reason = "its Content-Range is missing, invalid or duplicated"
	Unrequested  Reason = "it is a part although none was requested"
	Multipart    Reason = "it has several parts"
	Misframed    Reason = "its Content-Length contradicts its Content-Range"
	Unsatisfied  Reason = "the range is refused"
	Overloaded   Reason = "the server is busy"
	StatusRefuse Reason = "the server refuses the request"
)

// Verdict is the result of Judge.
type Verdict struct {
	Action Action
	Have   Have          // Append, Restart: the state before the first byte of this answer
	Skip   int64         // Append: bytes of the content before Offset
	Equal  int64         // Append: this many of the last skipped bytes must equal the existing ones
	Body   bool          // Restart: the content is the beginning of the new representation
	Size   int64         // Append, Restart with Body: most bytes to take, -1: the whole content
	Reason Reason        // of the other actions, and of Restart
	After  time.Duration // Later: not before, 0 if the server does not say
}

// Judge decides what an answer means for the existing bytes. It trusts what answers say about themselves: only digests reveal a server that
// sends other bytes.
func Judge(h Have, a Answer) Verdict {
	switch {
	case a.Status == http.StatusOK || a.Status == http.StatusNonAuthoritativeInfo:
		return h.whole(a)
	case a.Status == http.StatusPartialContent:
		return h.partial(a)
	case a.Status == http.StatusNoContent || a.Status == http.StatusResetContent:
		if h.kept() {
			return Verdict{Reason: StatusRefuse}
		}
		h.Length = h.Offset
		return Verdict{Action: Complete, Have: h}
	case a.Status == http.StatusRequestedRangeNotSatisfiable:
		return h.unsatisfied(a)
	case Transient(a.Status):
		return Verdict{Action: Later, Reason: Overloaded, After: retryAfter(a.Header)}
	}
	return Verdict{Reason: StatusRefuse}
}

// Transient reports whether the same request may succeed later: curl's list for --retry, and 425 (RFC 8470, section 5.2).
func Transient(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout, 522, 524:
		return true
	}
	return false
}

// whole judges a 200: the server has ignored the range, or the condition was false. A first answer is no exception, except that there is
// nothing to match.
func (h *Have) whole(a Answer) Verdict {
	seen := h.seen(a, a.Length)
	if a.Status == http.StatusNonAuthoritativeInfo {
		seen.Validator, seen.Digests = Validator{}, nil // those of content that a proxy has changed (RFC 9110, section 15.3.4)
	}
	if h.Suffix > 0 && !h.kept() {
		if a.Length < 0 {
			return Verdict{Reason: Unsatisfied} // the start of the last bytes is unknown
		}
		seen.From = max(0, a.Length-h.Suffix)
		seen.Offset, seen.Until = seen.From, -1
	}
	if h.kept() {
		same, reason := h.same(&seen)
		switch {
		case same == yes && h.contradicts(a.Length):
			return Verdict{Reason: Relength}
		case same == yes:
			return h.take(seen, 0, -1, 0)
		case same == unknown && reason == Unproven && h.Overlap > 0:
			return h.take(seen, 0, -1, min(h.Overlap, h.Offset-h.From))
		}
		v := seen.restarted(h)
		if v.Action == Restart {
			v.Reason = reason
		}
		return v
	}
	if a.Length >= 0 && seen.Offset > a.Length {
		return Verdict{Reason: Unsatisfied}
	}
	return seen.take(seen, 0, -1, 0)
}

// contradicts reports whether a representation of this length, -1 for unknown, cannot be the existing one.
func (h *Have) contradicts(length int64) bool {
	return length >= 0 && (h.Length >= 0 && length != h.Length || length < h.Offset)
}

// restarted judges a 200 that is used from its first requested byte on.
func (h Have) restarted(old *Have) Verdict {
	if old.Suffix > 0 {
		return Verdict{Action: Restart, Have: old.Again()} // the last bytes start elsewhere now
	}
	h.Offset = h.From
	if h.Length >= 0 && h.From > h.Length {
		return Verdict{Reason: Unsatisfied}
	}
	v := h.take(h, 0, -1, 0)
	v.Action, v.Body = Restart, true
	return v
}

// partial judges a 206.
func (h *Have) partial(a Answer) Verdict {
	if media, _, _ := strings.Cut(a.Header.Get("Content-Type"), ";"); strings.EqualFold(strings.TrimSpace(media), "multipart/byteranges") {
		return Verdict{Reason: Multipart}
	}
	r, err := ParseContentRange(a.Header)
	if err != nil || r.First < 0 {
		return Verdict{Reason: BadRange}
	}
	if a.Length >= 0 && a.Length != r.Last-r.First+1 {
		return Verdict{Reason: Misframed}
	}
	seen := h.seen(a, r.Length)
	if !h.kept() {
		return seen.begins(h, r)
	}
	same, reason := h.same(&seen)
	equal := int64(0)
	switch {
	case same == yes && (h.contradicts(r.Length) || h.Length >= 0 && r.Last >= h.Length):
		return Verdict{Reason: Relength}
	case r.First > h.Offset:
		return Verdict{Reason: Gap}
	case same == unknown && reason == Unproven && h.Overlap > 0 && r.First < h.Offset:
		equal = min(h.Overlap, h.Offset-max(r.First, h.From))
	case same != yes:
		return Verdict{Action: Restart, Have: h.Again(), Reason: reason}
	}
	return h.take(seen, r.First, r.Last+1, equal)
}

// begins judges a 206 if no bytes exist.
func (h Have) begins(old *Have, r ContentRange) Verdict {
	switch {
	case old.Suffix > 0 && r.Length < 0:
		return Verdict{Reason: BadRange} // the start of the last bytes is unknown
	case old.Suffix > 0:
		h.From, h.Until = max(0, r.Length-old.Suffix), -1
		h.Offset = h.From
	case old.first() == 0 && old.Until < 0:
		return Verdict{Reason: Unrequested}
	}
	if r.First > h.Offset {
		return Verdict{Reason: Gap}
	}
	return h.take(h, r.First, r.Last+1, 0)
}

// take appends the content of an answer, bytes [first, end) of the representation; end is -1 for all. Known fields stay, because combined
// answers have the fields of the first one; seen adds those of the answer.
func (h *Have) take(seen Have, first, end, equal int64) Verdict {
	next := *h
	next.From, next.Until, next.Offset = seen.From, seen.Until, max(h.Offset, seen.Offset)
	if next.Length < 0 {
		next.Length = seen.Length
	}
	if len(next.Digests) == 0 {
		next.Digests = seen.Digests
	}
	limit := next.End()
	if end >= 0 && (limit < 0 || end < limit) {
		limit = end
	}
	switch {
	case next.Done():
		if equal > 0 && (end < 0 || end >= next.Offset) {
			return Verdict{Action: Append, Have: next, Skip: next.Offset - first, Equal: equal}
		}
		return Verdict{Action: Complete, Have: next}
	case limit >= 0 && limit <= next.Offset:
		return Verdict{Reason: Behind}
	}
	size := int64(-1)
	if limit >= 0 {
		size = limit - next.Offset
	}
	return Verdict{Action: Append, Have: next, Skip: next.Offset - first, Equal: equal, Size: size}
}

// unsatisfied judges a 416. Its Content-Range has the current length (RFC 9110, section 15.5.17).
func (h *Have) unsatisfied(a Answer) Verdict {
	r, err := ParseContentRange(a.Header)
	known := err == nil && r.First < 0
	if !h.kept() {
		return Verdict{Reason: Unsatisfied}
	}
	next := *h
	next.Length = -1
	if known {
		next.Length = r.Length
	}
	seen := Have{Length: next.Length, Validator: ParseValidator(a.Header), Coding: h.Coding} // the content describes the error
	same, _ := h.same(&seen)
	switch {
	case known && r.Length == h.Offset && same == yes && (h.Length < 0 || h.Length == r.Length):
		return Verdict{Action: Complete, Have: next}
	case known && r.Length > h.first() && same != no:
		return Verdict{Reason: Unsatisfied} // the range was satisfiable
	case known || same == no:
		return Verdict{Action: Restart, Have: h.Again(), Reason: Changed}
	}
	return Verdict{Reason: Unsatisfied}
}

// seen returns what the answer says about its representation; the requested part, and the offset, are those of h.
func (h *Have) seen(a Answer, length int64) Have {
	s := *h
	s.Length, s.Validator, s.Digests, s.Coding = length, ParseValidator(a.Header), ParseDigests(a.Header, ReprDigest), coding(a.Header)
	return s
}

// same reports whether an answer is of the existing representation; if not, why.
func (h *Have) same(seen *Have) (answer, Reason) {
	if h.Coding != seen.Coding {
		return no, Recoded
	}
	result := h.Digests.same(seen.Digests)
	if result == unknown {
		result = h.Validator.same(seen.Validator)
	}
	if result == unknown && h.contradicts(seen.Length) {
		result = no
	}
	switch result {
	case no:
		return no, Changed
	case unknown:
		return unknown, Unproven
	}
	return yes, ""
}

// coding returns the content coding: "" for none.
func coding(h http.Header) string {
	var codings []string
	for _, line := range h.Values("Content-Encoding") {
		for c := range strings.SplitSeq(line, ",") {
			switch c = strings.ToLower(strings.TrimSpace(c)); c {
			case "", "identity":
			case "x-gzip", "x-compress": // equivalent to those without x- (RFC 9110, sections 8.4.1.1 and 8.4.1.3)
				codings = append(codings, c[2:])
			default:
				codings = append(codings, c)
			}
		}
	}
	return strings.Join(codings, ", ")
}

// retryAfter parses Retry-After (RFC 9110, section 10.2.3): a date is relative to the answer's own date, so clocks need not agree.
func retryAfter(h http.Header) time.Duration {
	value := single(h, "Retry-After")
	if n, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	at, errAt := http.ParseTime(value)
	now, errNow := http.ParseTime(single(h, "Date"))
	if errAt != nil || errNow != nil {
		return 0
	}
	return max(0, at.Sub(now))
}
