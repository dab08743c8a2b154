package main

import (
	"errors"
	"fmt"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

const module = "baton/"

// ranks are the files and folders directly in a part by their rank, which is their line in the committed list: the
// lowest first. Names on one line have one rank.
type ranks map[string]int

// readRanks reads the list, and compares it with the sources. With update it removes names that are gone.
func readRanks(root string, files []*file, update bool) (ranks, error) {
	path := filepath.Join(root, ranksPath)
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r, lines, err := parseRanks(string(text), unitsOf(files))
	if err != nil {
		return nil, err
	}
	if kept := strings.Join(lines, ""); kept != string(text) {
		if !update {
			return nil, fmt.Errorf("%s names what is gone: go run ./packaging/counters -update removes it", ranksPath)
		}
		if err := os.WriteFile(path, []byte(kept), 0o644); err != nil {
			return nil, err
		}
	}
	return r, r.checkComplete(files)
}

// unitsOf are the files and folders directly in parts.
func unitsOf(files []*file) map[string]bool {
	units := map[string]bool{}
	for _, f := range files {
		if f.syntax != nil && !f.isTest() {
			units[unitOf(f.path)] = true
		}
	}
	return units
}

// unitOf is the file itself if it is directly in a part, else its folder there.
func unitOf(path string) string {
	parts := strings.SplitN(path, "/", 3)
	return strings.Join(parts[:min(len(parts), 2)], "/")
}

// parseRanks returns the ranks, and the lines of the list without names that are gone.
func parseRanks(text string, units map[string]bool) (ranks, []string, error) {
	r := ranks{}
	var lines []string
	for line := range strings.Lines(text) {
		names := strings.Fields(line)
		if len(names) == 0 || line[0] == '#' {
			lines = append(lines, line)
			continue
		}
		for _, name := range names {
			if _, twice := r[name]; twice {
				return nil, nil, fmt.Errorf("%s: %s has two ranks", ranksPath, name)
			}
			r[name] = len(lines)
		}
		kept := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !units[name] })
		switch {
		case len(kept) == len(names):
			lines = append(lines, line)
		case len(kept) > 0:
			lines = append(lines, strings.Join(kept, " ")+"\n")
		}
	}
	return r, lines, nil
}

// rankedParts are the parts whose files have ranks.
func (r ranks) rankedParts() []string {
	var all []string
	for name := range r {
		if part := partOf(name); !slices.Contains(all, part) {
			all = append(all, part)
		}
	}
	slices.Sort(all)
	return all
}

// checkComplete requires a rank of each file and folder of a part that has ranks.
func (r ranks) checkComplete(files []*file) error {
	parts := r.rankedParts()
	var missing []string
	for name := range unitsOf(files) {
		if _, ok := r[name]; !ok && slices.Contains(parts, partOf(name)) {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	return fmt.Errorf("%s has no rank for %s: write it on a line after what it uses",
		ranksPath, strings.Join(missing, ", "))
}

// addUpwardUses counts uses of what a file of a higher rank declares: functions, methods, types, and variables and
// constants of a package. Fields do not count, and neither do calls through an interface that the lower file declares.
func (c *count) addUpwardUses(root string, r ranks) error {
	parts := r.rankedParts()
	if len(parts) == 0 {
		return nil
	}
	var patterns []string
	for _, part := range parts {
		patterns = append(patterns, "./"+part+"/...")
	}
	loaded, err := packages.Load(&packages.Config{
		Dir: root,
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedExportFile | packages.NeedSyntax |
			packages.NeedTypes | packages.NeedTypesInfo | packages.NeedModule,
	}, patterns...)
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range loaded {
		for _, e := range p.Errors {
			errs = append(errs, e)
		}
		c.addUpwardUsesOf(p, r)
	}
	return errors.Join(errs...)
}

func (c *count) addUpwardUsesOf(p *packages.Package, r ranks) {
	for ident, object := range p.TypesInfo.Uses {
		if !isRanked(object) {
			continue
		}
		at := p.Fset.Position(ident.Pos())
		from := sourcePath(p.Types, at.Filename)
		to := sourcePath(object.Pkg(), p.Fset.Position(object.Pos()).Filename)
		rank, ranked := r[unitOf(from)]
		above, known := r[unitOf(to)]
		if ranked && known && partOf(from) == partOf(to) && above > rank {
			c.addPlace(upwardUse, place{from, at.Line, fmt.Sprintf("%s of %s", object.Name(), unitOf(to))})
		}
	}
}

// sourcePath is a file of a package from the module's folder, wherever that is.
func sourcePath(p *types.Package, name string) string {
	return strings.TrimPrefix(p.Path()+"/", module) + filepath.Base(name)
}

// isRanked reports whether using an object is using its file: it is no field, and nothing of a function's own.
func isRanked(object types.Object) bool {
	if object.Pkg() == nil || !strings.HasPrefix(object.Pkg().Path()+"/", module) {
		return false
	}
	if _, ok := object.(*types.Func); ok {
		return true
	}
	return object.Parent() == object.Pkg().Scope()
}
