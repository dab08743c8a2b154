package main

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
)

// comments gives the lines of a Go or C source with only its comments, or none.
func comments(name string, source []byte) ([]string, error) {
	var lines []string
	put := func(line int, comment string) {
		for i, text := range proseOf(comment) {
			for len(lines) <= line+i {
				lines = append(lines, "")
			}
			if lines[line+i] != "" {
				lines[line+i] += ". "
			}
			lines[line+i] += text
		}
	}
	if filepath.Ext(name) != ".go" {
		for _, at := range cComment.FindAllIndex(source, -1) {
			if source[at[0]] == '/' {
				put(strings.Count(string(source[:at[0]]), "\n"), string(source[at[0]:at[1]]))
			}
		}
		return dropEmpty(lines), nil
	}
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, name, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, group := range f.Comments {
		for _, c := range group.List {
			put(files.Position(c.Pos()).Line-1, c.Text)
		}
	}
	return dropEmpty(lines), nil
}

var (
	// cComment finds comments of C, and literals, so that what is in these is taken for no comment.
	cComment = regexp.MustCompile(`(?s)//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'`)
	// edge matches the marks around the text of a line.
	edge = regexp.MustCompile(`^\s*(?://|/\*+|\*(?:\s|$))?|\s*\*/$`)
	// noProse is a line for programs: a directive, a licence, an annotation, or code in a comment.
	noProse = regexp.MustCompile(`^(?:[a-z]+:[a-z]| ?\+\w+:|nolint|export | ?SPDX-|\t| {4})`)
)

// proseOf gives the text of a comment, line by line: "" for lines that are none.
func proseOf(comment string) []string {
	lines := strings.Split(comment, "\n")
	for i, line := range lines {
		line = edge.ReplaceAllString(strings.TrimRight(line, "\r"), "")
		if noProse.MatchString(line) {
			line = ""
		}
		lines[i] = strings.TrimSpace(line)
	}
	return lines
}

// dropEmpty returns none of the lines if all are empty.
func dropEmpty(lines []string) []string {
	if strings.Join(lines, "") == "" {
		return nil
	}
	return lines
}
