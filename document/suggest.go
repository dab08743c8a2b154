package document

import (
	"fmt"
	"strings"
)

func names(keys []Key) []string {
	var out []string
	for _, k := range keys {
		if k.Now == "" {
			out = append(out, k.Name)
		}
	}
	return out
}

func keyNames(keys []Key) string { return strings.Join(names(keys), ", ") }

// Meant suggests the name that was probably meant, or else lists the valid ones.
func Meant(got string, names []string) string {
	if best := Nearest(got, names); best != "" {
		return fmt.Sprintf("did you mean %s?", best)
	}
	if len(names) == 0 {
		return "there are none"
	}
	if len(names) > mostNames {
		return fmt.Sprintf("one of %s and %d more", strings.Join(names[:mostNames], ", "), len(names)-mostNames)
	}
	return "one of " + strings.Join(names, ", ")
}

// mostNames bounds the names that a message lists.
const mostNames = 20

// Nearest returns the name that was probably meant, at most two edits away and no more than half of its letters, or "".
func Nearest(got string, names []string) string {
	best, distance := "", 3
	for _, name := range names {
		if d := editDistance(strings.ToLower(got), strings.ToLower(name)); d < distance && 2*d <= len(name) {
			best, distance = name, d
		}
	}
	return best
}

// editDistance counts insertions, deletions and replacements of letters, and swaps of neighbours, on bytes. A long a is far from every name, and
// not worth the time.
func editDistance(a, b string) int {
	if len(a) > 64 {
		return len(a)
	}
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		for j := range rows[i] {
			switch {
			case i == 0 || j == 0:
				rows[i][j] = i + j
				continue
			case a[i-1] == b[j-1]:
				rows[i][j] = rows[i-1][j-1]
			default:
				rows[i][j] = 1 + min(rows[i-1][j-1], rows[i-1][j], rows[i][j-1])
			}
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], 1+rows[i-2][j-2])
			}
		}
	}
	return rows[len(a)][len(b)]
}
