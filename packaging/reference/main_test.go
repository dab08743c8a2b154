package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestReferenceIsCurrent: the files are what the generator writes.
func TestReferenceIsCurrent(t *testing.T) {
	all, err := pages("../..")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range all {
		if got, err := os.ReadFile("../../docs/reference/" + name); err != nil || string(got) != want {
			t.Errorf("docs/reference/%s is not up to date: run make reference", name)
		}
	}
	files, _ := filepath.Glob("../../docs/reference/*.md")
	for _, file := range files {
		if name := filepath.Base(file); all[name] == "" && !strings.HasPrefix(name, "commands-") {
			t.Errorf("docs/reference/%s is not written by anything: delete it", name)
		}
	}
}

// TestVerdictNames: the enumerations in C are read as the compiler reads them.
func TestVerdictNames(t *testing.T) {
	quoted := regexp.MustCompile(`: +"([a-z0-9_]+)",`)
	for _, p := range programs {
		text, err := os.ReadFile("../../datapath/" + p.name + "/verdict_names.go")
		if err != nil {
			t.Fatal(err)
		}
		var want, got []string
		for _, m := range quoted.FindAllStringSubmatch(string(text), -1) {
			if m[1] != "verdicts" {
				want = append(want, m[1])
			}
		}
		all, err := verdicts("../..", p.name)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range all {
			got = append(got, v.name)
			if v.meaning == "" {
				t.Errorf("bpf/%s/types.h does not say what %s means", p.name, strings.ToUpper(v.name))
			}
		}
		if !slices.Equal(got, want) || len(got) < 10 {
			t.Errorf("%s: %v, want %v", p.name, got, want)
		}
	}
}
