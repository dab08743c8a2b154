package discover

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
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
