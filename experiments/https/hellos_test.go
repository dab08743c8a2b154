package https

import (
	"slices"
	"testing"
	"time"
)

// TestListIsVisitedOnce: the order of combinations visits each of them once, and their pieces have all bytes of the hello.
func TestListIsVisitedOnce(t *testing.T) {
	l, err := newList()
	if err != nil {
		t.Fatal(err)
	}
	places := make(map[*byte]int)
	for i := range l.hellos {
		places[&l.hellos[i].stream[0]] = i
	}
	seen := make([]bool, l.size())
	for n := range seen {
		h, cut, o := l.at(n)
		at := (l.before[places[&h.stream[0]]]+cut)*orders + int(o)
		if seen[at] || cut >= h.hello {
			t.Fatalf("combination %d again, or cut at %d of %d", at, cut, h.hello)
		}
		seen[at] = true
		if n%97 != 0 { // all pieces of all would take half a minute
			continue
		}
		have := make([]bool, len(h.stream))
		for _, p := range h.pieces(cut, o) {
			for i := p.from; i < p.to; i++ {
				have[i] = true
			}
		}
		if slices.Contains(have, false) {
			t.Fatalf("%s cut at %d, %v: bytes are missing", h.name, cut, o)
		}
	}
}

func TestJudge(t *testing.T) {
	for _, test := range []struct {
		answer, want string
		reset        bool
		took         time.Duration
		fate         fate
	}{
		{answerOf("a", 7), "a", false, 1, right},
		{answerOf("a", 8), "a", false, 1, wrong},
		{answerOf("b", 7), "a", false, 1, wrong},
		{answerOf("default", 7), "a", false, 1, fellThrough},
		{answerOf("default", 7), "default", false, 1, right},
		{"\x15\x03\x01\x00\x02\x02\x70", "a", false, 1, refused},
		{"", "a", true, giveUp + 1, refused},
		{"a 00", "a", false, giveUp + 1, timedOut},
	} {
		talk := &talk{answer: []byte(test.answer), reset: test.reset, ended: test.took}
		if got := judge(talk, test.want, 7, "default"); got != test.fate {
			t.Errorf("%q for %s: %v, want %v", test.answer, test.want, got, test.fate)
		}
	}
}
