package cli

import (
	"bytes"
	"strings"
	"testing"
)

func TestColumns(t *testing.T) {
	var out bytes.Buffer
	c := NewColumns(&out, "NAME", "NUMBER", "LAST")
	_ = c.AddRow("ä-long-name", "1", "x")
	for range 2 * alignedRows {
		_ = c.AddRow("b", "22", strings.Repeat("y", 70))
	}
	_ = c.AddRow(strings.Repeat("c", 20), "3", "z") // wider than its column
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	for i, want := range map[int]string{
		0:                 "NAME         NUMBER  LAST",
		1:                 "ä-long-name  1       x",
		2:                 "b            22      " + strings.Repeat("y", 70),
		alignedRows + 5:   "b            22      " + strings.Repeat("y", 70),
		2*alignedRows + 2: strings.Repeat("c", 20) + "  3       z",
	} {
		if lines[i] != want {
			t.Errorf("line %d: %q, want %q", i, lines[i], want)
		}
	}
	if len(lines) != 2*alignedRows+4 {
		t.Errorf("%d lines", len(lines))
	}
}

func TestColumnsWithoutRows(t *testing.T) {
	var out bytes.Buffer
	if err := NewColumns(&out, "A", "B").Flush(); err != nil || out.String() != "A  B\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

// TestColumnsStream: rows are printed while more come.
func TestColumnsStream(t *testing.T) {
	var out bytes.Buffer
	c := NewColumns(&out, "A", "B")
	for range alignedRows - 2 {
		_ = c.AddRow("x", "y")
	}
	if out.Len() > 0 {
		t.Fatal("the widths are chosen too early")
	}
	if _ = c.AddRow("x", "y"); out.Len() == 0 {
		t.Fatal("nothing is printed once the widths are chosen")
	}
	before := out.Len()
	for range 1 << 16 {
		_ = c.AddRow("x", "y")
	}
	if out.Len()-before < 1<<17 {
		t.Errorf("%d bytes are printed of 65,536 rows", out.Len()-before)
	}
}
