package part

import (
	"fmt"
	"net/http"
)

// Have is what there is of a file, and what is wanted of it. Fresh makes one for a download that begins.
type Have struct {
	From   int64 // first byte that is wanted
	Until  int64 // end of what is wanted, exclusive; -1: of the representation
	Suffix int64 // so many of the last bytes are wanted, if not 0; From is known once the first answer has come
	Offset int64 // first byte that is missing: bytes [From, Offset) are there

	// Of the representation that those are of, from the first answer.
	Length    int64 // -1: not known
	Validator Validator
	Digests   Digests // of the whole
	Coding    string  // content coding, "" is none

	Overlap int64 // bytes before Offset that may be read again and compared, where nothing else tells that they are of the same representation
}

// Fresh is a download of all bytes of a file, of which none is there.
func Fresh() Have { return Have{Until: -1, Length: -1} }

// End is where the download ends, exclusive; -1 as long as it is not known.
func (h *Have) End() int64 {
	if h.Length < 0 {
		return h.Until
	}
	if h.Until < 0 {
		return h.Length
	}
	return min(h.Until, h.Length)
}

// Done tells whether all that is wanted is there.
func (h *Have) Done() bool { return h.End() >= 0 && h.Offset >= h.End() }

// Again is the same download with nothing there and nothing known.
func (h *Have) Again() Have {
	again := Have{From: h.From, Until: h.Until, Suffix: h.Suffix, Length: -1, Overlap: h.Overlap}
	if again.Suffix > 0 {
		again.From = 0
	}
	again.Offset = again.From
	return again
}

// kept tells whether there are bytes that an answer has to fit to.
func (h *Have) kept() bool { return h.Offset > h.From }

// Combinable tells whether there is a way to find out that another answer is of the same representation.
func (h *Have) Combinable() bool {
	return h.Validator.Strong() || len(h.Digests) > 0 || h.Overlap > 0
}

// first is the first byte to ask for: some way back to have something to compare; and a byte back where the length is not known, so that
// the request can be satisfied if the offset is the end, as an answer 416 would have no proof.
func (h *Have) first() int64 {
	switch {
	case !h.kept():
		return h.Offset
	case !h.Combinable():
		return h.From
	case !h.Validator.Strong() && len(h.Digests) == 0:
		return max(h.From, h.Offset-h.Overlap)
	case h.Length < 0:
		return h.Offset - 1
	}
	return h.Offset
}

// Ask sets the fields of the request for what is missing (RFC 9110, sections 13.1.5 and 14.2).
func (h *Have) Ask(fields http.Header) {
	fields.Del("Range")
	fields.Del("If-Range")
	first := h.first()
	switch {
	case h.Suffix > 0 && !h.kept():
		fields.Set("Range", fmt.Sprintf("bytes=-%d", h.Suffix))
		return
	case h.Until >= 0:
		fields.Set("Range", fmt.Sprintf("bytes=%d-%d", first, h.Until-1))
	case first > 0:
		fields.Set("Range", fmt.Sprintf("bytes=%d-", first))
	default:
		return
	}
	if condition := h.Validator.IfRange(); condition != "" && h.kept() {
		fields.Set("If-Range", condition)
	}
}
