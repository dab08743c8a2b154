package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// file is a source that somebody wrote: in Go, C or shell.
type file struct {
	path   string // from the module's folder
	text   []byte
	syntax *ast.File // of Go only
	tokens *token.FileSet
}

func (f *file) isTest() bool { return strings.HasSuffix(f.path, "_test.go") }

func (f *file) lineOf(pos token.Pos) int { return f.tokens.Position(pos).Line }

// partOf is the part of a file: its folder at the top.
func partOf(path string) string {
	part, _, inFolder := strings.Cut(path, "/")
	if !inFolder {
		return "root"
	}
	return part
}

var (
	sourceName = regexp.MustCompile(`\.(go|c|h|sh)$`)
	foreign    = regexp.MustCompile(`^bpf/include/|_bpfe[lb]\.go$`) // of the kernel and libbpf; by bpf2go
	generated  = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)
)

// readFiles reads the sources that git tracks or would track, but for generated ones.
func readFiles(root string) ([]*file, error) {
	out, err := runGit(root, "ls-files", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, path := range strings.Fields(out) {
		if sourceName.MatchString(path) && !foreign.MatchString(path) {
			paths = append(paths, path)
		}
	}
	read, errs := make([]*file, len(paths)), make([]error, len(paths))
	var reading sync.WaitGroup
	for i, path := range paths {
		reading.Go(func() { read[i], errs[i] = readFile(root, path) })
	}
	reading.Wait()
	var files []*file
	for i, f := range read {
		if errs[i] != nil && !os.IsNotExist(errs[i]) { // git still tracks a file that was removed
			return nil, errs[i]
		}
		if f != nil {
			files = append(files, f)
		}
	}
	return files, nil
}

// readFile returns nil for a generated file.
func readFile(root, path string) (*file, error) {
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		return nil, err
	}
	if generated.Match(text) {
		return nil, nil
	}
	f := &file{path: path, text: text, tokens: token.NewFileSet()}
	if strings.HasSuffix(path, ".go") {
		f.syntax, err = parser.ParseFile(f.tokens, path, text, parser.ParseComments|parser.SkipObjectResolution)
	}
	return f, err
}

func runGit(root string, args ...string) (string, error) {
	cmd := exec.Command("git", append([]string{"-C", root}, args...)...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, bytes.TrimSpace(said.Bytes()))
	}
	return string(out), nil
}

var (
	diffFile = regexp.MustCompile(`^\+\+\+ b/(.*)$`)
	diffHunk = regexp.MustCompile(`^@@ -\S+ \+(\d+)(?:,(\d+))? @@`)
)

// changedLines are those that differ from where the branch left main, by file. On main they are those that are not
// committed.
func changedLines(root string) (map[string]map[int]bool, error) {
	base := "HEAD"
	for _, branch := range []string{"origin/main", "main"} {
		if out, err := runGit(root, "merge-base", "HEAD", branch); err == nil {
			base = strings.TrimSpace(out)
			break
		}
	}
	out, err := runGit(root, "diff", "--unified=0", "--no-color", "--no-ext-diff",
		"--src-prefix=a/", "--dst-prefix=b/", base)
	if err != nil {
		return nil, nil // without a commit nothing has changed
	}
	changed := readDiff(out)
	out, err = runGit(root, "ls-files", "--others", "--exclude-standard")
	for _, path := range strings.Fields(out) {
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			continue
		}
		changed[path] = linesFrom(1, bytes.Count(text, []byte("\n"))+1)
	}
	return changed, err
}

func readDiff(diff string) map[string]map[int]bool {
	changed := map[string]map[int]bool{}
	var path string
	for line := range strings.Lines(diff) {
		if m := diffFile.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			path = m[1]
			changed[path] = map[int]bool{}
		}
		m := diffHunk.FindStringSubmatch(line)
		if m == nil || path == "" {
			continue
		}
		first, _ := strconv.Atoi(m[1]) // digits, by the expression
		n := 1
		if m[2] != "" {
			n, _ = strconv.Atoi(m[2])
		}
		for at := range linesFrom(first, n) {
			changed[path][at] = true
		}
	}
	return changed
}

func linesFrom(first, n int) map[int]bool {
	lines := map[int]bool{}
	for i := range n {
		lines[first+i] = true
	}
	return lines
}
