package topology

import (
	"fmt"
	"strings"
)

// Error is the first thing that is wrong with a topology, in the order of checking.
type Error struct {
	File         string
	Line, Column int    // 1-based; 0 when the whole file is meant
	Key          string // "links[1].a.host"; "" when the whole file is meant
	Problem      string
	Right        string // what would be right, "" when Problem says it
}

// Error gives one line: "file:line:column: key: what is wrong (what would be right)".
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", e.Line, e.Column)
	}
	b.WriteString(": ")
	if e.Key != "" {
		b.WriteString(e.Key + ": ")
	}
	b.WriteString(e.Problem)
	if e.Right != "" {
		b.WriteString(" (" + e.Right + ")")
	}
	return oneLine.Replace(b.String())
}

// oneLine keeps the promise of one line for file names and YAML messages that hold line breaks.
var oneLine = strings.NewReplacer("\n", " ", "\r", " ")
