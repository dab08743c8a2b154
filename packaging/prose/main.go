// Command prose writes the texts of Go files (help, errors, logs, descriptions of metrics) as files that a linter of
// prose can read, or, with -comments, the comments of Go and C files. Each text is on the line on which it is in the
// source: FOLDER/PATH.txt:LINE is PATH:LINE, and so is FOLDER/PATH.comment:LINE.
package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

func main() {
	ofComments := flag.Bool("comments", false, "write the comments of Go and C files")
	flag.Parse()
	if flag.NArg() < 2 {
		fmt.Fprintln(os.Stderr, "prose: write prose [-comments] FOLDER FILE…")
		os.Exit(2)
	}
	read, suffix := texts, ".txt"
	if *ofComments {
		read, suffix = comments, ".comment"
	}
	for _, path := range flag.Args()[1:] {
		if err := writeProse(flag.Arg(0), path, suffix, read); err != nil {
			fmt.Fprintln(os.Stderr, "prose:", err)
			os.Exit(1)
		}
	}
}

type reader func(name string, source []byte) (lines []string, err error)

func writeProse(folder, path, suffix string, read reader) error {
	source, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	lines, err := read(path, source)
	if err != nil || len(lines) == 0 {
		return err
	}
	path = filepath.Join(folder, path+suffix)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o644)
}

// words is what a text has that is neither a key nor a format: three words in a row.
var words = regexp.MustCompile(`[A-Za-z]+,? [A-Za-z]+,? [A-Za-z]+`)

// texts gives the lines of a source with its texts alone, or none.
func texts(name string, source []byte) ([]string, error) {
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var lines []string
	ast.Inspect(f, func(n ast.Node) bool {
		if field, ok := n.(*ast.Field); ok && field.Tag != nil {
			field.Tag = nil
		}
		literal, ok := n.(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			return true
		}
		text, err := strconv.Unquote(literal.Value)
		if err != nil || !words.MatchString(text) {
			return true
		}
		if literal.Value[0] != '`' { // its line breaks are no lines of the source
			text = strings.TrimSpace(strings.ReplaceAll(text, "\n", " "))
		}
		first := files.Position(literal.Pos()).Line - 1
		for i, line := range strings.Split(text, "\n") {
			for len(lines) <= first+i {
				lines = append(lines, "")
			}
			// A period between two texts of a line: the end of one and the begin of the next are no phrase.
			if lines[first+i] != "" {
				lines[first+i] += ". "
			}
			lines[first+i] += line
		}
		return true
	})
	return lines, nil
}
