package document

import (
	"strings"
	"testing"
)

func TestMeant(t *testing.T) {
	for _, tt := range []struct {
		got   string
		names []string
		want  string
	}{
		{"vdeo", []string{"default", "video"}, "did you mean video?"},
		{"roundrobin", []string{"weighted", "round-robin"}, "did you mean round-robin?"},
		{"standlone", []string{"secure", "standalone"}, "did you mean standalone?"},
		{"tpc", []string{"udp", "tcp"}, "did you mean tcp?"},
		{"TCP", []string{"udp", "tcp"}, "did you mean tcp?"},
		{"cat", []string{"tcp", "udp"}, "one of tcp, udp"},
		{"b", []string{"a"}, "one of a"},
		{"", []string{"ab", "abc"}, "one of ab, abc"},
		{"x", nil, "there are none"},
		{strings.Repeat("a", 65), []string{strings.Repeat("a", 64)}, "one of " + strings.Repeat("a", 64)},
		{"nothing like it", strings.Fields("a b c d e f g h i j k l m n o p q r s t u v"), "one of a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t and 2 more"},
	} {
		if got := Meant(tt.got, tt.names); got != tt.want {
			t.Errorf("Meant(%q, %v) = %q, want %q", tt.got, tt.names, got, tt.want)
		}
	}
}

func TestEditDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"a", "", 1}, {"", "ab", 2}, {"abc", "abc", 0}, {"abc", "ab", 1}, {"abc", "abd", 1}, {"abc", "acb", 1}, {"tpc", "tcp", 1},
		{"kitten", "sitting", 3}, {"abcd", "badc", 2},
	} {
		if got := editDistance(tt.a, tt.b); got != tt.want {
			t.Errorf("editDistance(%q, %q) = %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}
