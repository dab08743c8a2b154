// Package hellotest has the TLS hellos of real clients, for tests and experiments.
package hellotest

import (
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"strings"
)

//go:embed testdata/*.txt
var files embed.FS

// Capture is the first flight of a real client: a hello in one record.
type Capture struct {
	Name   string
	Stream []byte
	Facts  []string // what another reader found in it; clients.txt explains them
}

// Server is the name that the hello asks for; empty: none.
func (c Capture) Server() string {
	if c.Facts[0] == "-" {
		return ""
	}
	return c.Facts[0]
}

// Captures returns the corpus. The caller may change it.
func Captures() ([]Capture, error) {
	names, err := fs.Glob(files, "testdata/*.txt")
	if err != nil {
		return nil, err
	}
	var list []Capture
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(text)) {
			if list, err = add(list, strings.TrimSpace(line)); err != nil {
				return nil, fmt.Errorf("%s: %q: %w", name, line, err)
			}
		}
	}
	return list, nil
}

func add(list []Capture, line string) ([]Capture, error) {
	kind, value, _ := strings.Cut(line, " ")
	switch kind {
	case "", "#":
		return list, nil
	case "hello":
		return append(list, Capture{Name: value}), nil
	}
	c := &list[len(list)-1]
	switch kind {
	case "=":
		c.Facts = strings.Fields(value)
	case ">":
		part, err := hex.DecodeString(value)
		if err != nil {
			return nil, err
		}
		c.Stream = append(c.Stream, part...)
	default:
		return nil, fmt.Errorf("unknown line %q", kind)
	}
	return list, nil
}

// Records puts the hello of one record into records of so many bytes.
func Records(stream []byte, size int) []byte {
	const header = 5
	var out []byte
	for rest := stream[header:]; len(rest) > 0; {
		n := min(size, len(rest))
		out = append(append(out, 22, 3, 1, byte(n>>8), byte(n)), rest[:n]...)
		rest = rest[n:]
	}
	return out
}
