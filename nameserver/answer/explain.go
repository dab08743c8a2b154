package answer

import (
	"fmt"
	"net/netip"

	"github.com/miekg/dns"

	"baton/nameserver/zone"
)

// Explained is a route that says why it chooses as it does.
type Explained interface {
	Explain(Asked) []string
}

// Explain answers a question over TCP, without limits, and says in steps why.
func (s *Server) Explain(m *dns.Msg, from netip.Addr) (because []string, reply *dns.Msg, err error) {
	raw, err := m.Pack()
	if err != nil {
		return nil, nil, err
	}
	w := &Worker{s: s, dry: true} // its counts are not the server's
	out := make([]byte, maxMessage)
	n := w.Handle(raw, netip.AddrPortFrom(from, 0), true, out)
	reply = new(dns.Msg)
	if err := reply.Unpack(out[:n]); err != nil {
		return nil, nil, err
	}
	return w.because(), reply, nil
}

// because says how the last answer came about.
func (w *Worker) because() []string {
	r := &w.r
	z := w.s.tables.Load().zone(r)
	if z == nil {
		return []string{"the name is in none of the zones here"}
	}
	steps := []string{fmt.Sprintf("zone %s, serial %d", z.Data.Origin, z.Data.Serial())}
	key := zone.Key(r.key[:r.name])
	res := z.Data.Resolve(key, key.String(), r.kind)
	for _, rr := range res.Answer {
		if alias, ok := rr.(*dns.CNAME); ok && r.kind != dns.TypeCNAME {
			steps = append(steps, fmt.Sprintf("%s is an alias of %s", alias.Hdr.Name, alias.Target))
		}
	}
	switch {
	case res.Cut != nil:
		steps = append(steps, fmt.Sprintf("%s is delegated to other name servers", res.Cut.Name))
	case res.Code == dns.RcodeNameError:
		steps = append(steps, fmt.Sprintf("there is no name %s, and no wildcard for it", res.Last))
	case res.Node == nil:
	default:
		if res.Node.Key != res.Last {
			steps = append(steps, fmt.Sprintf("%s is answered by the wildcard %s", res.Last, res.Node.Key))
		}
		if res.Negative {
			steps = append(steps, fmt.Sprintf("%s has no %s records", res.Last, dns.TypeToString[r.kind]))
		}
	}
	if !res.Routed {
		return steps
	}
	steps = append(steps, fmt.Sprintf("%s is routed", res.Last))
	if e, ok := z.Routes[res.Node.Routed].(Explained); ok {
		steps = append(steps, e.Explain(w.asked())...)
	}
	return steps
}
