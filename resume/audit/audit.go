// Package audit checks whether a download from one server can be resumed from another: whether the servers distinguish versions of a
// file consistently, and whether they handle ranges and conditions as RFC 9110 requires.
//
// Ask collects the responses; Judge evaluates them and is pure.
package audit

import (
	"fmt"
	"math/big"
	"strings"
	"time"

	"baton/resume/part"
)

// Site is the response of one server about a file.
type Site struct {
	URL       string         `json:"url"`
	Address   string         `json:"address"`
	Server    string         `json:"server,omitempty"` // its Server field
	Status    int            `json:"status"`
	Length    int64          `json:"length"` // -1: unknown
	Validator part.Validator `json:"validator"`
	Digests   part.Digests   `json:"digests,omitempty"`

	Head    bool `json:"head"`             // HEAD has the same validator and length as GET
	Ranges  bool `json:"ranges"`           // a range request gets that range
	Kept    bool `json:"condition_true"`   // also with If-Range and the validator
	Dropped bool `json:"condition_false"`  // If-Range with another validator gets the whole file
	Beyond  bool `json:"range_beyond_end"` // a range beyond the end gets a 416 with the length
	Recoded bool `json:"coded"`            // it applies a requested coding, …
	Shared  bool `json:"coded_same_tag"`   // … with the strong tag of the uncoded bytes

	Samples map[int64][]byte `json:"-"` // by offset

	Problems []string `json:"problems,omitempty"` // why it is unsafe to resume here
	Remarks  []string `json:"remarks,omitempty"`
}

// Report is the verdict on all sites.
type Report struct {
	Safe     bool     `json:"safe"`
	Problems []string `json:"problems,omitempty"` // between sites
	Sites    []Site   `json:"sites"`
}

// Judge fills in problems and remarks.
func Judge(sites []Site) Report {
	r := Report{Safe: true, Sites: sites}
	for i := range r.Sites {
		s := &r.Sites[i]
		s.judge()
		r.Safe = r.Safe && len(s.Problems) == 0
	}
	for i := range r.Sites {
		for j := range i {
			if text := differ(&r.Sites[j], &r.Sites[i]); text != "" {
				r.Problems = append(r.Problems, fmt.Sprintf("%s and %s: %s", r.Sites[j].name(), r.Sites[i].name(), text))
			}
		}
	}
	r.Safe = r.Safe && len(r.Problems) == 0 && len(sites) > 0
	return r
}

func (s *Site) name() string {
	if s.Address != "" {
		return s.Address
	}
	return s.URL
}

func (s *Site) judge() {
	problem := func(text string) { s.Problems = append(s.Problems, text) }
	remark := func(text string) { s.Remarks = append(s.Remarks, text) }
	if s.Status != 200 {
		if len(s.Problems) == 0 {
			problem(fmt.Sprintf("it answers with status %d", s.Status))
		}
		return
	}
	switch {
	case s.Validator.Strong():
		if s.Validator.Tag == "" {
			remark("it has no ETag: a date cannot distinguish versions of the same second")
		}
	case s.Validator.Tag != "":
		problem("its ETag is weak: different versions may share it (gzip in a proxy weakens it)")
	default:
		problem("it has no strong validator: configure an ETag")
	}
	if !s.Ranges {
		problem("it ignores ranges, or answers them wrongly: a resumed download rereads everything")
	}
	if s.Ranges && s.Validator.Strong() && !s.Kept {
		problem("it does not honour If-Range with its own validator: a resumed download starts over")
	}
	if s.Ranges && s.Validator.Strong() && !s.Dropped {
		problem("it ignores If-Range: a part of another version is sent unnoticed")
	}
	if s.Shared {
		problem("encoded and plain bytes have the same strong ETag: parts of both would be mixed")
	}
	if s.Length < 0 {
		remark("it does not send the length: a truncated response may look complete")
	}
	if !s.Head {
		remark("HEAD returns another validator or length than GET")
	}
	if s.Ranges && !s.Beyond {
		remark("a range beyond the end is not answered by 416 with the length")
	}
}

// differ says why the files of two sites differ, or seem to.
func differ(a, b *Site) string {
	if a.Status != 200 || b.Status != 200 {
		return "" // reported for each of them
	}
	sameBytes, compared := true, 0
	for at, sample := range a.Samples {
		if other, ok := b.Samples[at]; ok {
			compared++
			sameBytes = sameBytes && string(other) == string(sample)
		}
	}
	sameTag := a.Validator.IfRange() == b.Validator.IfRange()
	switch {
	case a.Length >= 0 && b.Length >= 0 && a.Length != b.Length && sameTag && a.Validator.Strong():
		return "DANGER: the same validator for files of different lengths"
	case a.Length >= 0 && b.Length >= 0 && a.Length != b.Length:
		return fmt.Sprintf("the files have different lengths, %d and %d", a.Length, b.Length)
	case !sameBytes && sameTag && a.Validator.Strong():
		return "DANGER: the same validator for different bytes"
	case !sameBytes:
		return "the files have different bytes"
	case !a.Validator.Strong() || !b.Validator.Strong() || sameTag:
		return ""
	}
	text := fmt.Sprintf("different validators, %s and %s", a.Validator, b.Validator)
	if compared > 0 {
		text += ", for what seems to be the same file"
	}
	return text + hint(a.Validator.Tag, b.Validator.Tag)
}

// hint explains a difference between tags that servers build from a file's time and size, as nginx and Apache do.
func hint(a, b string) string {
	x, y := fieldsOf(a), fieldsOf(b)
	switch {
	case len(x) != len(y) && len(x) >= 2 && len(y) >= 2 && len(x) <= 3 && len(y) <= 3:
		return ": they are built differently; Apache's may have an inode (FileETag MTime Size)"
	case len(x) != 2 || len(y) != 2:
		return ""
	case x[1].Cmp(y[1]) == 0 && x[0].Cmp(y[0]) != 0 && x[0].IsInt64() && y[0].IsInt64():
		d := time.Duration(x[0].Int64()-y[0].Int64()) * time.Second
		return fmt.Sprintf(": as nginx makes them, of times that are %s apart; copy files with their times (rsync -t)", d.Abs())
	case x[0].Cmp(y[0]) == 0:
		return ": as Apache makes them, of different times; copy files with their times (rsync -t)"
	case x[1].Cmp(y[0]) == 0 || x[0].Cmp(y[1]) == 0:
		return ": nginx makes them of time and size, Apache of size and time"
	}
	return ""
}

// fieldsOf returns the hexadecimal numbers of a tag.
func fieldsOf(tag string) []*big.Int {
	var all []*big.Int
	for f := range strings.SplitSeq(strings.Trim(tag, `"`), "-") {
		n, ok := new(big.Int).SetString(f, 16)
		if !ok || strings.HasPrefix(f, "+") {
			return nil
		}
		all = append(all, n)
	}
	return all
}
