package config

import (
	"encoding/hex"
	"fmt"
	"slices"

	"baton/document"
	"baton/packet/quic"
)

// ServerID is what a pool's surrogates write into the connection ids that they choose.
type ServerID struct {
	Layout quic.Layout
	IDs    map[string]quic.ServerID // by surrogate
}

// The named layouts of server ids.
const (
	layoutBytes  = "bytes" // so many bytes at an offset
	layoutQUICLB = "quic-lb"
	layoutAWS    = "aws"
	layoutMvfst  = "mvfst"
)

// serverIDKeys are the keys that each layout has, beside map.
var serverIDKeys = map[string][]string{layoutBytes: {"offset", "length"}, layoutQUICLB: {"rotation", "length"}, layoutAWS: nil, layoutMvfst: {"version"}}

func (d *decoder) serverID(path string, n *node) *ServerID {
	s := &ServerID{IDs: make(map[string]quic.ServerID)}
	name := layoutBytes
	var offset, length, rotation, version int
	d.Fields(path, n, []key{
		{Name: "layout", Default: "bytes", Help: "where the id is in a connection id", Decode: func(path string, n *node) {
			name = d.Choice(path, n, "is not a layout", layoutBytes, layoutQUICLB, layoutAWS, layoutMvfst)
		}},
		{Name: "offset", Help: "bytes: of the id, behind the first ones", Decode: func(path string, n *node) { offset = d.Integer(path, n, 0, quic.MaxID-1) }},
		{Name: "length", Help: "of the id, in bytes", Decode: func(path string, n *node) { length = d.Integer(path, n, 1, quic.MaxServerID) }},
		{Name: "rotation", Help: "quic-lb: the configuration's rotation", Decode: func(path string, n *node) { rotation = d.Integer(path, n, 0, 6) }},
		{Name: "version", Help: "mvfst: version of the connection id", Decode: func(path string, n *node) { version = d.Integer(path, n, 1, 3) }},
		{Name: "map", Help: "id of each surrogate, in hexadecimal", Decode: func(path string, n *node) {
			d.Entries(path, n, func(at, surrogate string, n *node) { s.IDs[surrogate] = d.idOfServer(at, n) })
		}},
	})
	if d.Doubtful(document.Join(path, "layout")) { // which keys it has is not known
		return s
	}
	d.Require(path, n, append(slices.Clone(serverIDKeys[name]), "map")...)
	for _, k := range []string{"offset", "length", "rotation", "version"} {
		if at := document.Join(path, k); d.Given(at) && !slices.Contains(serverIDKeys[name], k) {
			d.WrongAt(d.Place(at), at, "is not a part of layout "+name, "without it")
		}
	}
	if d.Err() != nil {
		return s
	}
	var err error
	switch name {
	case layoutBytes:
		s.Layout = quic.Bytes(offset, length)
	case layoutQUICLB:
		s.Layout, err = quic.QUICLB(rotation, length)
	case layoutAWS:
		s.Layout = quic.AWS()
	case layoutMvfst:
		s.Layout, err = quic.Mvfst(version)
	}
	if err == nil {
		err = s.Layout.Check()
	}
	if err != nil {
		d.Wrong(n, path, err.Error(), "an id that fits into the 20 bytes of a connection id")
	}
	return s
}

func (d *decoder) idOfServer(path string, n *node) quic.ServerID {
	text := d.Text(path, n)
	if d.Err() != nil {
		return quic.ServerID{}
	}
	b, err := hex.DecodeString(text)
	if err != nil {
		d.Wrong(n, path, fmt.Sprintf("%q is not hexadecimal", document.Clip(text)), `such as "0a1b"`)
		return quic.ServerID{}
	}
	id, err := quic.MakeServerID(b)
	if err != nil {
		d.Wrong(n, path, err.Error(), fmt.Sprintf("from 1 to %d bytes", quic.MaxServerID))
	}
	return id
}

// checkQUICVIP refuses what a VIP of protocol quic cannot have.
func (d *decoder) checkQUICVIP(path string, v *VIP) {
	if at := document.Join(path, "mode"); v.Mode != Handoff {
		d.WrongAt(d.Place(at), at, fmt.Sprintf("%s is not for protocol quic", v.Mode), "handoff: datagrams are forwarded, never proxied")
	}
	if at := document.Join(path, "address"); v.Address.Addr().IsLoopback() {
		d.WrongAt(d.Place(at), at, v.Address.String()+" is on loopback, where QUIC is not forwarded", "an address that clients reach")
	}
}

// checkQUIC finds the pools of VIPs of protocol quic, and refuses what they cannot have, and other pools alone.
func (d *decoder) checkQUIC(cfg *Config) {
	quics, others := make(map[string]*VIP), make(map[string]bool) // by pool
	for i := range cfg.VIPs {
		for _, r := range cfg.VIPs[i].Routes {
			if cfg.VIPs[i].Protocol == QUIC {
				quics[r.Pool] = &cfg.VIPs[i]
			} else {
				others[r.Pool] = true
			}
		}
	}
	for i := range cfg.Pools {
		p := &cfg.Pools[i]
		path, vip := document.Join("pools", p.Name), quics[p.Name]
		p.QUICOnly = vip != nil && !others[p.Name]
		if vip == nil {
			if at := document.Join(path, "server_id"); d.Given(at) {
				d.WrongAt(d.Place(at), at, "is for pools of VIPs of protocol quic", "without it")
			}
			if at := document.Join(path, "client_address"); p.Source == SourceKeep && p.ClientAddress != "" {
				d.WrongAt(d.Place(at), at, "tells surrogates what source: keep shows them", "one of them")
			}
			continue
		}
		if p.QUICOnly {
			d.refuseTCP(path)
		}
		if at := document.Join(path, "client_address"); p.QUICOnly && p.ClientAddress != "" && !p.ClientAddress.IsField() {
			d.WrongAt(d.Place(at), at, "is for TCP, and only VIPs of protocol quic have this pool", "source: keep")
		}
		for j := range p.Surrogates {
			if why := Unspliced(vip, &p.Surrogates[j]); why != "" {
				at := fmt.Sprintf("%s.surrogates[%d].address", path, j)
				d.WrongAt(d.Place(at), at, fmt.Sprintf("%s cannot serve VIP %s of protocol quic: %s", p.Surrogates[j].Address, vip.Address, why), "a pool for each address family")
			}
		}
		d.checkServerIDs(path, p)
	}
}

// refuseTCP refuses what only TCP has, in a pool for QUIC.
func (d *decoder) refuseTCP(path string) {
	health := document.Join(path, "health")
	for at, problem := range map[string]string{
		document.Join(path, "legs"): "are connections of TCP", document.Join(health, "path"): "is requested over TCP", document.Join(health, "host"): "is for requests over TCP",
	} {
		if d.Given(at) {
			d.WrongAt(d.Place(at), at, problem+", and only VIPs of protocol quic have this pool", "none, or a VIP of protocol tls with a route to the pool")
		}
	}
}

// checkServerIDs refuses ids that do not fit the layout or the pool.
func (d *decoder) checkServerIDs(path string, p *Pool) {
	if p.ServerID == nil {
		return
	}
	ids := document.Join(document.Join(path, "server_id"), "map")
	var directory quic.Directory[string]
	for i, s := range p.Surrogates {
		if slices.ContainsFunc(p.Surrogates[:i], func(o Surrogate) bool { return o.Name == s.Name }) {
			continue // which is refused elsewhere
		}
		id, ok := p.ServerID.IDs[s.Name]
		if !ok {
			d.WrongAt(d.Place(ids), ids, fmt.Sprintf("lacks surrogate %q", document.Clip(s.Name)), "an id for each surrogate")
			continue
		}
		if err := directory.Add(p.ServerID.Layout, id, s.Name); err != nil {
			at := document.Join(ids, s.Name)
			d.WrongAt(d.Place(at), at, err.Error(), "an id of its own, of the layout's length")
		}
	}
	for name := range p.ServerID.IDs {
		if len(p.Discover) == 0 && !slices.ContainsFunc(p.Surrogates, func(s Surrogate) bool { return s.Name == name }) {
			at := document.Join(ids, name)
			d.WrongAt(d.Place(at), at, fmt.Sprintf("%q is not a surrogate of this pool", document.Clip(name)), document.Meant(name, p.names()))
		}
	}
}
