package experiments

import (
	"math"
	"testing"
)

func TestFigure(t *testing.T) {
	for v, want := range map[float64]string{0: "0.00", 0.001234: "0.00123", 0.0998: "0.0998", 0.123: "0.12", 12.34: "12.3", -12.34: "-12.3", 123.4: "123",
		1234.5: "1,234", 1234567: "1,234,567", -1234567: "-1,234,567", math.NaN(): "-"} {
		if got := figure(v); got != want {
			t.Errorf("figure(%v) = %q, want %q", v, got, want)
		}
	}
}

func TestSeconds(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 2e-7: "200 ns", 1.67e-5: "16.7 µs", -2e-2: "-20.0 ms", 2.45: "2.45 s"} {
		if got := seconds(v); got != want {
			t.Errorf("seconds(%v) = %q, want %q", v, got, want)
		}
	}
}

func TestSlug(t *testing.T) {
	if got, want := slug("Time to first byte (µs)", "p99"), "time-to-first-byte-s-p99"; got != want {
		t.Errorf("slug = %q, want %q", got, want)
	}
}
