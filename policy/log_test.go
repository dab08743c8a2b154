package policy_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"baton/api"
	"baton/policy"
)

func paths(entries []api.RoutingDecision) (out []string) {
	for _, e := range entries {
		out = append(out, e.Path)
	}
	return out
}

func TestLog(t *testing.T) {
	l := policy.NewLog(3)
	if got, count := l.After(0, 0); len(got) != 0 || count != 0 {
		t.Errorf("an empty log has %v, %d", got, count)
	}
	for i := range 5 {
		l.Add(api.RoutingDecision{Path: fmt.Sprint(i)})
	}
	for _, tt := range []struct {
		after uint64
		limit int
		want  []string
		count uint64
	}{{0, 0, []string{"2", "3", "4"}, 5}, {3, 0, []string{"3", "4"}, 5}, {3, 1, []string{"3"}, 4}, {5, 0, nil, 5}, {9, 0, nil, 9}, {0, 2, []string{"2", "3"}, 4}} {
		if got, count := l.After(tt.after, tt.limit); !slices.Equal(paths(got), tt.want) || count != tt.count {
			t.Errorf("%d after %d: %v, %d, want %v, %d", tt.limit, tt.after, paths(got), count, tt.want, tt.count)
		}
	}
	if got := paths(l.Last(2)); !slices.Equal(got, []string{"3", "4"}) {
		t.Errorf("the last two: %v", got)
	}
	if got := paths(l.Last(0)); !slices.Equal(got, []string{"2", "3", "4"}) {
		t.Errorf("the last ones: %v", got)
	}
}

func TestRecord(t *testing.T) {
	s := parse(t, two).State(nil, nil, nil)
	q := policy.Query{Client: client("192.0.2.1"), Host: "cdn.example.org", Path: "/a"}
	d := s.Explain(&q)
	at := time.Unix(1, 0)
	r := d.Record(at, "dns", &q)
	if r.Site != "praha" || r.Surrogate != "se6" || r.Client != q.Client.Addr() || r.Name != q.Host || r.Path != "/a" || r.Method != "dns" || !r.Time.Equal(at) ||
		!slices.Equal(r.Because, d.Because) {
		t.Errorf("%+v", r)
	}
}
