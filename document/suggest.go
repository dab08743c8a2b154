package document

import (
	"fmt"
	"strings"
)

func names(keys []Key) []string {
	var out []string
	for _, k := range keys {
		if !k.Old && k.Now == "" {
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

// editDistance is the Levenshtein distance, on bytes; a long a is far from every name and not worth the time.
func editDistance(a, b string) int {
	if len(a) > 64 {
		return len(a)
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
