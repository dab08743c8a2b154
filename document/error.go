package document

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Error is the first mistake of a document, with the others.
type Error struct {
	File    string
	Line    int    // from 1; 0: the whole file
	Column  int    // from 1; 0: the whole line
	Key     string // key path, "vips[0].routes[1].pool"; "": the whole file
	Problem string
	Valid   string // what would be valid; "" if Problem says it

	Others []*Error // mistakes further down, in the file's order; at most mostMistakes
	More   int      // mistakes that are not in Others

	kept bool   // the value can be used nevertheless, to find more mistakes
	from string // key path of the list that lacks a name, of Refer
}

// mostMistakes bounds how many mistakes of one document are reported: the later ones may follow from the first.
const mostMistakes = 20

// JoinErrors makes one error of mistakes; nil if there are none.
func JoinErrors(mistakes []*Error) error {
	if len(mistakes) == 0 {
		return nil
	}
	return combine(mistakes)
}

// combine makes one error of the mistakes of a document. There is at least one.
func combine(mistakes []*Error) *Error {
	sorted := slices.Clone(mistakes)
	slices.SortStableFunc(sorted, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	sorted = slices.CompactFunc(sorted, func(b, a *Error) bool { // the same mistake reported twice
		return a.Key != "" && a.Line == b.Line && a.Column == b.Column && strings.HasPrefix(b.Key, a.Key)
	})
	first := *sorted[0]
	first.Others = sorted[1:min(len(sorted), mostMistakes)]
	first.More = max(0, len(sorted)-mostMistakes)
	return &first
}

// Error returns a line for each mistake: "file:line:column: key.path: what is wrong (what would be valid)".
func (e *Error) Error() string {
	text := e.line()
	for _, other := range e.Others {
		text += "\n" + other.line()
	}
	if e.More > 0 {
		text += fmt.Sprintf("\n%s: and %d more mistakes", strings.Map(printable, e.File), e.More)
	}
	return text
}

func (e *Error) line() string {
	var b strings.Builder
	b.WriteString(e.File)
	for _, number := range []int{e.Line, e.Column} {
		if number > 0 {
			fmt.Fprintf(&b, ":%d", number)
		}
	}
	b.WriteString(": ")
	if e.Key != "" {
		b.WriteString(e.Key + ": ")
	}
	b.WriteString(e.Problem)
	if e.Valid != "" {
		b.WriteString(" (" + e.Valid + ")")
	}
	return strings.Map(printable, b.String())
}

// printable replaces line breaks and control characters in file names and YAML messages, so that each mistake is one line and
// cannot disturb a terminal.
func printable(r rune) rune {
	if unicode.IsControl(r) && r != '\t' || r == '\u2028' || r == '\u2029' {
		return ' '
	}
	return r
}

func (p Place) wrong(path, problem, valid string) *Error {
	return &Error{Line: p.Line, Column: p.Column, Key: path, Problem: problem, Valid: valid}
}

// Clip shortens a text for quoting in a message.
func Clip(s string) string {
	if len(s) > 80 {
		return s[:77] + "..."
	}
	return s
}
