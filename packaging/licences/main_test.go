package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	mit = "Permission is hereby granted, free of charge, to any person\nobtaining a copy of this software\n\n" +
		"The above copyright notice and this permission notice shall be included in all copies."
	bsd2 = "Redistributions in binary form must reproduce the above copyright\n notice"
	bsd3 = bsd2 + " ... Neither the name of X may be used to endorse or promote products\n\tderived from this software"
	mpl  = "Mozilla Public License Version 2.0 ... Secondary License means the GNU General Public License"
	gpl  = "GNU GENERAL PUBLIC LICENSE\nVersion 3"
)

func TestLicencesIn(t *testing.T) {
	for _, c := range []struct {
		name, text string
		known      []string
		wrong      bool
	}{
		{"MIT", mit, []string{"MIT"}, false},
		{"BSD-2-Clause", bsd2, []string{"BSD-2-Clause"}, false},
		{"BSD-3-Clause", bsd3, []string{"BSD-3-Clause"}, false},
		{"two", mit + bsd3, []string{"BSD-3-Clause", "MIT"}, false},
		{"MPL-2.0 names the GPL", mpl, []string{"MPL-2.0"}, false},
		{"GPL", gpl, nil, true},
		{"GPL and MIT", gpl + mit, []string{"MIT"}, true},
		{"none", "All rights reserved.", nil, false},
	} {
		known, wrong := licencesIn([]byte(c.text))
		if !slices.Equal(known, c.known) || len(wrong) > 0 != c.wrong {
			t.Errorf("%s: %v, refused %v", c.name, known, wrong)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	for text, want := range map[string]string{gpl: "leave the module out", "All rights reserved.": "no licence that is known"} {
		file := filepath.Join(t.TempDir(), "LICENSE")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		p := part{name: "example.net/m", version: "v1.0.0", texts: []string{file}}
		if _, err := p.read(); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "example.net/m v1.0.0") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
