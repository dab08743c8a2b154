package script

// Shrink removes what a finding does not need: of the items, the smallest subset found by halving (ddmin) for which fails still
// holds. It calls fails at most tries times, never with none.
func Shrink[T any](items []T, tries int, fails func([]T) bool) []T {
	for parts := 2; len(items) > 1 && tries > 0; {
		size := (len(items) + parts - 1) / parts
		smaller := false
		for at := 0; at < len(items) && tries > 0; at += size {
			rest := append(append([]T(nil), items[:at]...), items[min(at+size, len(items)):]...)
			if len(rest) == 0 {
				continue
			}
			tries--
			if fails(rest) {
				items, smaller = rest, true
				break
			}
		}
		switch {
		case smaller:
			parts = max(parts-1, 2)
		case size == 1:
			return items
		default:
			parts = min(2*parts, len(items))
		}
	}
	return items
}
