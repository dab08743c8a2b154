package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Bounds for what is written.
const (
	maxColumns       = 120 // a tab is one
	maxFunctionLines = 60
)

// singleWord is a name without a second word. The names of Go's interfaces (read, write, close, run, serve, len, less,
// swap) count as any others: in lower case they implement none of the standard library.
var singleWord = regexp.MustCompile(`^[a-z]+[0-9]*$`)

// addOneWordNames counts unexported functions and methods whose names have one word.
func (c *count) addOneWordNames(f *file) {
	for _, d := range functionsOf(f) {
		name := d.Name.Name
		if !singleWord.MatchString(name) || d.Recv == nil && (name == "main" || name == "init") { // Go has chosen these two
			continue
		}
		c.addPlace(oneWord, place{f.path, f.lineOf(d.Name.Pos()), nameOf(d)})
	}
}

// lockHeld finds that a comment makes a lock a precondition: "Called with the lock", "The lock is held", "r.mu is
// held", "The caller holds mu".
var lockHeld = regexp.MustCompile(`(?i)\bcalled (?:with|under) (?:[\w.']+ )?(?:[\w.]*mu|lock)\b` +
	`|\b(?:locks? (?:is|are)|[\w.]*(?:mu|reloading|changing) is) held\b` +
	`|\bcallers? (?:must )?holds? (?:[\w.']+ )?(?:[\w.]*mu|lock|reloading|changing)\b` +
	`|\bwith (?:[\w.']+ )?(?:[\w.]*mu|lock) held\b`)

// addProseLocks counts functions that need a lock only by their comment: without an annotation of checklocks, and
// without Locked in the name.
func (c *count) addProseLocks(f *file) {
	for _, d := range functionsOf(f) {
		if d.Doc == nil || strings.HasSuffix(d.Name.Name, "Locked") {
			continue
		}
		text := strings.Join(strings.Fields(d.Doc.Text()), " ")
		if lockHeld.MatchString(text) && !strings.Contains(text, "+checklocks") {
			c.addPlace(proseLock, place{f.path, f.lineOf(d.Name.Pos()), nameOf(d)})
		}
	}
}

func (c *count) addLongLines(f *file) {
	n := 0
	for line := range bytes.Lines(f.text) {
		n++
		if columns := utf8.RuneCount(bytes.TrimRight(line, "\r\n")); columns > maxColumns {
			c.addPlace(longLine, place{f.path, n, fmt.Sprintf("%d columns", columns)})
		}
	}
}

// addLongFunctions counts the lines of those functions that are too long, from func to the closing brace.
func (c *count) addLongFunctions(f *file) {
	for _, d := range functionsOf(f) {
		first := f.lineOf(d.Pos())
		lines := f.lineOf(d.End()) - first + 1
		if lines <= maxFunctionLines {
			continue
		}
		k := key{longFunction, path.Dir(f.path) + ":" + nameOf(d)}
		c.places[k] = append(c.places[k], place{f.path, first, fmt.Sprintf("%s has %d lines", nameOf(d), lines)})
		c.lengths[k] = lines
	}
}

func functionsOf(f *file) []*ast.FuncDecl {
	var all []*ast.FuncDecl
	for _, d := range f.syntax.Decls {
		if d, ok := d.(*ast.FuncDecl); ok {
			all = append(all, d)
		}
	}
	return all
}

// nameOf is a function's name, behind that of its receiver's type.
func nameOf(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return d.Name.Name
	}
	receiver := d.Recv.List[0].Type
	for {
		switch t := receiver.(type) {
		case *ast.StarExpr:
			receiver = t.X
		case *ast.IndexExpr:
			receiver = t.X
		case *ast.IndexListExpr:
			receiver = t.X
		case *ast.Ident:
			return t.Name + "." + d.Name.Name
		default:
			return d.Name.Name
		}
	}
}
