package tutorials_test

import (
	"fmt"
	"testing"

	"baton/lab"
)

func TestHTTPS(t *testing.T) {
	l := lab.New(t)
	l.Need("nginx", "openssl", "curl")
	client, router := l.Host("client"), l.Host("router")
	l.Link(lab.End{Host: client, Name: "eth0", Addrs: []string{"198.51.100.2/24"}},
		lab.End{Host: router, Name: "eth0", Addrs: []string{"198.51.100.1/24"}}, lab.LinkOptions{})
	client.Route("default", "198.51.100.1")
	hosts := []*lab.Host{client, router}
	for i, name := range []string{"shop", "blog"} {
		h := l.Host(name)
		l.Link(lab.End{Host: h, Name: "eth0", Addrs: []string{fmt.Sprintf("10.2.%d.2/24", i+1)}},
			lab.End{Host: router, Name: fmt.Sprintf("eth%d", i+1), Addrs: []string{fmt.Sprintf("10.2.%d.1/24", i+1)}}, lab.LinkOptions{})
		hosts = append(hosts, h)
	}
	follow(t, "https.md", hosts...)
}
