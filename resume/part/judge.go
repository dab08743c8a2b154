package part

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Answer is the head of a final answer to a request that Have.Ask has made.
type Answer struct {
	Status int
	Header http.Header
	Length int64 // of the content by its framing, -1: it ends with its last chunk, with its stream or with the connection
}

// Action is what an answer comes to.
type Action int

// The actions.
const (
	Refuse   Action = iota // nothing of it can be used: Verdict.Reason
	Append                 // its bytes go to Offset, but for the first Skip
	Restart                // what there is is of no use any more: begin again, with this answer's bytes if Verdict.Body, else with another request
	Complete               // nothing is missing
	Later                  // the server asks for patience
)

// Reason is why an answer cannot be used, or what is kept.
type Reason string

// The reasons.
const (
	Changed      Reason = "the file is another one now"
	Unproven     Reason = "nothing shows that it is still the same file"
	Recoded      Reason = "the content coding is another one"
	Relength     Reason = "the same validator comes with another length"
	Gap          Reason = "it begins behind the first missing byte"
	Behind       Reason = "it ends before the first missing byte"
	BadRange     Reason = "its Content-Range is missing, invalid or there twice"
	Unrequested  Reason = "it has parts where none was asked for"
	Multipart    Reason = "it has several parts"
	Misframed    Reason = "its Content-Length is not that of its Content-Range"
	Unsatisfied  Reason = "the range is refused"
	Overloaded   Reason = "the server cannot answer now"
	StatusRefuse Reason = "the server refuses"
)

// Verdict is what Judge says.
type Verdict struct {
	Action Action
	Have   Have          // Append, Restart: as it is before the first byte of this answer is taken
	Skip   int64         // Append: bytes of the content in front of Offset
	Equal  int64         // Append: of those skipped, so many last ones must equal what is kept before any is taken
	Body   bool          // Restart: the content is the beginning of the new representation
	Size   int64         // Append, Restart with Body: bytes that are taken at most, -1: all to the end of the content
	Reason Reason        // of the others, and of Restart
	After  time.Duration // Later: not before, 0 if the server does not say
}

// Judge says what an answer means to what there is. It believes what answers say of themselves: a server that gives other bytes than it says
// is found by digests alone.
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

// Transient tells whether the same request may be answered another time: curl's list for --retry, and 425 (RFC 8470, section 5.2).
func Transient(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout, 522, 524:
		return true
	}
	return false
}

// whole is a 200: the server has ignored the range, or the condition was false. The Have of a first answer is like any other, without
// anything that it has to fit to.
func (h *Have) whole(a Answer) Verdict {
	seen := h.seen(a, a.Length)
	if a.Status == http.StatusNonAuthoritativeInfo {
		seen.Validator, seen.Digests = Validator{}, nil // those of what a proxy has changed (RFC 9110, section 15.3.4)
	}
	if h.Suffix > 0 && !h.kept() {
		if a.Length < 0 {
			return Verdict{Reason: Unsatisfied} // where the last bytes begin cannot be told
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

// contradicts tells whether a representation of this length, -1 for unknown, cannot be what is kept.
func (h *Have) contradicts(length int64) bool {
	return length >= 0 && (h.Length >= 0 && length != h.Length || length < h.Offset)
}

// restarted is a 200 that is taken from its first wanted byte on.
func (h Have) restarted(old *Have) Verdict {
	if old.Suffix > 0 {
		return Verdict{Action: Restart, Have: old.Again()} // where the last bytes begin is another place now
	}
	h.Offset = h.From
	if h.Length >= 0 && h.From > h.Length {
		return Verdict{Reason: Unsatisfied}
	}
	v := h.take(h, 0, -1, 0)
	v.Action, v.Body = Restart, true
	return v
}

// partial is a 206.
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

// begins is a 206 where nothing is kept.
func (h Have) begins(old *Have, r ContentRange) Verdict {
	switch {
	case old.Suffix > 0 && r.Length < 0:
		return Verdict{Reason: BadRange} // the last bytes of what?
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

// take appends the content of an answer, bytes [first, end) of the representation; end is -1 for all. What is known is kept, as combined
// answers have the fields of the first one; what the answer adds to it is seen.
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

// unsatisfied is a 416. Its Content-Range has the length of what the server has now (RFC 9110, section 15.5.17).
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
	seen := Have{Length: next.Length, Validator: ParseValidator(a.Header), Coding: h.Coding} // the content is about the error
	same, _ := h.same(&seen)
	switch {
	case known && r.Length == h.Offset && same == yes && (h.Length < 0 || h.Length == r.Length):
		return Verdict{Action: Complete, Have: next}
	case known && r.Length > h.first() && same != no:
		return Verdict{Reason: Unsatisfied} // it could be satisfied
	case known || same == no:
		return Verdict{Action: Restart, Have: h.Again(), Reason: Changed}
	}
	return Verdict{Reason: Unsatisfied}
}

// seen is what the answer says of its representation; what is wanted, and the offset, are those of h.
func (h *Have) seen(a Answer, length int64) Have {
	s := *h
	s.Length, s.Validator, s.Digests, s.Coding = length, ParseValidator(a.Header), ParseDigests(a.Header, ReprDigest), coding(a.Header)
	return s
}

// same tells whether an answer is of the representation that is kept; if not, why.
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

// coding is the content coding: "" for none.
func coding(h http.Header) string {
	var codings []string
	for _, line := range h.Values("Content-Encoding") {
		for c := range strings.SplitSeq(line, ",") {
			switch c = strings.ToLower(strings.TrimSpace(c)); c {
			case "", "identity":
			case "x-gzip", "x-compress": // the same as without x- (RFC 9110, sections 8.4.1.1 and 8.4.1.3)
				codings = append(codings, c[2:])
			default:
				codings = append(codings, c)
			}
		}
	}
	return strings.Join(codings, ", ")
}

// retryAfter reads Retry-After (RFC 9110, section 10.2.3): a date counts from the answer's own, so that nobody's clock matters.
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
