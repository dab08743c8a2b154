package document

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Error is what is wrong with a document: its first mistake, and the others.
type Error struct {
	File    string
	Line    int    // from 1; 0 when the whole file is meant
	Column  int    // from 1; 0 when the whole line is meant
	Key     string // key path, "vips[0].routes[1].pool"; "" when the whole file is meant
	Problem string
	Right   string // what would be right, "" when Problem says it

	Others []*Error // mistakes further down, in the file's order; not all of them when there are many
	More   int      // mistakes that are not in Others
}

// mostMistakes is how many are told of one document: those of the next lines may follow from them.
const mostMistakes = 20

// JoinErrors makes one error of mistakes, nil of none.
func JoinErrors(mistakes []*Error) error {
	if len(mistakes) == 0 {
		return nil
	}
	return together(mistakes)
}

// together makes one error of the mistakes of a document, of which there is one at least.
func together(mistakes []*Error) *Error {
	sorted := slices.Clone(mistakes)
	slices.SortStableFunc(sorted, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	sorted = slices.CompactFunc(sorted, func(b, a *Error) bool { // the same thing told twice
		return a.Key != "" && a.Line == b.Line && a.Column == b.Column && strings.HasPrefix(b.Key, a.Key)
	})
	first := *sorted[0]
	first.Others = sorted[1:min(len(sorted), mostMistakes)]
	first.More = max(0, len(sorted)-mostMistakes)
	return &first
}

// Error gives a line for each mistake: "file:line:column: key.path: what is wrong (what would be right)".
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
	if e.Right != "" {
		b.WriteString(" (" + e.Right + ")")
	}
	return strings.Map(printable, b.String())
}

// printable keeps the promise of one line, and terminals in peace, for file names and YAML messages that hold line breaks
// and control characters.
func printable(r rune) rune {
	if unicode.IsControl(r) && r != '\t' || r == '\u2028' || r == '\u2029' {
		return ' '
	}
	return r
}

func (p Place) wrong(path, problem, right string) *Error {
	return &Error{Line: p.Line, Column: p.Column, Key: path, Problem: problem, Right: right}
}

// Clip bounds what a message quotes.
func Clip(s string) string {
	if len(s) > 80 {
		return s[:77] + "..."
	}
	return s
}
