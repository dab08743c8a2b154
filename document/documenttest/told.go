// Package documenttest is for tests of what is decoded from documents.
package documenttest

import (
	"slices"
	"strings"
)

// Told reports whether an error tells one mistake, or as many as want has lines, and nothing else but keys that are missing: the documents
// of tests are not whole.
func Told(err error, want string) bool {
	if err == nil {
		return false
	}
	lines := strings.Split(err.Error(), "\n")
	for one := range strings.SplitSeq(want, "\n") {
		i := slices.Index(lines, one)
		if i < 0 {
			return false
		}
		lines = slices.Delete(lines, i, i+1)
	}
	return !slices.ContainsFunc(lines, func(line string) bool { return !strings.HasSuffix(line, ": is missing") })
}
