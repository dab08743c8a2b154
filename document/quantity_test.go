package document

import "testing"

// TestQuantities: a unit means the same in every file.
func TestQuantities(t *testing.T) {
	for text, want := range map[string]uint64{
		"1KiB": 1 << 10, "500MiB": 500 << 20, "1GiB": 1 << 30, "2TiB": 2 << 40, "64kB": 64e3, "64KB": 64e3, "3MB": 3e6, "20GB": 20e9, "1.5 TB": 1.5e12,
		"1.0001KiB": 1024,
	} {
		d := NewDecoder("f")
		if got := d.Size("size", &Node{Kind: Scalar, Text: text}, 1, 1e18); got != want || d.Err() != nil {
			t.Errorf("%s: %d, %v, want %d", text, got, d.Err(), want)
		}
	}
	for text, want := range map[string]float64{"100kbit": 1e5, "8Mbit": 8e6, "1.5 GBIT": 1.5e9} {
		d := NewDecoder("f")
		if got := d.Rate("rate", &Node{Kind: Scalar, Text: text}, 1e3, 1e15); got != want || d.Err() != nil {
			t.Errorf("%s: %v, %v, want %v", text, got, d.Err(), want)
		}
	}
}

func TestQuantitiesRefuse(t *testing.T) {
	const size, rate = "is not a size (a number with its unit, such as 20GB or 500MiB)", "is not a rate (a number with its unit, such as 500mbit or 1gbit)"
	for _, tt := range []struct {
		text, size, rate string // what is said of it as a size, and as a rate
	}{
		{"20", size, rate},
		{"GiB", size, rate},
		{"xGB", size, rate},
		{"20gb", size, rate},
		{"20 Mb", size, rate},
		{"gbit", size, rate},
		{"3KiB", "is out of range (from 4KiB to 1000000TB)", rate},
		{"-20GB", "is out of range (from 4KiB to 1000000TB)", rate},
		{"nanGB", "is out of range (from 4KiB to 1000000TB)", rate},
		{"1e999GB", "is out of range (from 4KiB to 1000000TB)", rate},
		{"1000001TB", "is out of range (from 4KiB to 1000000TB)", rate},
		{"99kbit", size, "is out of range (from 100kbit to 1000000gbit)"},
		{"NaNgbit", size, "is out of range (from 100kbit to 1000000gbit)"},
		{"infgbit", size, "is out of range (from 100kbit to 1000000gbit)"},
	} {
		n := &Node{Kind: Scalar, Text: tt.text, Place: Place{1, 2}}
		d := NewDecoder("f")
		d.Size("size", n, 4<<10, 1e18)
		if want := `f:1:2: size: "` + tt.text + `" ` + tt.size; d.Err() == nil || d.Err().Error() != want {
			t.Errorf("got %v, want %s", d.Err(), want)
		}
		d = NewDecoder("f")
		d.Rate("rate", n, 1e5, 1e15)
		if want := `f:1:2: rate: "` + tt.text + `" ` + tt.rate; d.Err() == nil || d.Err().Error() != want {
			t.Errorf("got %v, want %s", d.Err(), want)
		}
	}
}
