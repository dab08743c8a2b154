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

func TestComments(t *testing.T) {
	tests := []struct {
		name, file, source string
		want               []string
	}{
		{
			"Go", "p.go",
			"//go:build linux\n\n// Package p has\n// two lines.\npackage p\n\n//\ta := code\n\n/* one\ntwo */\n" +
				"var s = \"// no comment\" // after it\n",
			[]string{"", "", "Package p has", "two lines.", "", "", "", "", "one", "two", "after it"},
		},
		{
			"C", "p.h",
			"// SPDX-License-Identifier: GPL-2.0\n/* Whether it is,\n * or is not. */\n" +
				"char *s = \"/* no */\"; // \"after\" it\nchar c = '\"'; /* a */ /* b */\n",
			[]string{"", "Whether it is,", "or is not.", "\"after\" it", "a. b"},
		},
		{"none", "p.go", "package p // +checklocks:mu\n", nil},
		{"directive", "p.go", "package p\n\n//export f\n//nolint:all\n", nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := comments(test.file, []byte(test.source))
			if err != nil || !slices.Equal(got, test.want) {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}
