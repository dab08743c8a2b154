package config

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/goccy/go-yaml"
)

// maxFile bounds what is read and parsed, in bytes: a mistaken path must not fill the memory.
const maxFile = 4 << 20

// Error is the one thing that is wrong with a configuration: the first, in the order of checking.
type Error struct {
	File    string
	Line    int    // 1-based; 0 when the whole file is meant
	Key     string // key path, "vips[0].routes[1].pool"; "" when the whole file is meant
	Problem string
	Right   string // what would be right, "" when Problem says it
}

// Error gives one line: "file:line: key.path: what is wrong (what would be right)".
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d", e.Line)
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

// Load reads and checks the file. An error about the content is an *Error; one about reading the file wraps the cause.
// The caller owns the result.
func Load(path string) (*Config, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	if info.Size() > maxFile {
		return nil, tooLarge(path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	return Parse(path, data)
}

// Parse checks the content of a configuration file and fills in the defaults; name stands for the file in messages. It
// returns a configuration or an *Error, never both.
func Parse(name string, data []byte) (*Config, error) {
	if len(data) > maxFile {
		return nil, tooLarge(name)
	}
	root, err := parseTree(data)
	if err != nil {
		e := &Error{File: name, Line: 1, Problem: err.Error()}
		var at *treeError
		var syntax yaml.Error
		switch {
		case errors.As(err, &at):
			e.Line, e.Key, e.Problem, e.Right = at.line, at.key, at.problem, at.right
		case errors.As(err, &syntax):
			e.Problem = "is not YAML: " + syntax.GetMessage()
			if token := syntax.GetToken(); token != nil && token.Position != nil {
				e.Line = token.Position.Line
			}
		}
		return nil, e
	}
	d := &decoder{file: name}
	cfg := d.config(root)
	if d.err == nil {
		d.crossCheck(cfg)
	}
	if d.err != nil {
		return nil, d.err
	}
	return cfg, nil
}

func tooLarge(name string) *Error {
	return &Error{File: name, Problem: "is too large", Right: fmt.Sprintf("at most %d MiB", maxFile>>20)}
}
