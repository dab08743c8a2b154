package balance

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"

	"baton/lab"
)

// page is the probed page. It counts requests by client, and can be switched off.
type page struct {
	mu    sync.Mutex
	down  bool
	asked map[string]int // by the host's address
}

const pagePort = 7002

func (p *page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	p.asked[host]++
	if p.down {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (p *page) by(link int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[host4(link)]
}

func (p *page) fail() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = true
}

func (n *network) page() *page {
	n.t.Helper()
	l, err := n.server.Listen("tcp", fmt.Sprintf("%s:%d", server4, pagePort))
	if err != nil {
		n.t.Fatal(err)
	}
	p := &page{asked: make(map[string]int)}
	s := &http.Server{Handler: p}
	go func() { _ = s.Serve(l) }() // until it is closed
	n.t.Cleanup(func() { _ = s.Close() })
	return p
}

// TestHeard: a download holds its link when the probe's page is what is down. Datagrams do not.
func TestHeard(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 3)
	p := n.page()
	b := n.start(planes[1].config + n.linksText("", "", ", probe: off") + fmt.Sprintf(`
probe: {url: "http://%s:%d/", every: 1s, dead: 8s}
rules:
  - {services: [tcp], links: [link0]}
  - {services: [udp], links: [link1]}
`, server4, pagePort))
	speak := func() error {
		if _, err := n.datagram(server4, echoPort, 1000); err != nil {
			return fmt.Errorf("a datagram: %w", err)
		}
		return nil
	}
	lab.Eventually(t, soon, func() error { // what a link brings counts when its page has answered once
		if first, second := p.by(0), p.by(1); first == 0 || second == 0 {
			return fmt.Errorf("the page was asked %d times by link0, %d by link1", first, second)
		}
		return nil
	})
	d := n.download()
	d.drain()
	p.fail()
	before := p.by(1)
	lab.Eventually(t, soon, func() error {
		if asked, state := p.by(1)-before, b.status().Links[1].State; state != "dead" || asked < 10 {
			return errors.Join(fmt.Errorf("link1 is %q after %d probes without an answer", state, asked), speak())
		}
		return nil
	})
	d.goesOn()
	if s := b.status().Links[0].State; s != "used" {
		t.Errorf("link0 is %q, though data comes by it", s)
	}
	d.conn.Close()
	b.until(0, "dead")
}
