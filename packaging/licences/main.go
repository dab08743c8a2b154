// Command licences collects the licences of everything that is linked into one of Baton's programs: the texts into a file for its package, and a
// line for each module, MODULE,VERSION,LICENCES, to its standard output. It fails if a module has no licence that it knows, or one that a package
// under Apache-2.0 may not carry.
//
//	licences -o FILE [-also NAME=TEXT]... PROGRAM     in the root of the source
package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// licence is one under which a library may be linked into the programs, and sentences that only its text has. (Detectors that compare by likeness
// take Go's BSD-3-Clause for BSD-Source-Code, and ISC for 0BSD.)
type licence struct {
	id  string // SPDX
	has []string
	not string // of a licence with more terms
}

const (
	bsd      = "redistributions in binary form must reproduce the above copyright notice"
	nobody   = "be used to endorse or promote products derived from this software"
	internet = "permission to use, copy, modify, and/or distribute this software for any purpose with or without fee is hereby granted"
)

var allowed = []licence{
	{id: "Apache-2.0", has: []string{"apache license version 2.0"}},
	{id: "Apache-2.0", has: []string{"licensed under the apache license, version 2.0"}},
	{id: "BSD-2-Clause", has: []string{bsd}, not: nobody},
	{id: "BSD-3-Clause", has: []string{bsd, nobody}},
	{id: "CC0-1.0", has: []string{"cc0 1.0 universal"}},
	{id: "CC0-1.0", has: []string{"dedicated all copyright and related and neighboring rights to this software to the public domain"}},
	{id: "ISC", has: []string{internet, "provided that the above copyright notice and this permission notice appear in all copies"}},
	{id: "MIT", has: []string{"permission is hereby granted, free of charge, to any person obtaining a copy", "the above copyright notice and this permission notice"}},
	{id: "MPL-2.0", has: []string{"mozilla public license version 2.0"}},
	{id: "Unlicense", has: []string{"this is free and unencumbered software released into the public domain"}},
}

// refused are words of licences that forbid what the package does with a library, or ask more of its users.
var refused = []string{"gnu general public license", "gnu lesser general public license", "gnu affero general public license", "server side public license", "business source license", "commons clause"}

// named matches the files of a module that have its terms.
var named = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents|unlicense)([-._].*)?$`)

func main() {
	var also []string
	file := flag.String("o", "", "`file` for the texts")
	flag.Func("also", "`NAME=TEXT`: something else that is in the program, and the file with its licence", func(s string) error {
		also = append(also, s)
		return nil
	})
	flag.Parse()
	if err := run(flag.Arg(0), *file, also, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "licences:", err)
		os.Exit(1)
	}
}

// part is something linked into a program.
type part struct {
	name, version string
	texts         []string // paths
	licences      []string // SPDX identifiers
}

func run(program, file string, also []string, out io.Writer) error {
	if program == "" || file == "" {
		return errors.New("usage: licences -o FILE PROGRAM, such as baton")
	}
	parts, err := linked(program)
	if err != nil {
		return err
	}
	for _, a := range also {
		name, text, _ := strings.Cut(a, "=")
		name, version, _ := strings.Cut(name, "@")
		parts = append(parts, part{name: name, version: version, texts: []string{text}})
	}
	var texts bytes.Buffer
	fmt.Fprintf(&texts, "What %s consists of besides Baton's own code, and the terms of each.\n", program)
	table := csv.NewWriter(out)
	var wrong []error
	for _, p := range parts {
		text, err := p.read()
		if err != nil {
			wrong = append(wrong, err)
			continue
		}
		fmt.Fprintf(&texts, "\n%s\n%s %s (%s)\n%[1]s\n%[5]s", strings.Repeat("=", 80), p.name, p.version, strings.Join(p.licences, ", "), text)
		if err := table.Write([]string{p.name, p.version, strings.Join(p.licences, " ")}); err != nil {
			return err
		}
	}
	table.Flush()
	return errors.Join(append(wrong, table.Error(), os.WriteFile(file, texts.Bytes(), 0o644))...)
}

// linked are the modules of a program, and Go itself.
func linked(program string) ([]part, error) {
	goCommand := os.Getenv("GO")
	if goCommand == "" {
		goCommand = "go"
	}
	cmd := exec.Command(goCommand, "list", "-deps", "-tags", "grpcnotrace", "-json=Dir,Standard,Module", "./cmd/"+program)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	cmd.Stderr = os.Stderr
	list, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list what %s is made of: %w", program, err)
	}
	root, err := exec.Command(goCommand, "env", "GOROOT", "GOVERSION").Output()
	if err != nil {
		return nil, fmt.Errorf("find Go's licence: %w", err)
	}
	dir, version, _ := strings.Cut(strings.TrimSpace(string(root)), "\n")
	parts := []part{{name: "Go's standard library", version: version, texts: termsIn(dir)}}
	for d := json.NewDecoder(bytes.NewReader(list)); ; {
		var p struct {
			Dir      string
			Standard bool
			Module   *struct {
				Path, Version, Dir string
				Main               bool
			}
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		if p.Standard || p.Module == nil || p.Module.Main {
			continue
		}
		i := slices.IndexFunc(parts, func(q part) bool { return q.name == p.Module.Path })
		if i < 0 {
			i = len(parts)
			parts = append(parts, part{name: p.Module.Path, version: p.Module.Version})
		}
		// Folders between the package and the module's root may have terms of their own.
		for dir := p.Dir; strings.HasPrefix(dir, p.Module.Dir); dir = filepath.Dir(dir) {
			for _, text := range termsIn(dir) {
				if !slices.Contains(parts[i].texts, text) {
					parts[i].texts = append(parts[i].texts, text)
				}
			}
		}
	}
	slices.SortFunc(parts[1:], func(a, b part) int { return strings.Compare(a.name, b.name) })
	return parts, nil
}

func termsIn(dir string) []string {
	var found []string
	all, _ := os.ReadDir(dir) // a folder of the module cache that go list has named
	for _, f := range all {
		if f.Type().IsRegular() && named.MatchString(f.Name()) && !strings.HasSuffix(f.Name(), ".go") {
			found = append(found, filepath.Join(dir, f.Name()))
		}
	}
	return found
}

// licencesIn returns the identifiers of the licences that a text contains, and the words in it of those that are refused.
func licencesIn(text []byte) (known, wrong []string) {
	plain := strings.Join(strings.Fields(strings.ToLower(string(text))), " ")
	plain = strings.NewReplacer("copy, modify, and distribute", "copy, modify, and/or distribute", "copy, modify and distribute", "copy, modify, and/or distribute").Replace(plain)
	for _, l := range allowed {
		missing := slices.ContainsFunc(l.has, func(s string) bool { return !strings.Contains(plain, s) })
		if !missing && (l.not == "" || !strings.Contains(plain, l.not)) && !slices.Contains(known, l.id) {
			known = append(known, l.id)
		}
	}
	for _, words := range refused {
		// MPL-2.0 names those under which the library may also be distributed.
		if strings.Contains(plain, words) && !slices.Contains(known, "MPL-2.0") {
			wrong = append(wrong, words)
		}
	}
	return known, wrong
}

// read returns the texts and notes their licences.
func (p *part) read() (string, error) {
	slices.Sort(p.texts)
	var all strings.Builder
	for _, path := range p.texts {
		text, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		all.Write(text)
		if !bytes.HasSuffix(text, []byte("\n")) {
			all.WriteString("\n")
		}
		known, wrong := licencesIn(text)
		if len(wrong) > 0 {
			return "", fmt.Errorf("%s %s: %s has the words %q: leave the module out", p.name, p.version, path, wrong)
		}
		p.licences = append(p.licences, known...)
	}
	slices.Sort(p.licences)
	p.licences = slices.Compact(p.licences)
	if len(p.licences) == 0 {
		return "", fmt.Errorf("%s %s: no licence that is known in %q: leave the module out, or add its licence to allowed in packaging/licences", p.name, p.version, p.texts)
	}
	return all.String(), nil
}
