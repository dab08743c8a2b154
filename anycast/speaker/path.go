package speaker

import (
	"net/netip"
	"slices"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"baton/anycast/config"
	"baton/anycast/level"
)

// neighbour converts a router's configuration for GoBGP.
func neighbour(p *config.Peer) *api.Peer {
	n := &api.Peer{
		Conf: &api.PeerConf{NeighborAddress: p.Address.String(), PeerAsn: p.AS, AuthPassword: p.Password},
		Timers: &api.Timers{Config: &api.TimersConfig{
			HoldTime: uint64(p.Hold.Seconds()), KeepaliveInterval: uint64(p.Keepalive.Seconds()), ConnectRetry: uint64(p.Retry.Seconds()),
			IdleHoldTimeAfterReset: 1,
		}},
		Transport: &api.Transport{RemotePort: uint32(p.Port)},
	}
	if p.Local.IsValid() {
		n.Transport.LocalAddress = p.Local.String()
	}
	if p.GTSM {
		n.TtlSecurity = &api.TtlSecurity{Enabled: true, TtlMin: 255}
	}
	if p.Multihop > 0 {
		n.EbgpMultihop = &api.EbgpMultihop{Enabled: true, MultihopTtl: uint32(p.Multihop)}
	}
	if p.Restart > 0 {
		n.GracefulRestart = &api.GracefulRestart{Enabled: true, RestartTime: uint32(p.Restart.Seconds())}
	}
	for _, f := range []struct {
		wanted bool
		family api.Family_Afi
	}{{p.IPv4, api.Family_AFI_IP}, {p.IPv6, api.Family_AFI_IP6}} {
		if f.wanted {
			n.AfiSafis = append(n.AfiSafis, &api.AfiSafi{
				Config:            &api.AfiSafiConfig{Family: &api.Family{Afi: f.family, Safi: api.Family_SAFI_UNICAST}, Enabled: true},
				MpGracefulRestart: &api.MpGracefulRestart{Config: &api.MpGracefulRestartConfig{Enabled: p.Restart > 0}},
			})
		}
	}
	return n
}

// path is the BGP path of a prefix. GoBGP itself adds the AS once more towards external peers.
func path(b *config.BGP, prefix netip.Prefix, a level.Announcement) (*apiutil.Path, error) {
	nlri, err := bgp.NewIPAddrPrefix(prefix)
	if err != nil {
		return nil, err
	}
	p := &apiutil.Path{Family: bgp.RF_IPv4_UC, Nlri: nlri, Withdrawal: a.Withdrawn}
	hop, unspecified := b.NextHop4, netip.IPv4Unspecified()
	if prefix.Addr().Is6() {
		p.Family = bgp.RF_IPv6_UC
		hop, unspecified = b.NextHop6, netip.IPv6Unspecified()
	}
	if !hop.IsValid() {
		hop = unspecified // GoBGP replaces it by the session's local address
	}
	reach, err := nextHop(p.Family, nlri, hop)
	if err != nil {
		return nil, err
	}
	p.Attrs = []bgp.PathAttributeInterface{bgp.NewPathAttributeOrigin(bgp.BGP_ORIGIN_ATTR_TYPE_IGP), reach}
	if a.Withdrawn {
		return p, nil
	}
	if a.Prepend > 0 {
		segment := bgp.NewAs4PathParam(bgp.BGP_ASPATH_ATTR_TYPE_SEQ, slices.Repeat([]uint32{b.AS}, a.Prepend))
		p.Attrs = append(p.Attrs, bgp.NewPathAttributeAsPath([]bgp.AsPathParamInterface{segment}))
	}
	if a.MED > 0 {
		p.Attrs = append(p.Attrs, bgp.NewPathAttributeMultiExitDisc(a.MED))
	}
	if a.LocalPreference != nil {
		p.Attrs = append(p.Attrs, bgp.NewPathAttributeLocalPref(*a.LocalPreference))
	}
	if communities := slices.Compact(slices.Sorted(slices.Values(slices.Concat(b.Communities, a.Communities)))); len(communities) > 0 {
		p.Attrs = append(p.Attrs, bgp.NewPathAttributeCommunities(communities))
	}
	return p, nil
}

func nextHop(family bgp.Family, nlri bgp.NLRI, hop netip.Addr) (bgp.PathAttributeInterface, error) {
	if family == bgp.RF_IPv4_UC && hop.Is4() {
		return bgp.NewPathAttributeNextHop(hop)
	}
	return bgp.NewPathAttributeMpReachNLRI(family, []bgp.PathNLRI{{NLRI: nlri}}, hop)
}
