package switches

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"baton/openflow"
)

// constants calls visit with each constant of a file that has a value, and the value as it is written.
func constants(t *testing.T, file string, visit func(name, value string)) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		for i, name := range spec.Names {
			if i < len(spec.Values) {
				visit(name.Name, types.ExprString(spec.Values[i]))
			}
		}
		return true
	})
}

var kindOfConstant = regexp.MustCompile(`^(Priority|Module)`)

// TestEntriesDoNotOverlap: no two kinds of flow entries have one priority, no two modules one number.
func TestEntriesDoNotOverlap(t *testing.T) {
	seen, kinds := map[string]string{}, map[string]int{}
	constants(t, "entries.go", func(name, value string) {
		kind := kindOfConstant.FindString(name)
		if kind == "" || name == "ModuleMask" {
			return
		}
		kinds[kind]++
		if other := seen[kind+value]; other != "" {
			t.Errorf("%s and %s are both %s", other, name, value)
		}
		seen[kind+value] = name
	})
	if kinds["Priority"] != 9 || kinds["Module"] != 3 {
		t.Errorf("the test reads entries.go wrongly: %v", kinds)
	}
}

// TestEntriesAreInOneTable: no other package of the controller has priorities or cookies of its own.
func TestEntriesAreInOneTable(t *testing.T) {
	files := 0
	err := filepath.WalkDir("..", func(file string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return err
		}
		files++
		if file == "../switches/entries.go" {
			return nil
		}
		constants(t, file, func(name, value string) {
			if strings.HasPrefix(strings.ToLower(name), "priority") || strings.HasPrefix(strings.ToLower(value), "0xb7") {
				t.Errorf("%s: %s = %s belongs in entries.go", file, name, value)
			}
		})
		return nil
	})
	if err != nil || files < 50 {
		t.Errorf("%d files, %v", files, err)
	}
}

func TestSameInstructions(t *testing.T) {
	apply := func(actions ...openflow.Action) []openflow.Instruction {
		return []openflow.Instruction{openflow.InstructionApplyActions{Actions: actions}}
	}
	for _, tt := range []struct {
		a, b []openflow.Instruction
		want bool
	}{
		{apply(openflow.ActionOutput{Port: 1}), apply(openflow.ActionOutput{Port: 1}), true},
		{apply(openflow.ActionOutput{Port: 1}), apply(openflow.ActionOutput{Port: 2}), false},
		{apply(openflow.ActionGroup{Group: 1}), apply(openflow.ActionSetQueue{Queue: 1}), false}, // print alike
		{apply(), nil, true},
	} {
		t.Run(fmt.Sprint(tt.a, tt.b), func(t *testing.T) {
			if got := SameInstructions(tt.a, tt.b); got != tt.want {
				t.Errorf("SameInstructions = %v, want %v", got, tt.want)
			}
		})
	}
}
