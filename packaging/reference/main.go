// Command reference writes the reference of keys, metrics and verdicts into a folder, from the tables of the code: make reference. That of the
// commands is written by the tests of the programs, which have the commands.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "reference: FOLDER is missing; for example: go run ./packaging/reference docs/reference")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "reference:", err)
		os.Exit(1)
	}
}

func write(folder string) error {
	all, err := pages(".")
	if err != nil {
		return err
	}
	for name, text := range all {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// pages are the files by name; root is the folder of the sources.
func pages(root string) (map[string]string, error) {
	all := make(map[string]string)
	for _, c := range configurations {
		all["keys-"+c.part+".md"] = keysPage(c)
	}
	var err error
	if all["metrics.md"], err = metricsPage(); err != nil {
		return nil, err
	}
	all["verdicts.md"], err = verdictsPage(root)
	return all, err
}

// cell is a text as a cell of a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

func code(text string) string { return "`" + text + "`" }
