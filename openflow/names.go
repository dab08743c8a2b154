package openflow

import (
	"strconv"
	"strings"
)

// valueName names a value of an enumeration as the specification does, without its prefix.
type valueName struct {
	value uint32
	name  string
}

func nameOf(names []valueName, v uint32) string {
	for _, n := range names {
		if n.value == v {
			return n.name
		}
	}
	return strconv.FormatUint(uint64(v), 10)
}

// namesOf joins the names of the bits in v; bits without a name stand last, as one number.
func namesOf(names []valueName, v uint32) string {
	if v == 0 {
		return "0"
	}
	var set []string
	for _, n := range names {
		if v&n.value != 0 {
			set = append(set, n.name)
			v &^= n.value
		}
	}
	if v != 0 {
		set = append(set, "0x"+strconv.FormatUint(uint64(v), 16))
	}
	return strings.Join(set, "|")
}
