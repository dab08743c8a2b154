package peers_test

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"baton/lab"
	"baton/lab/peers"
)

const anycast = "10.200.0.1"

// speaker is the configuration of a router that announces the given prefixes and takes what it hears. The short times
// are for a test that does not wait.
func speaker(id string, as int, announced string, neighbours ...string) string {
	text := fmt.Sprintf(`router id %s;
protocol device { scan time 1; }
protocol kernel { ipv4 { export where source = RTS_BGP; }; }
protocol static { ipv4; %s }
`, id, announced)
	for _, n := range neighbours {
		text += fmt.Sprintf(`protocol bgp {
	local as %d;
	neighbor %s;
	connect delay time 1;
	connect retry time 1;
	error wait time 1, 2;
	ipv4 { import all; export where source = RTS_STATIC; };
}
`, as, n)
	}
	return text
}

// The same address is announced by two sites, the first with the shorter path until it withdraws.
func TestBirdAnnouncesAndWithdraws(t *testing.T) {
	l := lab.New(t)
	router := l.Host("router")
	var sites []*peers.Speaker
	var neighbours []string
	announced := []string{
		"route " + anycast + "/32 blackhole;",
		"route " + anycast + "/32 blackhole { bgp_path.prepend(65009); };",
	}
	config := func(i int, announced string) string {
		return speaker(fmt.Sprintf("10.7.%d.2", i), 65001+i, announced, fmt.Sprintf("10.7.%d.1 as 65000", i))
	}
	for i := range announced {
		site := l.Host(fmt.Sprint("site", i))
		l.Link(lab.End{Host: router, Addrs: []string{fmt.Sprintf("10.7.%d.1/24", i)}},
			lab.End{Host: site, Addrs: []string{fmt.Sprintf("10.7.%d.2/24", i)}}, lab.LinkOptions{})
		site.Interface("lo").Address(anycast + "/32")
		site.Route("default", fmt.Sprintf("10.7.%d.1", i))
		sites = append(sites, peers.Bird(site, config(i, announced[i])))
		neighbours = append(neighbours, fmt.Sprintf("10.7.%d.2 as %d", i, 65001+i))
		greet(t, site)
	}
	heard := peers.Bird(router, speaker("10.7.0.1", 65000, "", neighbours...))
	t.Logf("%s", heard.Version)

	answers := func(want string) {
		t.Helper()
		lab.Eventually(t, time.Minute, func() error {
			conn, err := router.Dial(deadline(t), "tcp", anycast+":80")
			if err != nil {
				return err
			}
			defer conn.Close()
			if got, err := io.ReadAll(conn); err != nil || string(got) != want {
				return fmt.Errorf("%q answers, %v; want %s", got, err, want)
			}
			out, err := heard.Birdc(deadline(t), "show", "protocols")
			if err == nil && strings.Count(out, "Established") != 2 {
				err = fmt.Errorf("sessions: %s", out)
			}
			return err
		})
	}
	answers("site0")
	if err := sites[0].Configure(deadline(t), config(0, "")); err != nil {
		t.Fatal(err)
	}
	answers("site1")
	if err := sites[0].Configure(deadline(t), config(0, announced[0])); err != nil {
		t.Fatal(err)
	}
	answers("site0")
	if err := sites[0].Configure(deadline(t), "nonsense"); err == nil || !strings.Contains(err.Error(), "syntax error") {
		t.Errorf("error %v, want BIRD's complaint", err)
	}
}

// greet answers connections to the anycast address with the host's name.
func greet(t *testing.T, h *lab.Host) {
	t.Helper()
	ln, err := h.Listen("tcp", anycast+":80")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, h.Name())
			conn.Close()
		}
	}()
}

func TestBirdNamesTheFault(t *testing.T) {
	lab.NeedRoot(t)
	err := lab.Run(new(bytes.Buffer), func(l *lab.Lab) error {
		peers.Bird(l.Host("h"), "router id 10.0.0.1;\nnonsense;\n")
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "bird.conf:3") {
		t.Errorf("error %v, want the line", err)
	}
}
