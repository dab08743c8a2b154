package datapath

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
)

// tableSpec is a program with one map, whose values have two members.
func tableSpec(t *testing.T) *ebpf.CollectionSpec {
	t.Helper()
	u32 := &btf.Int{Name: "unsigned int", Size: 4}
	value := &btf.Struct{Name: "session", Size: 16, Members: []btf.Member{
		{Name: "state", Type: &btf.Typedef{Name: "__u32", Type: u32}},
		{Name: "address", Type: &btf.Array{Index: u32, Type: &btf.Int{Name: "unsigned char", Size: 1}, Nelems: 4}, Offset: 32},
		{Name: "end", Type: &btf.Struct{Name: "stamp", Size: 8, Members: []btf.Member{{Name: "ms", Type: &btf.Int{Size: 8}}}}, Offset: 64},
	}}
	b, err := btf.NewBuilder([]btf.Type{
		&btf.Enum{Name: "state", Size: 4, Values: []btf.EnumValue{{Name: "IDLE", Value: 0}, {Name: "BUSY", Value: 1}}},
		&btf.Enum{Name: "bound", Size: 4, Values: []btf.EnumValue{{Name: "BANDS", Value: 8}, {Name: "ROOM", Value: 9}}},
		&btf.Struct{Name: "ended", Size: 4, Members: []btf.Member{{Name: "since", Type: u32}}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	types, err := b.Spec()
	if err != nil {
		t.Fatal(err)
	}
	return &ebpf.CollectionSpec{Types: types, Maps: map[string]*ebpf.MapSpec{
		"sessions": {Name: "sessions", Type: ebpf.Array, KeySize: 4, ValueSize: 16, MaxEntries: 8, Key: u32, Value: value},
		"ended":    {Name: "ended", Type: ebpf.Queue, ValueSize: 4, MaxEntries: 8},
	}}
}

var tableStored = Stored{Maps: []string{"sessions", "ended"}, Types: []string{"state", "ended"}, Constants: []string{"BANDS"}}

func layoutOf(t *testing.T, spec *ebpf.CollectionSpec) Layout {
	t.Helper()
	l, err := LayoutOf(spec, tableStored)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// A version takes up the maps of one with the same layout, and those that only one of the two has are no matter.
func TestLayoutIsTheSame(t *testing.T) {
	same := map[string]func(*ebpf.CollectionSpec, *btf.Struct, Layout){
		"nothing changes": func(*ebpf.CollectionSpec, *btf.Struct, Layout) {},
		"more entries":    func(s *ebpf.CollectionSpec, _ *btf.Struct, _ Layout) { s.Maps["sessions"].MaxEntries = 99 },
		"another name of an integer's type": func(_ *ebpf.CollectionSpec, v *btf.Struct, _ Layout) {
			v.Members[0].Type = &btf.Int{Name: "int32_t", Size: 4}
		},
		"another map":         func(_ *ebpf.CollectionSpec, _ *btf.Struct, l Layout) { l["map more"] = []string{"type Hash"} },
		"a value more of one": func(_ *ebpf.CollectionSpec, _ *btf.Struct, l Layout) { l["enum state, value 2"] = []string{"DEAD"} },
	}
	for name, change := range same {
		t.Run(name, func(t *testing.T) {
			spec := tableSpec(t)
			l := make(Layout)
			change(spec, spec.Maps["sessions"].Value.(*btf.Struct), l)
			for item, lines := range layoutOf(t, spec) {
				l[item] = lines
			}
			if err := l.check(layoutOf(t, tableSpec(t))); err != nil {
				t.Error(err)
			}
		})
	}
}

// What differs is refused, in one line that says where.
func TestLayoutIsAnother(t *testing.T) {
	tests := []struct {
		name, want string
		change     func(*ebpf.CollectionSpec, *btf.Struct)
	}{
		{"a member more", "struct session: was (not there), is (since at 16: unsigned of 4 bytes)", func(_ *ebpf.CollectionSpec, v *btf.Struct) {
			v.Members = append(v.Members, btf.Member{Name: "since", Type: &btf.Int{Size: 4}, Offset: 128})
		}},
		{"a member less", "struct session: was (end at 8: struct stamp), is (not there)", func(_ *ebpf.CollectionSpec, v *btf.Struct) {
			v.Members = v.Members[:2]
		}},
		{"members change their places", "struct session: was (state at 0: unsigned of 4 bytes), is (address at 4:", func(_ *ebpf.CollectionSpec, v *btf.Struct) {
			v.Members[0], v.Members[1] = v.Members[1], v.Members[0]
		}},
		{"a member means something else", "was (state at 0: unsigned of 4 bytes), is (hue at 0: unsigned of 4 bytes)", func(_ *ebpf.CollectionSpec, v *btf.Struct) {
			v.Members[0].Name = "hue"
		}},
		{"a signed member", "is (state at 0: signed of 4 bytes)", func(_ *ebpf.CollectionSpec, v *btf.Struct) {
			v.Members[0].Type = &btf.Int{Size: 4, Encoding: btf.Signed}
		}},
		{"a member of a member", "struct stamp: was (ms at 0: unsigned of 8 bytes), is (ns at 0: unsigned of 8 bytes)", func(_ *ebpf.CollectionSpec, v *btf.Struct) {
			v.Members[2].Type.(*btf.Struct).Members[0].Name = "ns"
		}},
		{"a longer struct", "struct session: was (16 bytes), is (24 bytes)", func(_ *ebpf.CollectionSpec, v *btf.Struct) { v.Size = 24 }},
		{"a longer value", "map sessions: was (value of 16 bytes), is (value of 24 bytes)", func(s *ebpf.CollectionSpec, _ *btf.Struct) {
			s.Maps["sessions"].ValueSize = 24
		}},
		{"another type of map", "map sessions: was (type Array, flags 0x0), is (type Hash, flags 0x0)", func(s *ebpf.CollectionSpec, _ *btf.Struct) {
			s.Maps["sessions"].Type = ebpf.Hash
		}},
		{"elements of a queue", "map ended: was (value of 4 bytes), is (value of 8 bytes)", func(s *ebpf.CollectionSpec, _ *btf.Struct) {
			s.Maps["ended"].ValueSize = 8
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			spec := tableSpec(t)
			tt.change(spec, spec.Maps["sessions"].Value.(*btf.Struct))
			refused(t, layoutOf(t, spec).check(layoutOf(t, tableSpec(t))), tt.want)
		})
	}
}

// Integers that hold enumerations, elements of queues and places in arrays are held to what the earlier version meant.
func TestLayoutOfWhatNoMapTells(t *testing.T) {
	tests := []struct{ item, was, want string }{
		{"enum state, value 1", "DRAINED", "enum state, value 1: was (DRAINED), is (BUSY)"},
		{"enum state, value 7", "DRAINED", "enum state, value 7 was DRAINED, which this version does not have"},
		{"constant BANDS", "4", "constant BANDS: was (4), is (8)"},
		{"struct ended", "8 bytes", "struct ended: was (not there), is (since at 0: unsigned of 4 bytes)"},
	}
	for _, tt := range tests {
		earlier := layoutOf(t, tableSpec(t))
		earlier[tt.item] = []string{tt.was}
		refused(t, layoutOf(t, tableSpec(t)).check(earlier), tt.want)
	}
	l := layoutOf(t, tableSpec(t))
	if l["constant ROOM"] != nil || l["struct ended"] == nil || !slices.Equal(l["constant BANDS"], []string{"8"}) {
		t.Errorf("%v", l)
	}
	for _, s := range []Stored{{Maps: []string{"none"}}, {Types: []string{"none"}}, {Constants: []string{"none"}}} {
		if _, err := LayoutOf(tableSpec(t), s); err == nil {
			t.Errorf("%v are described", s)
		}
	}
}

func refused(t *testing.T, err error, want string) {
	t.Helper()
	if !errors.Is(err, ErrLayout) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v, want %q", err, want)
	}
}
