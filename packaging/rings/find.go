package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"path/filepath"
	"slices"
	"strings"
)

// test is a test function of the module.
type test struct {
	pkg, name string
	ring      int
	fuzz      bool
}

// modules are the folders of the modules that have tests.
var modules = []string{".", "kubernetes"}

// moduleOf is the folder of a package's module.
func moduleOf(pkg string) string {
	if strings.HasPrefix(pkg+"/", "baton/kubernetes/") {
		return "kubernetes"
	}
	return "."
}

// listed is a package as `go list` describes it.
type listed struct {
	ImportPath, Dir                    string
	Imports, TestGoFiles, XTestGoFiles []string
}

// listPackages lists the packages of the modules.
func listPackages() ([]listed, error) {
	var all []listed
	for _, m := range modules {
		out, err := goCommand("list", "-C", m, "-json=ImportPath,Dir,Imports,TestGoFiles,XTestGoFiles", "./...").Output()
		if err != nil {
			return nil, fmt.Errorf("list packages of %s: %w", m, err)
		}
		for d := json.NewDecoder(bytes.NewReader(out)); ; {
			var p listed
			if err := d.Decode(&p); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, fmt.Errorf("list packages: %w", err)
			}
			all = append(all, p)
		}
	}
	return all, nil
}

// findTests reads the test files of packages.
func findTests(packages []listed) ([]test, error) {
	var found []test
	for _, p := range packages {
		for _, f := range append(p.TestGoFiles, p.XTestGoFiles...) {
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, f), nil, parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			found = append(found, testsOf(p.ImportPath, f, file)...)
		}
	}
	return found, nil
}

func testsOf(pkg, name string, file *ast.File) []test {
	var found []test
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv != nil {
			continue
		}
		switch {
		case strings.HasPrefix(f.Name.Name, "Fuzz"):
			found = append(found, test{pkg, f.Name.Name, 2, true})
		case strings.HasPrefix(f.Name.Name, "Test") && f.Name.Name != "TestMain":
			found = append(found, test{pkg, f.Name.Name, ringOf(pkg, name, file), false})
		}
	}
	return found
}

func ringOf(pkg, name string, file *ast.File) int {
	if strings.HasSuffix(name, "_long_test.go") {
		return 5
	}
	if pkg == "baton/lab" || strings.HasPrefix(pkg, "baton/lab/") || pkg == "baton/dashboard" { // Chromium, and packages of npm
		return 4
	}
	for _, i := range file.Imports {
		path := strings.Trim(i.Path.Value, `"`)
		if path == "baton/lab" || strings.HasPrefix(path, "baton/lab/") {
			return 4
		}
	}
	if strings.HasPrefix(pkg, "baton/datapath") || pkg == "baton/forwarder/install" {
		return 3
	}
	return 1
}

// pattern matches the names of tests, for -skip.
func pattern(tests []test) string {
	names := []string{"$^"}
	for _, t := range tests {
		names = append(names, "^"+t.name+"$")
	}
	return strings.Join(names, "|")
}

// fromRing returns the tests from a ring on.
func fromRing(tests []test, ring int) []test {
	return slices.DeleteFunc(slices.Clone(tests), func(t test) bool { return t.ring < ring })
}
