package packet

import "testing"

func TestSeqOrderIsModulo2To32(t *testing.T) {
	tests := []struct {
		name         string
		a, b         Seq
		less, lessEq bool
	}{
		{"equal", 5, 5, false, true},
		{"before", 5, 6, true, true},
		{"after", 6, 5, false, false},
		{"before, across the wrap", 0xffffffff, 0, true, true},
		{"after, across the wrap", 0, 0xffffffff, false, false},
		{"2^31-1 apart", 0, 0x7fffffff, true, true},
		{"2^31-1 apart, across the wrap", 0xc0000000, 0x3fffffff, true, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.a.Less(tt.b); got != tt.less {
				t.Errorf("Less: got %v, want %v", got, tt.less)
			}
			if got := tt.a.LessEq(tt.b); got != tt.lessEq {
				t.Errorf("LessEq: got %v, want %v", got, tt.lessEq)
			}
		})
	}
}

func TestSeqAddAndSubWrap(t *testing.T) {
	tests := []struct {
		name string
		from Seq
		n    uint32
		want Seq
	}{
		{"no wrap", 10, 5, 15},
		{"to zero", 0xffffffff, 1, 0},
		{"across", 0xfffffff0, 0x20, 0x10},
		{"negative distance", 5, ^uint32(9), 0xfffffffb},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.from.Add(tt.n)
			if got != tt.want {
				t.Errorf("Add: got %#x, want %#x", got, tt.want)
			}
			if n := got.Sub(tt.from); n != tt.n {
				t.Errorf("Sub: got %#x, want %#x", n, tt.n)
			}
		})
	}
}
