package datapath

import "testing"

func TestRingSize(t *testing.T) {
	for _, tt := range []struct {
		records int
		want    uint32
	}{{1, 64 << 10}, {512, 64 << 10}, {513, 128 << 10}, {2000, 256 << 10}, {1 << 22, 16 << 20}} {
		if got := RingSize(tt.records, 120, 64<<10, 16<<20); got != tt.want {
			t.Errorf("%d records: %d bytes, want %d", tt.records, got, tt.want)
		}
	}
}
