package main

import (
	"slices"
	"testing"
)

func TestTexts(t *testing.T) {
	source := "package p\n\nimport \"fmt\"\n\nvar long = `one line of it,\nand\nthe other line too`\n\n" +
		"type s struct {\n\tf int `doc:\"no tag is prose\"`\n}\n\n" +
		"func f() { fmt.Println(\"key_name\", \"a text of words\\n\", \"and another one here\") }\n"
	got, err := texts("p.go", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"", "", "", "", "one line of it,", "and", "the other line too", "", "", "", "", "", "a text of words. and another one here"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}
