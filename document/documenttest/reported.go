// Package documenttest helps tests of decoded documents.
package documenttest

import (
	"slices"
	"strings"
)

// Reported reports whether an error contains exactly the mistakes that are the lines of want, apart from missing keys, because the documents of
// tests are not complete.
func Reported(err error, want string) bool {
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
	return !slices.ContainsFunc(lines, func(line string) bool { return !strings.Contains(line, ": is missing (") })
}
