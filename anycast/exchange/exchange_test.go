package exchange

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"baton/anycast/exchange/exchangetest"
)

// identity is that of a process of a name.
func identity(t *testing.T, a *exchangetest.Authority, name string) *Identity {
	t.Helper()
	i := new(Identity)
	if err := i.Load(a.Identity(t, name)); err != nil {
		t.Fatal(err)
	}
	return i
}

// london is a site that reports, and remembers what it hears.
type london struct {
	report       Report
	proposals    []Proposal
	instructions []Instruction
}

func serve(t *testing.T, own *Identity, s *london) *url.URL {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- Serve(ctx, l, own, Site{
			Planner: func() string { return "plan" },
			Report:  func() Report { return s.report },
			Propose: func(w Proposal) error {
				if w.Level > s.report.Drain {
					return errors.New("there is no such level")
				}
				s.proposals = append(s.proposals, w)
				return nil
			},
			Instruct: func(i Instruction) error { s.instructions = append(s.instructions, i); return nil },
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return &url.URL{Scheme: "https", Host: l.Addr().String()}
}

func TestExchange(t *testing.T) {
	a := exchangetest.NewAuthority(t)
	site := &london{report: Report{Site: "london", Health: "up", Announces: true, Level: 1, Drain: 4, Steps: []int{1, 2}, Name: "med", Load: 0.5}}
	at := serve(t, identity(t, a, "london"), site)

	planner := NewClient(identity(t, a, "plan"), "london", at)
	defer planner.Close()
	got, err := planner.Report(t.Context())
	if diff := cmp.Diff(site.report, got); err != nil || diff != "" {
		t.Errorf("Report: %v (-want +got):\n%s", err, diff)
	}
	if got, err = planner.Propose(t.Context(), Proposal{2}); err != nil || len(site.proposals) != 1 || site.proposals[0].Level != 2 || got.Site != "london" {
		t.Errorf("Propose: %+v, %v; the site has received %v", got, err, site.proposals)
	}
	if _, err = planner.Instruct(t.Context(), Instruction{Kind: "drain", Force: true}); err != nil || len(site.instructions) != 1 || !site.instructions[0].Force {
		t.Errorf("Instruct: %v; the site has received %v", err, site.instructions)
	}
	var refused *RefusedError
	if _, err = planner.Propose(t.Context(), Proposal{9}); !errors.As(err, &refused) || refused.Status != http.StatusConflict || refused.Message != "there is no such level" {
		t.Errorf("a proposal that is refused: %v", err)
	}

	paris := NewClient(identity(t, a, "paris"), "london", at)
	defer paris.Close()
	if _, err := paris.Report(t.Context()); err != nil {
		t.Errorf("another site asks for the report: %v", err)
	}
	if _, err := paris.Propose(t.Context(), Proposal{1}); !errors.As(err, &refused) || refused.Status != http.StatusForbidden {
		t.Errorf("another site proposes a level: %v", err)
	}
	if _, err := paris.Instruct(t.Context(), Instruction{Kind: "drain"}); !errors.As(err, &refused) || refused.Status != http.StatusForbidden {
		t.Errorf("another site instructs: %v", err)
	}
	if len(site.proposals) != 1 || len(site.instructions) != 1 {
		t.Errorf("the site has received %v, %v", site.proposals, site.instructions)
	}
}

func TestStrangers(t *testing.T) {
	a, b := exchangetest.NewAuthority(t), exchangetest.NewAuthority(t)
	site := &london{report: Report{Site: "london", Health: "up", Drain: 4}}
	at := serve(t, identity(t, a, "london"), site)
	stranger := identity(t, b, "plan")
	stranger.now.Load().RootCAs = identity(t, a, "plan").now.Load().RootCAs // it trusts the site, and not the site it
	tests := []struct {
		name   string
		client *Client
		err    string
	}{
		{"a certificate of other authorities", NewClient(stranger, "london", at), "certificate"},
		{"a site of another name", NewClient(identity(t, a, "plan"), "paris", at), "certificate is valid for london, not paris"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			defer tt.client.Close()
			if _, err := tt.client.Report(t.Context()); err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("error %v, want %q", err, tt.err)
			}
		})
	}
	t.Run("no certificate", func(t *testing.T) {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
		defer client.CloseIdleConnections()
		if r, err := client.Get(at.String() + "/v1/report"); err == nil {
			r.Body.Close()
			t.Error("the report is served to any client")
		}
	})
}

func TestReportBounds(t *testing.T) {
	tests := []struct{ name, text, err string }{
		{"good", `{"site":"london","health":"up","announces":true,"level":5,"drain":4,"steps":[1,2,3],"name":"withdraw","load":-1}`, ""},
		{"another site", `{"site":"paris","health":"up","drain":4}`, `of site "paris"`},
		{"no health", `{"site":"london","drain":4}`, "out of bounds"},
		{"no ladder", `{"site":"london","health":"up"}`, "out of bounds"},
		{"level beyond the ladder", `{"site":"london","health":"up","drain":4,"level":6}`, "out of bounds"},
		{"level below it", `{"site":"london","health":"up","drain":4,"level":-1}`, "out of bounds"},
		{"load", `{"site":"london","health":"up","drain":4,"load":1e300}`, "out of bounds"},
		{"steps that go back", `{"site":"london","health":"up","drain":4,"steps":[2,1]}`, "out of bounds"},
		{"steps beyond the ladder", `{"site":"london","health":"up","drain":4,"steps":[5]}`, "out of bounds"},
		{"a name that is none", `{"site":"london","health":"up","drain":4,"name":"\u001b[2J"}`, "is no name"},
		{"a name without end", `{"site":"london","health":"up","drain":4,"levels":["` + strings.Repeat("a", 65) + `"]}`, "is no name"},
		{"a ladder without end", `{"site":"london","health":"up","drain":4,"levels":[` + strings.Repeat(`"a",`, 40) + `"a"]}`, "out of bounds"},
		{"not JSON", `<html>`, "read the report of site london"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parse([]byte(tt.text), "london")
			if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("error %v, want %q", err, tt.err)
			}
		})
	}
}

func TestServes(t *testing.T) {
	tests := []struct {
		name          string
		report        Report
		serves, alive bool
	}{
		{"up", Report{Health: "up", Announces: true, Drain: 4}, true, true},
		{"up, but announced to no router", Report{Health: "up", Level: 5, Drain: 4}, true, false},
		{"down, the last one", Report{Health: "down", Announces: true, Level: 4, Drain: 4}, false, false},
		{"begun", Report{Health: "unknown", Level: 5, Drain: 4}, false, false},
		{"checks have changed", Report{Health: "unknown", Announces: true, Level: 1, Drain: 4}, true, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.report.Serves(); got != tt.serves {
				t.Errorf("Serves: %v", got)
			}
			if got := tt.report.Alive(); got != tt.alive {
				t.Errorf("Alive: %v", got)
			}
		})
	}
}

// FuzzReport holds that what a site says is within bounds, or refused.
func FuzzReport(f *testing.F) {
	f.Add([]byte(`{"site":"london","health":"up","announces":true,"level":1,"drain":4,"steps":[1,2,3],"load":0.5}`))
	f.Add([]byte(`{"site":"london","health":"up","drain":4,"load":1e999}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := parse(text, "london")
		if err != nil {
			if diff := cmp.Diff(Report{}, r); diff != "" {
				t.Errorf("a report and an error: %s", diff)
			}
			return
		}
		if r.Site != "london" || r.Level < 0 || r.Level > r.Drain+1 || !(r.Load <= mostLoad) {
			t.Errorf("%+v is taken", r)
		}
	})
}
