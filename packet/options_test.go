package packet

import (
	"errors"
	"slices"
	"testing"
)

func TestOptionsAll(t *testing.T) {
	tests := []struct {
		name  string
		o     Options
		kinds []OptionKind
		at    []int
		bad   bool
	}{
		{"none", nil, nil, nil, false},
		{"NOPs only", Options{1, 1, 1, 1}, nil, nil, false},
		{
			"a Linux SYN",
			Options{}.AppendMSS(1460).AppendSACKPermitted().AppendTimestamps(1, 0).AppendNOP(1).AppendWindowScale(7),
			[]OptionKind{OptionMSS, OptionSACKPermitted, OptionTimestamps, OptionWindowScale},
			[]int{0, 4, 6, 17},
			false,
		},
		{"the end hides what follows", Options{0, 2, 4, 5, 180}, nil, nil, false},
		{"an unknown kind is walked over", Options{254, 4, 9, 9, 4, 2}, []OptionKind{254, 4}, []int{0, 4}, false},
		{"a kind without a length", Options{1, 8}, []OptionKind{8}, []int{1}, true},
		{"length 0", Options{4, 2, 8, 0, 1, 1}, []OptionKind{4, 8}, []int{0, 2}, true},
		{"length 1", Options{8, 1, 1, 1}, []OptionKind{8}, []int{0}, true},
		{"length past the end", Options{8, 10, 0, 0, 0, 0, 0, 0, 0}, []OptionKind{8}, []int{0}, true},
		{"length up to the end", Options{8, 10, 0, 0, 0, 0, 0, 0, 0, 0}, []OptionKind{8}, []int{0}, false},
		{"length 255", Options{5, 255, 0, 0}, []OptionKind{5}, []int{0}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var kinds []OptionKind
			var at []int
			var bad error
			for opt, err := range tt.o.All() {
				kinds, at = append(kinds, opt.Kind), append(at, opt.Offset)
				bad = err
			}
			if !slices.Equal(kinds, tt.kinds) || !slices.Equal(at, tt.at) {
				t.Errorf("got kinds %v at %v, want %v at %v", kinds, at, tt.kinds, tt.at)
			}
			if errors.Is(bad, ErrOptions) != tt.bad || errors.Is(tt.o.Check(), ErrOptions) != tt.bad {
				t.Errorf("got error %v and Check %v, want malformed %v", bad, tt.o.Check(), tt.bad)
			}
		})
	}
}

func TestOptionReaders(t *testing.T) {
	blocks := []SACKBlock{{0xfffffff0, 0x10}, {0x20, 0x30}}
	o := Options{}.AppendMSS(1400).AppendWindowScale(14).AppendSACKPermitted().AppendTimestamps(0xdeadbeef, 7).
		AppendSACK(blocks...)
	if mss, ok := o.MSS(); !ok || mss != 1400 {
		t.Errorf("MSS: got %d, %v", mss, ok)
	}
	if shift, ok := o.WindowScale(); !ok || shift != 14 {
		t.Errorf("WindowScale: got %d, %v", shift, ok)
	}
	if !o.SACKPermitted() {
		t.Error("SACKPermitted: got false")
	}
	if val, ecr, ok := o.Timestamps(); !ok || val != 0xdeadbeef || ecr != 7 {
		t.Errorf("Timestamps: got %#x, %d, %v", val, ecr, ok)
	}
	if got := o.SACK(); !slices.Equal(got, blocks) {
		t.Errorf("SACK: got %v, want %v", got, blocks)
	}
}

func TestOptionReadersIgnoreWrongSizes(t *testing.T) {
	tests := []struct {
		name string
		o    Options
	}{
		{"absent", nil},
		{"too short", Options{2, 3, 5, 3, 2, 8, 6, 1, 2, 3, 4}},
		{"too long", Options{2, 5, 1, 2, 3, 3, 4, 1, 2, 4, 3, 1}},
		{"SACK with half a block", Options{5, 6, 1, 2, 3, 4}},
		{"behind a malformed one", Options{9, 0, 2, 4, 5, 180}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, mss := tt.o.MSS()
			_, scale := tt.o.WindowScale()
			_, _, ts := tt.o.Timestamps()
			if mss || scale || ts || tt.o.SACKPermitted() || tt.o.SACK() != nil {
				t.Errorf("got MSS %v, scale %v, timestamps %v, SACK permitted %v, SACK %v; want none",
					mss, scale, ts, tt.o.SACKPermitted(), tt.o.SACK())
			}
		})
	}
}

func TestLastOptionOfAKindWins(t *testing.T) {
	if mss, _ := (Options{}).AppendMSS(1).AppendMSS(2).MSS(); mss != 2 {
		t.Errorf("got %d, want 2", mss)
	}
}

// FuzzOptions: the walk ends, its options lie in order within the bytes, it reads what it names, and writes nothing.
func FuzzOptions(f *testing.F) {
	f.Add([]byte(Options{}.AppendMSS(1460).AppendSACKPermitted().AppendTimestamps(1, 2).AppendNOP(1).AppendWindowScale(7)))
	f.Add([]byte(Options{}.AppendNOP(2).AppendSACK(SACKBlock{1, 2}, SACKBlock{3, 4})))
	f.Add([]byte{8, 0})
	f.Add([]byte{5, 255, 1})
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, b []byte) {
		before := slices.Clone(b)
		at, ended := 0, false
		for opt, err := range Options(b).All() {
			if ended {
				t.Fatal("an option behind a malformed one")
			}
			if opt.Offset < at || opt.Offset >= len(b) || OptionKind(b[opt.Offset]) != opt.Kind {
				t.Fatalf("option %d at %d, after %d of %d bytes", opt.Kind, opt.Offset, at, len(b))
			}
			for _, skipped := range b[at:opt.Offset] {
				if skipped != byte(OptionNOP) {
					t.Fatalf("byte %d was skipped", skipped)
				}
			}
			if ended = err != nil; ended {
				continue
			}
			at = opt.Offset + opt.Size()
			if at > len(b) || !slices.Equal(opt.Data, b[opt.Offset+2:at]) || int(b[opt.Offset+1]) != opt.Size() {
				t.Fatalf("option %d at %d: wrong data", opt.Kind, opt.Offset)
			}
		}
		if !ended && at < len(b) {
			rest := b[at:]
			for len(rest) > 0 && rest[0] == byte(OptionNOP) {
				rest = rest[1:]
			}
			if len(rest) > 0 && rest[0] != byte(OptionEnd) {
				t.Fatalf("the walk stopped before % x", rest)
			}
		}
		Options(b).MSS()
		Options(b).WindowScale()
		Options(b).SACKPermitted()
		Options(b).SACK()
		Options(b).Timestamps()
		if !slices.Equal(b, before) {
			t.Fatal("reading changed the bytes")
		}
	})
}
