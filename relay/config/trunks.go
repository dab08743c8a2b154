package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"baton/document"
)

// Defaults of trunks.
const (
	defaultCongestion = "bbr" // keeps its window while a trunk is idle, and paces the first flight
	defaultWindow     = 32 << 20
	defaultLeast      = 10   // RFC 6928
	defaultMost       = 2000 // initcwnd of K-split, the relay of Pied Piper's authors
	defaultWaiting    = 4096

	defaultMin   = 4
	defaultMax   = 256
	defaultAge   = 10 * time.Minute // a NAT may drop idle connections after 2 h 4 min (RFC 5382, REQ-5), and many do far sooner
	defaultProbe = 15 * time.Second
)

const (
	maxListeners = 16
	maxWaiting   = 1 << 20
	maxReady     = 1 << 16
	maxStart     = 1 << 14 // segments: more than 20 MiB on Ethernet
	minWindow    = 64 << 10
	maxWindow    = 512 << 20 // doubled by the kernel it is still below the 1 GiB limit of a TCP window (RFC 7323, section 2.3)

	leastRate = 1e5 // bits per second: a plausible range for one trunk
	mostRate  = 1e11
)

func (d *decoder) trunks(path string, n *node) *Trunks {
	t := &Trunks{Tuning: defaultTuning(), Waiting: defaultWaiting}
	d.Fields(path, n, slices.Concat([]key{
		{Name: "listen", Help: "addresses and ports", Decode: func(path string, n *node) {
			d.AtMost(path, n, maxListeners)
			d.NonEmptyList(path, n, func(at string, n *node) { t.Listen = append(t.Listen, d.ListenAddrPort(at, n)) })
		}},
		{Name: "waiting", Default: "4096", Help: "trunks without a flow, of all workers", Decode: func(path string, n *node) { t.Waiting = d.Integer(path, n, 1, maxWaiting) }},
	}, d.credentialKeys(&t.Credentials), d.tuningKeys(&t.Tuning)))
	d.Require(path, n, "listen")
	d.oneSecurity(path)
	return t
}

func (d *decoder) peer(path string, n *node) Peer {
	p := Peer{
		Tuning: defaultTuning(), Ready: Ready{Min: defaultMin, Max: defaultMax, Age: defaultAge, Probe: defaultProbe},
		Line: n.Line,
	}
	d.Fields(path, n, slices.Concat([]key{
		{Name: "name", Help: "its name, as in its file and certificate", Decode: func(path string, n *node) { p.Name = d.Label(path, n) }},
		{Name: "address", Help: "an address that it listens on", Decode: func(path string, n *node) { p.Address = d.AddrPort(path, n) }},
		{Name: "cloud", Help: "provider it runs in", Decode: func(path string, n *node) { p.Cloud = d.Label(path, n) }},
		{Name: "ready", Help: "trunks that are kept open", Decode: func(path string, n *node) { d.ready(path, n, &p.Ready) }},
	}, d.credentialKeys(&p.Credentials), d.tuningKeys(&p.Tuning)))
	d.Require(path, n, "name", "address")
	d.oneSecurity(path)
	return p
}

func (d *decoder) ready(path string, n *node, out *Ready) {
	d.Fields(path, n, []key{
		{Name: "min", Help: "trunks opened in advance, of all workers (default: 4, or max)", Decode: func(path string, n *node) { out.Min = d.Integer(path, n, 0, maxReady) }},
		{Name: "max", Default: "256", Help: "most of them", Decode: func(path string, n *node) { out.Max = d.Integer(path, n, 1, maxReady) }},
		{Name: "age", Default: "10m", Help: "an idle trunk is replaced after this time",
			Decode: func(path string, n *node) { out.Age = d.Between(path, n, 10*time.Second, maxTimeout) }},
		{Name: "probe", Default: "15s", Help: "TCP keepalive interval of idle trunks, in whole seconds", Decode: func(path string, n *node) {
			out.Probe = d.Between(path, n, time.Second, time.Hour)
			if d.Err() == nil && out.Probe%time.Second != 0 {
				d.WrongText(n, path, n.Text, "is not whole seconds", "as the kernel counts keepalives, tcp(7)")
			}
		}},
	})
	d.notAbove(path, "min", &out.Min, "max", out.Max)
}

func defaultTuning() Tuning {
	return Tuning{Congestion: defaultCongestion, Buffer: defaultWindow, Start: learnt()}
}

func learnt() Start { return Start{Learn: true, Least: defaultLeast, Most: defaultMost} }

func (d *decoder) tuningKeys(out *Tuning) []key {
	return []key{
		{Name: "congestion", Default: "bbr", Help: "congestion control of trunks, or system", Decode: func(path string, n *node) { out.Congestion = d.congestion(path, n) }},
		{Name: "window", Default: "32MiB", Help: "socket buffers, from 64KiB to 512MiB, or system", Decode: func(path string, n *node) {
			if out.Buffer = 0; n.Text != systems {
				out.Buffer = int(d.Size(path, n, minWindow, maxWindow))
			}
		}},
		{Name: "start", Default: "learn", Help: "initial congestion window: learn, system, a number of segments, or a mapping",
			Decode: func(path string, n *node) { out.Start = d.start(path, n) }},
	}
}

// start decodes a keyword, a number of segments, or a mapping.
func (d *decoder) start(path string, n *node) Start {
	if n.Kind == document.Mapping {
		return d.startKeys(path, n)
	}
	switch s := d.Text(path, n); s {
	case "learn":
		return learnt()
	case systems:
		return Start{}
	default:
		v, err := strconv.Atoi(s)
		if err != nil || v < 1 || v > maxStart {
			d.WrongText(n, path, s, "is not the start of a trunk", fmt.Sprintf("learn, system, or from 1 to %d segments", maxStart))
		}
		return Start{Most: v}
	}
}

func (d *decoder) startKeys(path string, n *node) Start {
	s := learnt()
	d.Fields(path, n, []key{
		{Name: "learn", Default: "true", Help: "whether it is learnt from earlier flows", Decode: func(path string, n *node) { s.Learn = d.Boolean(path, n) }},
		{Name: "least", Now: "min"},
		{Name: "most", Now: "max"},
		{Name: "min", Help: "least segments (default: 10, or max)", Decode: func(path string, n *node) { s.Least = d.Integer(path, n, 1, maxStart) }},
		{Name: "max", Default: "2000", Help: "most segments", Decode: func(path string, n *node) { s.Most = d.Integer(path, n, 1, maxStart) }},
		{Name: "rate", Help: "maximum pacing rate of a trunk, from 100kbit to 100gbit (default: none)",
			Decode: func(path string, n *node) { s.Rate = int(math.Round(d.Rate(path, n, leastRate, mostRate) / 8)) }},
	})
	if s.Learn {
		d.notAbove(path, "min", &s.Least, "max", s.Most)
		return s
	}
	if least := document.Join(path, "min"); d.Given(least) {
		d.Refuse(least, "is not used without learn", "max alone")
	}
	s.Least = 0
	if !d.Given(document.Join(path, "max")) {
		s.Most = 0
	}
	return s
}
