package document

import (
	"fmt"
	"strings"
	"unicode"
)

// Error is the first thing that is wrong with a document, in the order of checking.
type Error struct {
	File    string
	Line    int    // from 1; 0 when the whole file is meant
	Column  int    // from 1; 0 when the whole line is meant
	Key     string // key path, "vips[0].routes[1].pool"; "" when the whole file is meant
	Problem string
	Right   string // what would be right, "" when Problem says it
}

// Error gives one line: "file:line:column: key.path: what is wrong (what would be right)".
func (e *Error) Error() string {
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
