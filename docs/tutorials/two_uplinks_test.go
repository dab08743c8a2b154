package tutorials_test

import (
	"fmt"
	"testing"

	"baton/lab"
)

func TestTwoUplinks(t *testing.T) {
	l := lab.New(t)
	l.Need("nginx", "curl", "ip")
	server, far := l.Host("server"), l.Host("far")
	hosts := []*lab.Host{server, far}
	internet := l.Host("internet")
	internet.Forward()
	l.Link(lab.End{Host: internet, Name: "far", Addrs: []string{"203.0.113.1/24"}},
		lab.End{Host: far, Name: "eth0", Addrs: []string{"203.0.113.5/24"}}, lab.LinkOptions{})
	far.Route("default", "203.0.113.1")
	for i, prefix := range []string{"192.0.2", "198.51.100"} {
		isp := l.Host(fmt.Sprintf("isp%d", i+1))
		isp.Forward()
		l.Link(lab.End{Host: server, Name: fmt.Sprintf("eth%d", i), Addrs: []string{prefix + ".2/24"}},
			lab.End{Host: isp, Name: "eth0", Addrs: []string{prefix + ".1/24"}}, lab.LinkOptions{Rate: 80_000_000})
		transit := fmt.Sprintf("10.0.%d", i)
		l.Link(lab.End{Host: isp, Name: "eth1", Addrs: []string{transit + ".2/24"}},
			lab.End{Host: internet, Name: isp.Name(), Addrs: []string{transit + ".1/24"}}, lab.LinkOptions{})
		isp.Route("default", transit+".1")
		internet.Route(prefix+".0/24", transit+".2")
		hosts = append(hosts, isp)
	}
	follow(t, "two-uplinks.md", hosts...)
}
