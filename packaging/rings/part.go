package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// packagesOf returns the packages of a part, a folder at the top: its own, and those of datapath that these import, as
// their programs are the part's. The programs' sources, bpf, have all of datapath, and the rules of the root package.
func packagesOf(part string, all []listed) ([]string, error) {
	own := "baton/" + part
	if part == "bpf" {
		own = "baton/datapath"
	}
	chosen := map[string]bool{}
	for _, p := range all {
		if !isWithin(p.ImportPath, own) {
			continue
		}
		chosen[p.ImportPath] = true
		for _, imported := range p.Imports {
			if isWithin(imported, "baton/datapath") {
				chosen[imported] = true
			}
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("PART=%s: there is no such part; write a folder, such as router", part)
	}
	var packages []string
	for _, p := range all {
		if chosen[p.ImportPath] {
			packages = append(packages, p.ImportPath)
		}
	}
	return packages, nil
}

// isWithin reports whether a package is in a folder, or is the folder's.
func isWithin(pkg, folder string) bool { return pkg == folder || strings.HasPrefix(pkg, folder+"/") }

// ofPart chooses tests that need no lab: of a part's packages and, if it has programs, of the root those that judge
// bpf/.
func ofPart(packages []string) func(test) bool {
	hasPrograms := slices.ContainsFunc(packages, func(pkg string) bool { return isWithin(pkg, "baton/datapath") })
	return func(t test) bool {
		ofRoot := t.pkg == "baton" && hasPrograms && strings.HasPrefix(t.name, "TestBPF")
		return t.ring <= 3 && (ofRoot || slices.Contains(packages, t.pkg))
	}
}

// printPackages prints the packages of the part that BATON_PART names, for packaging/lint.sh.
func printPackages() error {
	all, err := listPackages()
	if err != nil {
		return err
	}
	packages, err := packagesOf(os.Getenv("BATON_PART"), all)
	if err != nil {
		return err
	}
	fmt.Println(strings.Join(packages, "\n"))
	return nil
}
