package datapath

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
)

// ErrLayout says that what is pinned has another layout than this version's.
var ErrLayout = errors.New("the state in the kernel is of a version with another layout")

// Layout says what two versions must agree about that use the same pinned maps one after the other, by item: a map, a struct or union in
// one, a value of an enumeration, a constant. An item's lines are its parts, in order.
type Layout map[string][]string

// Stored is what a program keeps in pinned maps.
type Stored struct {
	Maps []string
	// Types are those that no map names: structs in queues and rings, of which the kernel knows the size alone, and enumerations that fields
	// of plain integers hold.
	Types []string
	// Constants are enumerators that places in arrays are computed from.
	Constants []string
}

// LayoutOf reads the layout from what was compiled. How many entries maps have is not in it: a map that is taken up stays as large as it is.
func LayoutOf(spec *ebpf.CollectionSpec, stored Stored) (Layout, error) {
	l := make(Layout)
	for _, name := range stored.Maps {
		m := spec.Maps[name]
		if m == nil {
			return nil, fmt.Errorf("describe the layout: no map %s", name)
		}
		l["map "+name] = l.describeMap(m)
	}
	for _, name := range stored.Types {
		t, err := spec.Types.AnyTypeByName(name)
		if err != nil {
			return nil, fmt.Errorf("describe the layout: %s: %w", name, err)
		}
		l.describe(t)
	}
	for _, name := range stored.Constants {
		value, ok := enumerator(spec.Types, name)
		if !ok {
			return nil, fmt.Errorf("describe the layout: no enumerator %s", name)
		}
		l["constant "+name] = []string{fmt.Sprint(value)}
	}
	return l, nil
}

func (l Layout) describeMap(m *ebpf.MapSpec) []string {
	lines := []string{
		fmt.Sprintf("type %v, flags %#x", m.Type, m.Flags), fmt.Sprintf("key of %d bytes", m.KeySize), fmt.Sprintf("value of %d bytes", m.ValueSize),
	}
	for name, t := range map[string]btf.Type{"key": m.Key, "value": m.Value} {
		if _, unknown := t.(*btf.Void); t != nil && !unknown {
			lines = append(lines, name+" "+l.describe(t))
		}
	}
	slices.Sort(lines[3:])
	if m.InnerMap != nil {
		for _, line := range l.describeMap(m.InnerMap) {
			lines = append(lines, "inner "+line)
		}
	}
	return lines
}

// describe names a type, and puts what it consists of into the layout.
func (l Layout) describe(t btf.Type) string {
	switch t := btf.UnderlyingType(t).(type) {
	case *btf.Int:
		return fmt.Sprintf("%v of %d bytes", t.Encoding, t.Size)
	case *btf.Array:
		return fmt.Sprintf("%d × %s", t.Nelems, l.describe(t.Type))
	case *btf.Enum:
		for _, v := range t.Values {
			item := fmt.Sprintf("enum %s, value %d", t.Name, int64(v.Value))
			l[item] = []string{v.Name}
		}
		return fmt.Sprintf("enum %s of %d bytes", t.Name, t.Size)
	case *btf.Struct:
		return l.describeMembers("struct", t.Name, t.Size, t.Members)
	case *btf.Union:
		return l.describeMembers("union", t.Name, t.Size, t.Members)
	default:
		return fmt.Sprintf("%T %s", t, t.TypeName())
	}
}

func (l Layout) describeMembers(kind, name string, size uint32, members []btf.Member) string {
	lines := []string{fmt.Sprintf("%d bytes", size)}
	for _, m := range members {
		at := fmt.Sprintf("%d", m.Offset/8)
		if m.BitfieldSize > 0 {
			at = fmt.Sprintf("bits %d to %d", m.Offset, m.Offset+m.BitfieldSize)
		}
		lines = append(lines, fmt.Sprintf("%s at %s: %s", m.Name, at, l.describe(m.Type)))
	}
	if name == "" {
		return kind + " {" + strings.Join(lines, "; ") + "}"
	}
	l[kind+" "+name] = lines
	return kind + " " + name
}

func enumerator(types *btf.Spec, name string) (uint64, bool) {
	for t, err := range types.All() {
		if e, ok := t.(*btf.Enum); ok && err == nil {
			for _, v := range e.Values {
				if v.Name == name {
					return v.Value, true
				}
			}
		}
	}
	return 0, false
}

// check compares the layout with that of the version that has pinned the maps. Maps and types that only one of them has are no matter: the
// other does not look at them. But values that are not known here may be stored.
func (l Layout) check(earlier Layout) error {
	for _, item := range slices.Sorted(maps.Keys(earlier)) {
		was, now := earlier[item], l[item]
		if now == nil && strings.HasPrefix(item, "enum ") {
			return fmt.Errorf("%w: %s was %s, which this version does not have", ErrLayout, item, strings.Join(was, "; "))
		}
		if now == nil || slices.Equal(was, now) {
			continue
		}
		return fmt.Errorf("%w: %s", ErrLayout, difference(item, was, now))
	}
	return nil
}

// difference tells of the first part that is not the same. The first line is about the whole.
func difference(item string, was, now []string) string {
	line := func(lines []string, i int) string {
		if i < len(lines) {
			return lines[i]
		}
		return "not there"
	}
	at := 0
	for i := 1; i < max(len(was), len(now)) && at == 0; i++ {
		if line(was, i) != line(now, i) {
			at = i
		}
	}
	return fmt.Sprintf("%s: was (%s), is (%s)", item, line(was, at), line(now, at))
}
