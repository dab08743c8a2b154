package examples_test

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"baton/anycast/config"
)

const anycastGuide = "../docs/anycast.md"

// TestAnycastExamplesLoad reads the configurations of sites and planners, without the files that they name.
func TestAnycastExamplesLoad(t *testing.T) {
	files, err := filepath.Glob("anycast/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 6 {
		t.Fatalf("found %v only", files)
	}
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) { parseAnycast(t, filepath.Base(f), read(t, f)) })
	}
}

// TestAnycastGuideLoads does the same with those in the guide.
func TestAnycastGuideLoads(t *testing.T) {
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(read(t, anycastGuide), -1)
	if len(blocks) < 4 {
		t.Errorf("%d configurations in the guide", len(blocks))
	}
	for _, m := range blocks {
		parseAnycast(t, "guide.yaml", m[1])
	}
}

func parseAnycast(t *testing.T, name, text string) {
	t.Helper()
	cfg, err := config.Parse(name, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Site == nil && cfg.Planner == nil {
		t.Errorf("%s is for nothing: %+v", name, cfg)
	}
}

// TestAnycastGuideNames: the guide explains each key that there is.
func TestAnycastGuideNames(t *testing.T) {
	text := read(t, anycastGuide)
	for _, key := range keysOf(t, "anycast", 60) {
		if !regexp.MustCompile("`([a-z_\\[\\]]+\\.)*\\.?" + key + "[`.\\[]|[{, ]" + key + ": ").MatchString(text) {
			t.Errorf("the guide lacks the key %s", key)
		}
	}
}

// TestAnycastParts: the architecture has each folder of the part, with what it imports of the others.
func TestAnycastParts(t *testing.T) {
	_, section, _ := strings.Cut(read(t, "../docs/architecture.md"), "\n## The anycast part\n")
	folders, err := filepath.Glob("../anycast/*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	imports := make(map[string][]string)
	for _, f := range folders {
		folder := filepath.Base(filepath.Dir(f))
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		if imports[folder] == nil {
			imports[folder] = []string{}
		}
		for _, m := range regexp.MustCompile(`"baton/anycast/([a-z]+)"`).FindAllStringSubmatch(read(t, f), -1) {
			if !slices.Contains(imports[folder], m[1]) {
				imports[folder] = append(imports[folder], m[1])
			}
		}
	}
	if len(imports) < 9 {
		t.Fatalf("found %v only", imports)
	}
	for folder, all := range imports {
		slices.Sort(all)
		names := ""
		for _, name := range all {
			names += ", `" + name + "`"
		}
		row := regexp.MustCompile("\\| `anycast/" + folder + "` \\| [^|]+ \\| ?" + regexp.QuoteMeta(strings.TrimPrefix(names, ", ")) + " ?\\|\n")
		if !row.MatchString(section) {
			t.Errorf("no row of anycast/%s with the imports %s", folder, names)
		}
	}
}
