package peers_test

import (
	"fmt"
	"testing"
	"time"

	"baton/lab"
	"baton/lab/peers"
)

const zoneText = `$TTL 300
@ IN SOA dns.example. hostmaster.example. 1 3600 600 86400 60
@ IN NS dns.example.
www IN A 192.0.2.7
www IN AAAA 2001:db8::7
`

func TestNameServers(t *testing.T) {
	for name, start := range map[string]func(*lab.Host, peers.NameServerOptions) *peers.Server{"nsd": peers.NSD, "knot": peers.Knot} {
		t.Run(name, func(t *testing.T) {
			client, host := network(t)
			s := start(host, peers.NameServerOptions{Zone: "zone.example", Text: zoneText})
			t.Logf("%s", s.Version)
			for _, at := range []string{"10.1.0.2", "fd01::2"} {
				for _, how := range []string{"+notcp", "+tcp"} {
					got, err := peers.Kdig(deadline(t), client, at, "www.zone.example", "A", "+short", how)
					if err != nil || got != "192.0.2.7\n" {
						t.Errorf("%s %s: %q, %v\n%s", at, how, got, err, s.Logs())
					}
				}
			}
			load, err := peers.DNSPerf(deadline(t), client, "10.1.0.2", peers.DNSPerfOptions{
				Queries: "www.zone.example A\nnone.zone.example AAAA\n", For: 500 * time.Millisecond, Rate: 1000,
			})
			if err != nil || load.Sent < 100 || load.Lost > 0 || load.Rate < 100 || load.Codes["NOERROR"] == 0 || load.Codes["NXDOMAIN"] == 0 {
				t.Errorf("load %+v, %v", load, err)
			}
			again := fmt.Sprint(load.Codes["NOERROR"] + load.Codes["NXDOMAIN"])
			if again != fmt.Sprint(load.Sent) {
				t.Errorf("%s answers of %d queries", again, load.Sent)
			}
		})
	}
}
