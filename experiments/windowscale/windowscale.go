// Package windowscale measures what one TCP option is worth. It is a template for new experiments: see docs/experiments.md.
package windowscale

import (
	"context"
	"net/netip"
	"time"

	"baton/experiments"
	"baton/experiments/load"
	"baton/lab"
	"baton/lab/emulator"
	"baton/lab/peers"
)

// Experiment is the question. Its topology is a link with a client at A and nginx at B.
func Experiment() experiments.Experiment[*lab.Link] {
	return experiments.Experiment[*lab.Link]{
		Name:       "window-scale",
		Question:   "What is window scaling worth on a long path?",
		Method:     "A client fetches files of 1 MiB from nginx, one after the other on one connection, over a link of 1 Gbit/s.",
		Parameters: []experiments.Parameter{{Name: "rtt", Title: "round-trip time", Unit: "ms", Values: []float64{2, 10, 50, 100}}},
		Contenders: []experiments.Contender[*lab.Link]{
			{Name: "scaled", Is: "the kernel's default"},
			{Name: "unscaled", Is: "the client offers no window scale, so that at most 64 KiB are in flight", Start: unscaled},
		},
		Measures: []experiments.Measure[*lab.Link]{{Name: "download", Title: "Bytes a second of downloads", Unit: "MB/s", Take: download}},
		Enter: func(_ context.Context, link *lab.Link, c experiments.Case) error {
			shape := emulator.Shape{Rate: 1e9, Delay: time.Duration(c.At["rtt"] / 2 * float64(time.Millisecond))}
			link.Set(shape, shape)
			return nil
		},
		Emulated: true, Build: build,
	}
}

func build(_ context.Context, s *experiments.Setup) (*lab.Link, error) {
	link := s.Lab.Link(lab.End{Host: s.Lab.Host("client"), Addrs: []string{"10.0.0.1/24"}},
		lab.End{Host: s.Lab.Host("server"), Addrs: []string{"10.0.0.2/24"}}, lab.LinkOptions{Emulated: true})
	nginx := peers.Nginx(link.B.Host, peers.NginxOptions{})
	s.Serves(nginx.Process, nginx.Version)
	return link, nil
}

func unscaled(_ context.Context, t *experiments.Turn[*lab.Link]) error {
	client := t.Topology.A.Host
	client.Sysctl("net.ipv4.tcp_window_scaling", "0")
	t.OnEnd(func() error { client.Sysctl("net.ipv4.tcp_window_scaling", "1"); return nil })
	return nil
}

func download(_ context.Context, t *experiments.Turn[*lab.Link]) (experiments.Sample, error) {
	r, err := load.Run(load.Options{Targets: []netip.AddrPort{netip.MustParseAddrPort("10.0.0.2:80")}, Path: "/1m", Size: 1 << 20,
		Reuse: true, Duration: t.Options.Duration, Enter: t.Topology.A.Host.Do})
	if err != nil {
		return experiments.Sample{}, err
	}
	return experiments.Loaded(r, r.Throughput()/1e6, float64(r.Requests))
}
