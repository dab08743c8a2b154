package examples_test

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const balanceGuide = "../docs/balance.md" // whose configurations cmd/baton's tests run

// TestBalanceGuideNames: the guide explains each key, method and series that there is.
func TestBalanceGuideNames(t *testing.T) {
	text := read(t, balanceGuide)
	for _, key := range keysOf(t, "balance", 30) {
		if !regexp.MustCompile("`([a-z]+\\.)*\\.?" + key + "[`.:]|[{, ]" + key + ": ").MatchString(text) {
			t.Errorf("the guide lacks the key %s", key)
		}
	}
	for _, method := range found(t, "../balance/config/config.go", ` Method = "([a-z-]+)"`, 5) {
		if !strings.Contains(text, "| `"+method+"` |") {
			t.Errorf("the guide lacks the method %s", method)
		}
	}
	for _, name := range found(t, "../balance/metrics/*.go", `n\.(?:Counter|Gauge|GaugeInt|Yes|Seconds)\("([a-z_]+)"`, 15) {
		if !strings.Contains(text, "`"+name+"`") {
			t.Errorf("the guide lacks the series %s", name)
		}
	}
	for _, state := range found(t, "../balance/policy/decide.go", `(?m)^\t[A-Z][A-Za-z]+ += "([a-z ]+)"`, 9) {
		if !strings.Contains(text, "`"+state+"`") {
			t.Errorf("the guide lacks the state %s", state)
		}
	}
}

// TestBalanceParts: the architecture has each folder of the part, with what it imports of the others.
func TestBalanceParts(t *testing.T) {
	_, section, _ := strings.Cut(read(t, "../docs/architecture.md"), "\n## The balance's part\n")
	files, err := filepath.Glob("../balance/*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	imports := make(map[string][]string)
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		folder := filepath.Base(filepath.Dir(f))
		if imports[folder] == nil {
			imports[folder] = []string{}
		}
		for _, m := range regexp.MustCompile(`"baton/balance/([a-z]+)"`).FindAllStringSubmatch(read(t, f), -1) {
			if !slices.Contains(imports[folder], m[1]) {
				imports[folder] = append(imports[folder], m[1])
			}
		}
	}
	if len(imports) < 10 {
		t.Fatalf("found %v only", imports)
	}
	for folder, all := range imports {
		slices.Sort(all)
		names := ""
		for _, name := range all {
			names += ", `" + name + "`"
		}
		row := regexp.MustCompile("\\| `balance/" + folder + "` \\| [^|]+ \\| ?" + regexp.QuoteMeta(strings.TrimPrefix(names, ", ")) + " ?\\|\n")
		if !row.MatchString(section) {
			t.Errorf("no row of balance/%s with the imports %s", folder, names)
		}
	}
}
