package discover

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"baton/router/config"
	"baton/rpc/settings"
)

func TestControllerOutcome(t *testing.T) {
	const se1, se2 = `{"name":"se1","address":"10.2.1.1:80","up":true,"state":"in-service","weight":1}`,
		`{"name":"se2","address":"10.2.1.2:80","up":false,"state":"maintenance","weight":3}`
	for _, tt := range []struct{ name, said, want string }{
		{"as it is", `{"surrogates":[` + se2 + "," + se1 + `],"zones":[{"prefix":"10.1.0.0/24","surrogates":["se2","se1"]}]}`,
			"near/se1 10.2.1.1:80 1; near/se2 10.2.1.2:80 0; 10.1.0.0/24: near/se2 near/se1"},
		{"host bits of a zone", `{"surrogates":[` + se1 + `],"zones":[{"prefix":"10.1.0.7/24","surrogates":[]}]}`, "near/se1 10.2.1.1:80 1; 10.1.0.0/24: "},
		{"a weight above the router's", `{"surrogates":[{"name":"a","address":"10.2.1.1:80","state":"in-service","weight":9999}]}`, "near/a 10.2.1.1:80 256"},
		{"no surrogates", `{"zones":[{"prefix":"10.1.0.0/24","surrogates":["se2"]}]}`, "nodata: the controller knows no surrogates"},
		{"nothing", ``, "malformed: the controller's distances"},
		{"nonsense", `[1]`, "malformed: the controller's distances"},
		{"no address", `{"surrogates":[{"name":"a","state":"in-service","weight":1}]}`, `malformed: the controller's surrogate "a"`},
		{"no port", `{"surrogates":[{"name":"a","address":"10.2.1.1:0","state":"in-service","weight":1}]}`, `malformed: the controller's surrogate "a"`},
		{"a name with spaces", `{"surrogates":[{"name":"a b","address":"10.2.1.1:80","state":"in-service","weight":1}]}`, `malformed: the controller's surrogate "a b"`},
		{"a negative weight", `{"surrogates":[{"name":"a","address":"10.2.1.1:80","state":"in-service","weight":-1}]}`, `malformed: the controller's surrogate "a"`},
		{"a zone without a prefix", `{"surrogates":[` + se1 + `],"zones":[{"surrogates":["se1"]}]}`, "malformed: the controller has a zone"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := text(controllerOutcome([]byte(tt.said), "near/")); !strings.HasPrefix(got, tt.want) {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func text(o Outcome) string {
	var f *Failure
	if errors.As(o.Err, &f) {
		if o.Set != nil {
			return "a set and a failure"
		}
		return string(f.Kind) + ": " + f.Text
	}
	var parts []string
	for _, s := range o.Set.Surrogates {
		parts = append(parts, strings.Join([]string{s.Name, s.Address.String(), strconv.Itoa(s.Weight)}, " "))
	}
	for _, z := range o.Set.Zones {
		parts = append(parts, z.Prefix.String()+": "+strings.Join(z.Surrogates, " "))
	}
	return strings.Join(parts, "; ")
}

func FuzzControllerOutcome(f *testing.F) {
	for _, said := range []string{`{}`, `{"surrogates":[{"name":"a","address":"[fd02::1]:80","state":"in-service","weight":1}],"zones":[{"prefix":"fd01::/64","surrogates":["a"]}]}`} {
		f.Add([]byte(said))
	}
	f.Fuzz(func(t *testing.T, said []byte) {
		o := controllerOutcome(said, "p/")
		if (o.Set == nil) == (o.Err == nil) {
			t.Fatalf("%+v", o)
		}
		if o.Set == nil {
			return
		}
		for _, s := range o.Set.Surrogates {
			if !config.SurrogateName.MatchString(s.Name) || !s.Address.IsValid() || s.Weight < 0 || s.Weight > maxWeight {
				t.Errorf("%+v", s)
			}
		}
	})
}

// TestControllerFails: each attempt that fails is told, with its kind.
func TestControllerFails(t *testing.T) {
	refuses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	defer refuses.Close()
	closed := httptest.NewServer(nil)
	closed.Close()
	for _, tt := range []struct {
		name, url string
		want      FailureKind
	}{{"a wrong token", refuses.URL, Refused}, {"nobody there", closed.URL, Unreachable}} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			told := 0
			NewController(config.Discover{Kind: config.DiscoverController, Controller: &config.Controller{Settings: settings.Settings{URLs: []string{tt.url}}}}).Run(ctx, func(o Outcome) {
				var f *Failure
				if !errors.As(o.Err, &f) || f.Kind != tt.want || o.Set != nil {
					t.Errorf("%+v", o)
				}
				if told++; told == 3 {
					cancel()
				}
			})
			if told < 3 {
				t.Errorf("told %d times", told)
			}
		})
	}
}

// told is a source that says what it is told, one set after another.
type told []Set

func (s told) Run(ctx context.Context, report func(Outcome)) {
	for i := range s {
		report(Outcome{Set: &s[i]})
	}
	<-ctx.Done()
}

// TestZonesStay: a controller that has just begun, and knows no clients, takes no zones away, also those of an earlier process; one that knows some says all.
func TestZonesStay(t *testing.T) {
	zones := func(prefixes ...string) (out []config.Zone) {
		for _, p := range prefixes {
			out = append(out, config.Zone{Prefix: netip.MustParsePrefix(p), Surrogates: []string{"s"}})
		}
		return out
	}
	one := []Surrogate{{Name: "s", Address: at(1), Weight: 1}}
	for _, tt := range []struct {
		name string
		says told
		want string
	}{
		{"nobody yet", told{{Surrogates: one}}, "[10.9.0.0/16]"},
		{"somebody", told{{Surrogates: one}, {Surrogates: one, Zones: zones("10.1.0.0/24", "10.2.0.0/24")}}, "[10.1.0.0/24 10.2.0.0/24]"},
		{"begun anew", told{{Surrogates: one, Zones: zones("10.1.0.0/24")}, {Surrogates: one}}, "[10.1.0.0/24]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := NewRunner(t.Context(), Options{Make: func(config.Discover) Source { return tt.says }, Changed: func() {}, Log: quiet()})
			defer r.Close()
			cfg := parse(t, "  web: {policy: nearest, discover: {controller: {url: \"ws://192.0.2.1:1\"}}}\n")
			key := Key{"web", cfg.Pools[0].Discover[0].String()}
			r.Update(cfg, map[Key]Set{key: {Surrogates: []Surrogate{{Name: "old", Address: at(2), Weight: 1}}, Zones: zones("10.9.0.0/16")}})
			got := ""
			for until := time.Now().Add(5 * time.Second); got != tt.want && time.Now().Before(until); time.Sleep(5 * time.Millisecond) {
				set := r.Sets()[key]
				var prefixes []string
				for _, z := range set.Zones {
					prefixes = append(prefixes, z.Prefix.String())
				}
				if got = fmt.Sprint(prefixes); len(set.Surrogates) != 1 || set.Surrogates[0].Name != "s" {
					got = fmt.Sprint(set.Surrogates)
				}
			}
			if got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}
