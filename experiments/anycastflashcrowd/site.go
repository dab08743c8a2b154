package anycastflashcrowd

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"baton/api"
	"baton/lab"
	"baton/lab/peers"
)

// announce runs baton anycast at the site, and waits until both ingresses have the route.
func (s *Site) announce(ctx context.Context) error {
	file, socket := filepath.Join(s.network.Dir(), s.Name+".yaml"), filepath.Join(s.network.Dir(), s.Name+".sock")
	config := fmt.Sprintf(`name: %s
control: %s
site:
  prefixes: [192.0.2.0/24]
  bgp:
    as: %d
    router_id: %s
    peers:
`, s.Name, socket, siteAS, s.Address)
	for i, router := range s.routers {
		config += fmt.Sprintf("      - {name: ingress%d, address: %s, as: %d, multihop: 2, keepalive: 1s, hold: 3s, retry: 2s}\n", i, router, routerAS)
	}
	config += `  checks: [{name: web, http: "http://127.0.0.1/healthz", interval: 200ms, timeout: 2s, rise: 1}]
  drain: 1s
  dwell: 1s
  flaps: none
`
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return err
	}
	var err error
	s.process, err = s.Start(lab.Program{Path: s.program, Args: []string{"anycast", "run", "-c", file}, Name: "anycast"})
	if err != nil {
		return err
	}
	s.control = api.NewClient(socket)
	return lab.Poll(patience, func() error {
		select {
		case <-s.process.Done():
			return fmt.Errorf("baton anycast of site %s has ended: %s", s.Name, s.process.Log())
		default:
		}
		st, err := s.control.Anycast(ctx)
		if err != nil {
			return err
		}
		for _, p := range st.Site.Peers {
			if p.State != "established" || st.Site.Level != "announce" {
				return fmt.Errorf("site %s is at level %s, its session with %s is %s", s.Name, st.Site.Level, p.Name, p.State)
			}
		}
		return nil
	})
}

// drain has the site announce behind all others.
func (s *Site) drain(ctx context.Context) error { return s.order(ctx, "drain") }

// undrain has it announce as before.
func (s *Site) undrain(ctx context.Context) error { return s.order(ctx, "none") }

func (s *Site) order(ctx context.Context, order string) error {
	if _, err := s.control.AnycastInstruct(ctx, api.AnycastInstruction{Kind: order}); err != nil {
		return fmt.Errorf("order %s at site %s: %w", order, s.Name, err)
	}
	return nil
}

// leads waits until a site answers the clients of the west.
func (n *Network) leads(ctx context.Context, s *Site) error {
	client := n.Clients[0].HTTPClient(patience)
	defer client.CloseIdleConnections()
	return lab.Poll(patience, func() error {
		request, err := http.NewRequestWithContext(ctx, http.MethodHead, "http://"+service+"/healthz", nil)
		if err != nil {
			return err
		}
		request.Close = true
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		response.Body.Close()
		if got := response.Header.Get(peers.Header); got != s.Name {
			return fmt.Errorf("site %q answers, not %s", got, s.Name)
		}
		return nil
	})
}

// withdraw ends baton anycast at the site, which withdraws its route.
func (s *Site) withdraw() error {
	if s.process == nil {
		return nil
	}
	s.control.Close()
	err := s.process.Stop(patience)
	s.process = nil
	return err
}
