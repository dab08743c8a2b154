package part_test

import (
	"errors"
	"net/http"
	"testing"

	"baton/resume/part"
)

func TestParseContentRange(t *testing.T) {
	tests := []struct {
		name  string
		lines []string
		want  part.ContentRange
		valid bool
	}{
		{"all known", []string{"bytes 0-99/1000"}, part.ContentRange{Last: 99, Length: 1000}, true},
		{"length not given", []string{"bytes 5-5/*"}, part.ContentRange{First: 5, Last: 5, Length: -1}, true},
		{"unsatisfied", []string{"bytes */1000"}, part.ContentRange{First: -1, Last: -1, Length: 1000}, true},
		{"unsatisfied, of an empty file", []string{"bytes */0"}, part.ContentRange{First: -1, Last: -1}, true},
		{"unit in capitals", []string{"Bytes 0-0/1"}, part.ContentRange{Length: 1}, true},
		{"spaces around", []string{" bytes 0-0/1\t"}, part.ContentRange{Length: 1}, true},
		{"zeros in front", []string{"bytes 007-8/010"}, part.ContentRange{First: 7, Last: 8, Length: 10}, true},
		{"none", nil, part.ContentRange{}, false},
		{"twice, the same", []string{"bytes 0-0/1", "bytes 0-0/1"}, part.ContentRange{}, false},
		{"twice in a line", []string{"bytes 0-0/1, bytes 0-0/1"}, part.ContentRange{}, false},
		{"last before first", []string{"bytes 5-4/10"}, part.ContentRange{}, false},
		{"length within", []string{"bytes 0-9/9"}, part.ContentRange{}, false},
		{"nothing known", []string{"bytes */*"}, part.ContentRange{}, false},
		{"another unit", []string{"items 0-9/10"}, part.ContentRange{}, false},
		{"no unit", []string{"0-9/10"}, part.ContentRange{}, false},
		{"with =", []string{"bytes=0-9/10"}, part.ContentRange{}, false},
		{"no length", []string{"bytes 0-9"}, part.ContentRange{}, false},
		{"a sign", []string{"bytes +0-9/10"}, part.ContentRange{}, false},
		{"negative", []string{"bytes -1-9/10"}, part.ContentRange{}, false},
		{"a suffix", []string{"bytes -9/10"}, part.ContentRange{}, false},
		{"open", []string{"bytes 0-/10"}, part.ContentRange{}, false},
		{"more than fits", []string{"bytes 0-9223372036854775807/*"}, part.ContentRange{}, false},
		{"far more than fits", []string{"bytes 0-1/99999999999999999999999"}, part.ContentRange{}, false},
		{"spaces within", []string{"bytes 0 - 9/10"}, part.ContentRange{}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := part.ParseContentRange(http.Header{"Content-Range": tt.lines})
			if (err == nil) != tt.valid || got != tt.want {
				t.Fatalf("got %+v, %v", got, err)
			}
			if err != nil && !errors.Is(err, part.ErrContentRange) {
				t.Errorf("%v does not wrap ErrContentRange", err)
			}
		})
	}
}

// FuzzContentRange holds what is accepted against its own text, read again.
func FuzzContentRange(f *testing.F) {
	for _, s := range []string{"bytes 0-99/1000", "bytes 5-5/*", "bytes */1000", "bytes=0-1/2", "bytes 1-0/5", "bytes 0-4611686018427387903/*"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := part.ParseContentRange(http.Header{"Content-Range": {s}})
		if err != nil {
			if len(err.Error()) > 500 {
				t.Fatalf("the error has %d bytes", len(err.Error()))
			}
			return
		}
		if (r.First < 0) != (r.Last < 0) || r.Last < r.First || r.First < 0 && r.Length < 0 || r.Length >= 0 && r.Length <= r.Last {
			t.Fatalf("%q is accepted as %+v", s, r)
		}
		again, err := part.ParseContentRange(http.Header{"Content-Range": {r.String()}})
		if err != nil || again != r {
			t.Fatalf("%q is %+v, its text %q is %+v, %v", s, r, r, again, err)
		}
	})
}
