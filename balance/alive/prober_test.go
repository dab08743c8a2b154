package alive

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"baton/balance/config"
	"baton/balance/links"
)

func usableLink(gateway byte) links.Link {
	return links.Link{Name: "a", Interface: "eth0", Index: 5, Carrier: true, V4: links.Family{
		Address: netip.MustParseAddr("10.0.0.5"), Gateway: netip.AddrFrom4([4]byte{10, 0, 0, gateway}), GatewayMAC: links.MAC{2},
	}}
}

// TestUpdate: a link that leads elsewhere has to answer again.
func TestUpdate(t *testing.T) {
	cfg := &config.Config{Links: []config.Link{{Name: "a", Interface: "eth0"}}, Probe: config.Probe{Every: time.Second, Dead: time.Minute}}
	server := *cfg
	server.Probe.URL = "http://probe.example/"
	other := *cfg
	other.Links = []config.Link{{Name: "a", Interface: "eth0", Probe: &config.Probe{Off: true}}}
	changed := func(change func(*links.Link)) links.Link {
		l := usableLink(1)
		change(&l)
		return l
	}
	tests := []struct {
		name string
		cfg  *config.Config
		next links.Link
		want State
	}{
		{"nothing", cfg, usableLink(1), Alive},
		{"MTU", cfg, changed(func(l *links.Link) { l.MTU = 1400 }), Alive},
		{"gateway's MAC", cfg, changed(func(l *links.Link) { l.V4.GatewayMAC[5] = 9 }), Alive},
		{"gateway", cfg, usableLink(2), Unknown},
		{"address", cfg, changed(func(l *links.Link) { l.V4.Address = netip.MustParseAddr("10.0.0.6") }), Unknown},
		{"carrier", cfg, changed(func(l *links.Link) { l.Carrier = false }), Unknown},
		{"interface", cfg, changed(func(l *links.Link) { l.Index = 6 }), Unknown},
		{"another link", cfg, changed(func(l *links.Link) { l.Interface = "eth1" }), Unknown},
		{"who is asked", &server, usableLink(1), Unknown},
		{"probing", &other, usableLink(1), Alive},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := &Prober{wake: make(chan struct{}, 1)}
			p.Update(cfg, []links.Link{usableLink(1)})
			p.Answered("a", false)
			p.Answered("b", true)
			if got := p.verdicts()[0].State; got != Unknown {
				t.Fatalf("before an answer: %v", got)
			}
			p.Answered("a", true)
			if got := p.verdicts()[0].State; got != Alive {
				t.Fatalf("after an answer: %v", got)
			}
			p.Update(tt.cfg, []links.Link{tt.next})
			if got := p.verdicts()[0].State; got != tt.want {
				t.Errorf("after the change: %v, want %v", got, tt.want)
			}
		})
	}
}

// TestLateAnswer: an answer by the network of before says nothing of the one now.
func TestLateAnswer(t *testing.T) {
	status := http.StatusNoContent
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	defer s.Close()
	probe := config.Probe{URL: s.URL, Every: time.Second, Dead: time.Minute}
	cfg := &config.Config{Links: []config.Link{{Name: "a", Interface: "lo"}}, Probe: probe}
	here := netip.MustParseAddr("127.0.0.1")
	l := links.Link{Name: "a", Interface: "lo", Index: 1, Carrier: true, V4: links.Family{Address: here, Gateway: here, GatewayMAC: links.MAC{2}}}
	p := &Prober{o: Options{Log: slog.New(slog.DiscardHandler)}, wake: make(chan struct{}, 1)}
	p.Update(cfg, []links.Link{l})
	next := l
	next.V4.Gateway = netip.MustParseAddr("127.0.0.2")
	round := p.probed[0].round
	p.Update(cfg, []links.Link{next})
	p.askServer(t.Context(), p.probed[0], l, probe, round)
	if got := p.verdicts()[0].State; got != Unknown {
		t.Errorf("after an answer to an earlier question: %v", got)
	}
	p.askServer(t.Context(), p.probed[0], next, probe, p.probed[0].round)
	if got := p.verdicts()[0].State; got != Alive {
		t.Errorf("after an answer: %v", got)
	}
	status = http.StatusOK
	p.askServer(t.Context(), p.probed[0], next, probe, p.probed[0].round)
	if got := p.verdicts()[0]; got.State != Portal || got.URL != s.URL {
		t.Errorf("after another's answer: %v", got)
	}
}
