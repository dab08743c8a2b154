package surrogates

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"baton/api"
	"baton/policy"
)

// clock is set by hand.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

var client = netip.MustParseAddr("10.0.1.5")

func at(last byte) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, last}), 80)
}

// newSet has the sites near (se1, se2) and far (se3). hops is by the surrogate's last octet; nil: unknown.
func newSet(t *testing.T, hops map[byte]int, change func(*Options)) (*Set, *clock) {
	t.Helper()
	p, err := policy.New(policy.Config{Default: "near", Sites: []policy.Site{
		{Name: "near", Surrogates: []policy.Surrogate{{Name: "se1", Weight: 1}, {Name: "se2", Weight: 1}}},
		{Name: "far", Surrogates: []policy.Surrogate{{Name: "se3", Weight: 1}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	c := &clock{time.Unix(1000, 0)}
	o := Options{Policy: p, Now: c.now, Surrogates: []Surrogate{{"se1", at(11), "se1.test"}, {"se2", at(12), ""}, {"se3", at(13), ""}}}
	if hops != nil {
		o.Hops = func(_, s netip.Addr) (int, bool) { n, ok := hops[s.As4()[3]]; return n, ok }
	}
	if change != nil {
		change(&o)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s, c
}

func choose(t *testing.T, s *Set, among ...string) string {
	t.Helper()
	u, err := s.Choose(Request{Client: client, Host: "cdn.test", Target: "/a.jpg?size=2", Among: among})
	if err != nil && !errors.Is(err, ErrNone) {
		t.Fatal(err)
	}
	return u.Name
}

func because(s *Set) string {
	all := s.Decisions()
	return strings.Join(all[len(all)-1].Because, "; ")
}

func TestChooseByDistanceHealthAndLegs(t *testing.T) {
	all := []string{"se1", "se2", "se3"}
	s, _ := newSet(t, map[byte]int{11: 4, 12: 4, 13: 1}, nil)
	if got := choose(t, s, all...); got != "se3" {
		t.Errorf("the nearest is se3, chosen was %s: %s", got, because(s))
	}
	s.Checked("se3", errors.New("connection refused"))
	first := choose(t, s, all...)
	if first == "se3" || first == "" {
		t.Errorf("se3 is down, chosen was %q: %s", first, because(s))
	}
	other := map[string]string{"se1": "se2", "se2": "se1"}[first]
	if got := choose(t, s, other, "se3"); got != other || !strings.Contains(because(s), "no ready leg to "+first) {
		t.Errorf("without a leg to %s, chosen was %s: %s", first, got, because(s))
	}
	if got := choose(t, s); got != "" {
		t.Errorf("without any leg, chosen was %s", got)
	}
	s.Checked("se3", nil)
	if got := choose(t, s, all...); got != "se3" {
		t.Errorf("se3 is up again, chosen was %s: %s", got, because(s))
	}
}

func TestWithoutDistancesTheDefaultSite(t *testing.T) {
	s, _ := newSet(t, nil, nil)
	if got := choose(t, s, "se1", "se2", "se3"); got != "se1" && got != "se2" {
		t.Errorf("chosen was %s: %s", got, because(s))
	}
}

// A surrogate whose checks succeed and whose handoffs fail gets none for a while.
func TestFailedHandoffsSetAside(t *testing.T) {
	s, c := newSet(t, map[byte]int{11: 1, 12: 2, 13: 3}, nil)
	fail := func(n int) {
		for range n {
			s.Failed("se1")
		}
	}
	fail(4)
	s.Served("se1")
	fail(4)
	if got := choose(t, s, "se1", "se3"); got != "se1" {
		t.Errorf("after 4 failures in a row: %s", got)
	}
	fail(1)
	isAside(t, s, c, "5 handoffs in a row have failed")
}

// isAside checks that se1 gets no clients for 10 s, and why.
func isAside(t *testing.T, s *Set, c *clock, why string) {
	t.Helper()
	if got := choose(t, s, "se1", "se3"); got != "se3" || !strings.Contains(because(s), why) {
		t.Errorf("after 5 in a row: %s: %s", got, because(s))
	}
	if u := s.List()[0]; u.Up || u.Error == "" {
		t.Errorf("se1 is %+v", u)
	}
	c.at = c.at.Add(10 * time.Second)
	if got := choose(t, s, "se1", "se3"); got != "se1" {
		t.Errorf("after its time: %s", got)
	}
}

// So does one that acknowledges requests and does not answer them.
func TestUnansweredSetAside(t *testing.T) {
	s, c := newSet(t, map[byte]int{11: 1, 12: 2, 13: 3}, nil)
	unanswered := func(n int) {
		for range n {
			s.Served("se1") // its handoffs are complete
			s.Heard("se1", false)
		}
	}
	unanswered(4)
	s.Heard("se1", true)
	unanswered(4)
	if got := choose(t, s, "se1", "se3"); got != "se1" {
		t.Errorf("after 4 in a row: %s", got)
	}
	unanswered(1)
	isAside(t, s, c, "5 requests in a row were acknowledged and not answered")
}

func TestOperatorsChanges(t *testing.T) {
	var saved []Change
	refuse := errors.New("no quorum")
	var published []api.ControllerSurrogate
	s, _ := newSet(t, nil, func(o *Options) {
		o.Save = func(c Change) error {
			if c.Name == "se2" {
				return refuse
			}
			saved = append(saved, c)
			return nil
		}
		o.Publish = func(topic api.ControllerTopic, v any) {
			if topic == api.TopicSurrogates {
				published = append(published, v.(api.ControllerSurrogate))
			}
		}
	})
	weight, state, wrong, negative := 7, api.Maintenance, "asleep", -1
	if u, err := s.Set("se1", api.ControllerSurrogateChange{Weight: &weight, State: &state}); err != nil || u.Weight != 7 || u.State != api.Maintenance {
		t.Errorf("%+v, %v", u, err)
	}
	if len(saved) != 1 || len(published) != 1 || published[0].State != api.Maintenance {
		t.Errorf("saved %v, published %v", saved, published)
	}
	if got := choose(t, s, "se1", "se2"); got != "se2" || !strings.Contains(because(s), "se1 is in maintenance") && !strings.Contains(because(s), "se2") {
		t.Errorf("se1 is in maintenance, chosen was %s: %s", got, because(s))
	}
	for _, tt := range []struct {
		name string
		c    api.ControllerSurrogateChange
		want error
	}{
		{"se9", api.ControllerSurrogateChange{Weight: &weight}, api.ErrNotFound},
		{"se1", api.ControllerSurrogateChange{State: &wrong}, api.ErrInvalid},
		{"se1", api.ControllerSurrogateChange{Weight: &negative}, api.ErrInvalid},
		{"se2", api.ControllerSurrogateChange{Weight: &weight}, refuse},
	} {
		if _, err := s.Set(tt.name, tt.c); !errors.Is(err, tt.want) {
			t.Errorf("%s %+v: %v, want %v", tt.name, tt.c, err, tt.want)
		}
	}
	if _, err := s.Set("se11", api.ControllerSurrogateChange{Weight: &weight}); err == nil || !strings.Contains(err.Error(), "(did you mean se1?)") {
		t.Errorf("%v, want a suggestion", err)
	}
	if u := s.List()[1]; u.Weight != 1 {
		t.Errorf("what could not be saved holds: %+v", u)
	}
	s.Changed(nil)
	if u := s.List()[0]; u.Weight != 1 || u.State != api.InService {
		t.Errorf("after all changes were taken back: %+v", u)
	}
}

func TestRateIsOfTheLastTenSeconds(t *testing.T) {
	s, c := newSet(t, nil, nil)
	for range 30 {
		s.Served("se1")
	}
	c.at = c.at.Add(5 * time.Second)
	for range 20 {
		s.Served("se1")
	}
	for _, tt := range []struct {
		after time.Duration
		want  float64
	}{{0, 5}, {4 * time.Second, 5}, {time.Second, 2}, {4 * time.Second, 2}, {time.Second, 0}, {time.Hour, 0}} {
		c.at = c.at.Add(tt.after)
		if got := s.Rates()["se1"]; got != tt.want {
			t.Errorf("at %v: %v handoffs a second, want %v", c.at.Unix(), got, tt.want)
		}
	}
	if u := s.List()[0]; u.Handoffs != 50 {
		t.Errorf("%d handoffs", u.Handoffs)
	}
}

func TestLoad(t *testing.T) {
	s, _ := newSet(t, nil, nil)
	s.Loaded(map[string]int{"se1": 3}, map[string]int{"se1": 5, "se2": 6})
	got := s.List()
	if got[0].Sessions != 3 || got[0].Legs != 5 || got[1].Legs != 6 || got[2].Legs != 0 {
		t.Errorf("%+v", got)
	}
}

func TestUnknownSurrogate(t *testing.T) {
	p, err := policy.New(policy.Config{Default: "a", Sites: []policy.Site{{Name: "a"}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(Options{Policy: p, Surrogates: []Surrogate{{Name: "se1", Address: at(1)}}}); err == nil || err.Error() != "surrogate se1 is at no site of the policy" {
		t.Errorf("%v", err)
	}
}
