package part

import (
	"fmt"
	"net/http"
)

// Have is the requested part of a file, and how much of it exists already. Fresh returns one for a new download.
type Have struct {
	From   int64 // first requested byte
	Until  int64 // end of the requested bytes, exclusive; -1: of the representation
	Suffix int64 // if not 0, request only this many last bytes; From is known after the first answer
	Offset int64 // first missing byte: bytes [From, Offset) exist

	// Of the representation of those bytes, from the first answer.
	Length    int64 // -1: unknown
	Validator Validator
	Digests   Digests // of the whole representation
	Coding    string  // content coding, "" for none

	Overlap int64 // bytes before Offset that may be reread and compared, if nothing else proves that they are of the same representation
}

// Fresh is a download of a whole file of which nothing exists.
func Fresh() Have { return Have{Until: -1, Length: -1} }

// End returns where the download ends, exclusive; -1 while unknown.
func (h *Have) End() int64 {
	if h.Length < 0 {
		return h.Until
	}
	if h.Until < 0 {
		return h.Length
	}
	return min(h.Until, h.Length)
}

// Done reports whether nothing is missing.
func (h *Have) Done() bool { return h.End() >= 0 && h.Offset >= h.End() }

// Again returns the same download with nothing there and nothing known.
func (h *Have) Again() Have {
	again := Have{From: h.From, Until: h.Until, Suffix: h.Suffix, Length: -1, Overlap: h.Overlap}
	if again.Suffix > 0 {
		again.From = 0
	}
	again.Offset = again.From
	return again
}

// kept reports whether there are bytes that an answer has to match.
func (h *Have) kept() bool { return h.Offset > h.From }

// Combinable reports whether another answer can be proven to be of the same representation.
func (h *Have) Combinable() bool {
	return h.Validator.Strong() || len(h.Digests) > 0 || h.Overlap > 0
}

// first returns the first byte to request: earlier than Offset if bytes are to be compared; and one byte earlier if the length is unknown,
// so that the range is satisfiable at the end of the file, because a 416 would prove nothing.
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

// Ask sets the fields of the request for the missing part (RFC 9110, sections 13.1.5 and 14.2).
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
