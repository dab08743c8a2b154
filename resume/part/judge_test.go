package part_test

import (
	"net/http"
	"testing"
	"time"

	"baton/resume/part"
)

// have is half of a file of 1000 bytes with a strong tag.
func have(change func(*part.Have)) part.Have {
	h := part.Fresh()
	h.Offset, h.Length, h.Validator = 500, 1000, part.Validator{Tag: `"a"`}
	if change != nil {
		change(&h)
	}
	return h
}

func TestAsk(t *testing.T) {
	tests := []struct {
		name           string
		h              part.Have
		rng, condition string
	}{
		{"all of a file", part.Fresh(), "", ""},
		{"the rest", have(nil), "bytes=500-", `"a"`},
		{"the rest of what has no known length: a byte more", have(func(h *part.Have) { h.Length = -1 }), "bytes=499-", `"a"`},
		{"up to an end", have(func(h *part.Have) { h.Until = 800 }), "bytes=500-799", `"a"`},
		{"from the middle", part.Have{From: 100, Offset: 100, Until: -1, Length: -1}, "bytes=100-", ""},
		{"the last bytes", part.Have{Suffix: 100, Until: -1, Length: -1}, "bytes=-100", ""},
		{"weak tag", have(func(h *part.Have) { h.Validator.WeakTag = true }), "", ""},
		{"weak tag, overlap", have(func(h *part.Have) { h.Validator.WeakTag, h.Overlap = true, 64 }), "bytes=436-", ""},
		{"no validator, more overlap than there is", have(func(h *part.Have) { h.Validator.Tag, h.Overlap = "", 501 }), "", ""},
		{"digest", have(func(h *part.Have) { h.Validator.Tag, h.Digests = "", part.Digests{"sha-256": nil} }), "bytes=500-", ""},
		{"strong date", have(func(h *part.Have) { h.Validator = part.Validator{Date: noon} }), "bytes=500-", noon},
		{"weak date", have(func(h *part.Have) { h.Validator = part.Validator{Date: noon, WeakDate: true} }), "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fields := header("Range: bytes=1-2", `If-Range: "old"`)
			tt.h.Ask(fields)
			if rng, condition := fields.Get("Range"), fields.Get("If-Range"); rng != tt.rng || condition != tt.condition {
				t.Errorf("Range: %q, If-Range: %q; want %q, %q", rng, condition, tt.rng, tt.condition)
			}
		})
	}
}

// is is the part of a verdict that the table has.
type is struct {
	action      part.Action
	skip, equal int64
	size        int64
	body        bool
	reason      part.Reason
	after       time.Duration
}

func TestJudge(t *testing.T) {
	const rest = "Content-Range: bytes 500-999/1000"
	var (
		half   = have(nil)
		open   = have(func(h *part.Have) { h.Length = -1 })
		none   = have(func(h *part.Have) { h.Validator = part.Validator{} })
		lapped = have(func(h *part.Have) { h.Validator, h.Overlap = part.Validator{}, 64 })
		dated  = have(func(h *part.Have) { h.Validator = part.Validator{Date: noon} })
		early  = have(func(h *part.Have) { h.Validator.Date, h.Validator.WeakDate = noon, true })
		packed = have(func(h *part.Have) { h.Coding = "gzip" })
		ranged = part.Have{From: 100, Offset: 100, Until: 200, Length: -1}
		last   = part.Have{Suffix: 100, Until: -1, Length: -1}
		sum    = have(func(h *part.Have) {
			h.Validator, h.Digests = part.Validator{}, part.Digests{"sha-256": make([]byte, 32)}
		})
	)
	const digest = "Repr-Digest: sha-256=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:"
	const other = "Repr-Digest: sha-256=:BAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:"
	tests := []struct {
		name   string
		have   part.Have
		status int
		h      http.Header
		length int64
		want   is
	}{
		{"first answer", part.Fresh(), 200, header(`ETag: "a"`), 1000, is{action: part.Append, size: 1000}},
		{"first answer without a length", part.Fresh(), 200, nil, -1, is{action: part.Append, size: -1}},
		{"an empty file", part.Fresh(), 200, nil, 0, is{action: part.Complete}},
		{"no content", part.Fresh(), 204, nil, 0, is{action: part.Complete}},
		{"a part that was not asked for", part.Fresh(), 206, header("Content-Range: bytes 0-999/1000"), 1000, is{reason: part.Unrequested}},
		{"range ignored at first", ranged, 200, nil, 1000, is{action: part.Append, skip: 100, size: 100}},
		{"range, first answer", ranged, 206, header("Content-Range: bytes 100-199/1000"), 100, is{action: part.Append, size: 100}},
		{"range behind the end, ignored", ranged, 200, nil, 50, is{reason: part.Unsatisfied}},
		{"range behind the end", ranged, 416, header("Content-Range: bytes */50"), 0, is{reason: part.Unsatisfied}},
		{"last bytes", last, 206, header("Content-Range: bytes 900-999/1000"), 100, is{action: part.Append, size: 100}},
		{"last bytes of what?", last, 206, header("Content-Range: bytes 900-999/*"), 100, is{reason: part.BadRange}},
		{"last bytes, ignored", last, 200, nil, 1000, is{action: part.Append, skip: 900, size: 100}},
		{"last bytes, ignored, of an unknown length", last, 200, nil, -1, is{reason: part.Unsatisfied}},
		{"more last bytes than there are", last, 206, header("Content-Range: bytes 0-49/50"), 50, is{action: part.Append, size: 50}},

		{"the rest", half, 206, header(`ETag: "a"`, rest), 500, is{action: part.Append, size: 500}},
		{"in chunks", half, 206, header(`ETag: "a"`, rest), -1, is{action: part.Append, size: 500}},
		{"earlier", half, 206, header(`ETag: "a"`, "Content-Range: bytes 400-999/1000"), 600, is{action: part.Append, skip: 100, size: 500}},
		{"all of it as a part", half, 206, header(`ETag: "a"`, "Content-Range: bytes 0-999/1000"), 1000, is{action: part.Append, skip: 500, size: 500}},
		{"shorter", half, 206, header(`ETag: "a"`, "Content-Range: bytes 500-599/1000"), 100, is{action: part.Append, size: 100}},
		{"length not given", half, 206, header(`ETag: "a"`, "Content-Range: bytes 500-599/*"), 100, is{action: part.Append, size: 100}},
		{"later", half, 206, header(`ETag: "a"`, "Content-Range: bytes 501-999/1000"), 499, is{reason: part.Gap}},
		{"before", half, 206, header(`ETag: "a"`, "Content-Range: bytes 0-499/1000"), 500, is{reason: part.Behind}},
		{"wrong length", half, 206, header(`ETag: "a"`, "Content-Range: bytes 500-999/1001"), 500, is{reason: part.Relength}},
		{"ends behind the end", half, 206, header(`ETag: "a"`, "Content-Range: bytes 500-1000/*"), 501, is{reason: part.Relength}},
		{"framed otherwise", half, 206, header(`ETag: "a"`, rest), 499, is{reason: part.Misframed}},
		{"no Content-Range", half, 206, header(`ETag: "a"`), 500, is{reason: part.BadRange}},
		{"two Content-Ranges", half, 206, header(`ETag: "a"`, rest, "Content-Range: bytes 0-1/1000"), 500, is{reason: part.BadRange}},
		{"unsatisfied and partial", half, 206, header(`ETag: "a"`, "Content-Range: bytes */1000"), 500, is{reason: part.BadRange}},
		{"several parts", half, 206, header(`ETag: "a"`, "Content-Type: Multipart/ByteRanges; boundary=x"), 500, is{reason: part.Multipart}},
		{"another tag", half, 206, header(`ETag: "b"`, rest), 500, is{action: part.Restart, reason: part.Changed}},
		{"a weak tag now", half, 206, header(`ETag: W/"a"`, rest), 500, is{action: part.Restart, reason: part.Unproven}},
		{"no tag now", half, 206, header(rest), 500, is{action: part.Restart, reason: part.Unproven}},
		{"a date in place of the tag", half, 206, header("Last-Modified: "+noon, "Date: "+noon1, rest), 500, is{action: part.Restart, reason: part.Unproven}},
		{"coded now", half, 206, header(`ETag: "a"`, "Content-Encoding: gzip", rest), 500, is{action: part.Restart, reason: part.Recoded}},
		{"identity is no coding", half, 206, header(`ETag: "a"`, "Content-Encoding: identity", rest), 500, is{action: part.Append, size: 500}},

		{"range ignored", half, 200, header(`ETag: "a"`), 1000, is{action: part.Append, skip: 500, size: 500}},
		{"range ignored, in chunks", half, 200, header(`ETag: "a"`), -1, is{action: part.Append, skip: 500, size: 500}},
		{"range ignored, another length", half, 200, header(`ETag: "a"`), 1001, is{reason: part.Relength}},
		{"condition false", half, 200, header(`ETag: "b"`), 800, is{action: part.Restart, body: true, size: 800, reason: part.Changed}},
		{"changed to nothing", half, 200, header(`ETag: "b"`), 0, is{action: part.Restart, body: true, reason: part.Changed}},
		{"whole without a tag", half, 200, nil, 1000, is{action: part.Restart, body: true, size: 1000, reason: part.Unproven}},
		{"whole, coded", half, 200, header(`ETag: "a"`, "Content-Encoding: br"), 300, is{action: part.Restart, body: true, size: 300, reason: part.Recoded}},
		{"changed by a proxy", half, 203, header(`ETag: "a"`), 1000, is{action: part.Restart, body: true, size: 1000, reason: part.Unproven}},
		{"nothing now", half, 204, nil, 0, is{reason: part.StatusRefuse}},

		{"nothing to compare", none, 200, nil, 1000, is{action: part.Restart, body: true, size: 1000, reason: part.Unproven}},
		{"overlap", lapped, 206, header("Content-Range: bytes 436-999/1000"), 564, is{action: part.Append, skip: 64, equal: 64, size: 500}},
		{"overlap shorter than asked", lapped, 206, header("Content-Range: bytes 490-999/1000"), 510, is{action: part.Append, skip: 10, equal: 10, size: 500}},
		{"no overlap", lapped, 206, header(rest), 500, is{action: part.Restart, reason: part.Unproven}},
		{"overlap of a longer file", lapped, 206, header("Content-Range: bytes 436-1000/1001"), 565, is{action: part.Restart, reason: part.Changed}},
		{"overlap, whole", lapped, 200, nil, 1000, is{action: part.Append, skip: 500, equal: 64, size: 500}},
		{"the same date", dated, 206, header("Last-Modified: "+noon850, "Date: "+noon1, rest), 500, is{action: part.Append, size: 500}},
		{"another date", dated, 206, header("Last-Modified: "+noon1, "Date: "+noon1, rest), 500, is{action: part.Restart, reason: part.Changed}},
		{"the date has become weak", dated, 206, header("Last-Modified: "+noon, "Date: "+noon, rest), 500, is{action: part.Restart, reason: part.Unproven}},
		{"the date was weak beside the tag", early, 206, header("Last-Modified: "+noon, "Date: "+noon1, rest), 500, is{action: part.Restart, reason: part.Unproven}},
		{"a coding's older name", packed, 206, header(`ETag: "a"`, "Content-Encoding: x-gzip", rest), 500, is{action: part.Append, size: 500}},
		{"the same digest", sum, 206, header(digest, rest), 500, is{action: part.Append, size: 500}},
		{"the same digest, whole", sum, 200, header(digest, `ETag: "z"`), 1000, is{action: part.Append, skip: 500, size: 500}},
		{"another digest", sum, 206, header(other, rest), 500, is{action: part.Restart, reason: part.Changed}},

		{"the end was reached", open, 206, header(`ETag: "a"`, "Content-Range: bytes 499-499/500"), 1, is{action: part.Complete}},
		{"the end was not", open, 206, header(`ETag: "a"`, "Content-Range: bytes 499-999/1000"), 501, is{action: part.Append, skip: 1, size: 500}},
		{"shorter than what is there", open, 206, header(`ETag: "a"`, "Content-Range: bytes 0-399/400"), 400, is{reason: part.Relength}},
		{"416 at the end", open, 416, header(`ETag: "a"`, "Content-Range: bytes */500"), 0, is{action: part.Complete}},
		{"416 at the end, no proof", open, 416, header("Content-Range: bytes */500"), 0, is{reason: part.Unsatisfied}},
		{"416 of a shorter file", open, 416, header("Content-Range: bytes */400"), 0, is{action: part.Restart, reason: part.Changed}},
		{"416 of another file", half, 416, header(`ETag: "b"`), 0, is{action: part.Restart, reason: part.Changed}},
		{"416 that says nothing", half, 416, nil, 0, is{reason: part.Unsatisfied}},
		{"416 against reason", half, 416, header("Content-Range: bytes */1000"), 0, is{reason: part.Unsatisfied}},

		{"overloaded", half, 503, header("Retry-After: 7"), 10, is{action: part.Later, reason: part.Overloaded, after: 7 * time.Second}},
		{"until a time", half, 429, header("Retry-After: "+noon1, "Date: "+noon), 10, is{action: part.Later, reason: part.Overloaded, after: time.Second}},
		{"until a time past", half, 429, header("Retry-After: "+noon, "Date: "+noon1), 10, is{action: part.Later, reason: part.Overloaded}},
		{"for a word", half, 503, header("Retry-After: soon"), 10, is{action: part.Later, reason: part.Overloaded}},
		{"not found", half, 404, nil, 10, is{reason: part.StatusRefuse}},
		{"not modified", half, 304, nil, 0, is{reason: part.StatusRefuse}},
		{"precondition", half, 412, nil, 0, is{reason: part.StatusRefuse}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := part.Judge(tt.have, part.Answer{Status: tt.status, Header: tt.h, Length: tt.length})
			if got := (is{v.Action, v.Skip, v.Equal, v.Size, v.Body, v.Reason, v.After}); got != tt.want {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
			kept := v.Action == part.Append && tt.have.Offset > tt.have.From
			if kept && (v.Have.Offset != tt.have.Offset || v.Have.Validator != tt.have.Validator) {
				t.Errorf("what is kept is now %+v", v.Have)
			}
			if v.Action == part.Restart && v.Have.Offset != tt.have.From {
				t.Errorf("a restart at %d", v.Have.Offset)
			}
		})
	}
}
