package translate

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"math"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	gateway "sigs.k8s.io/gateway-api/apis/v1"

	"baton/router/config"
)

// Limits of the router: kernel.MaxPools, and the weight of a surrogate.
const (
	maxPools  = 256
	maxWeight = 256
)

// backend is a Service's port with its share of the requests.
type backend struct {
	service types.NamespacedName
	port    *corev1.ServicePort
	weight  int
}

// pool makes the pool of a rule, or finds the one that another rule has with the same only backend, and returns its name. A reference that
// cannot be resolved gets nothing: without another one, the pool is empty and the router answers 503.
func (t *translation) pool(r *route, rule int, protocol config.Protocol, refs []gateway.BackendRef) string {
	var backends []backend
	for i := range refs {
		b, reason, why := t.resolve(r, protocol, &refs[i])
		if reason != "" {
			if r.resolved == nil {
				c := condition(gateway.RouteConditionResolvedRefs, false, reason, fmt.Sprintf("rules[%d].backendRefs[%d]: %s", rule, i, why))
				r.resolved = &c
			}
			continue
		}
		backends = append(backends, b)
	}
	pool, title := Pool{}, fmt.Sprintf("%s/%s/rule-%d", r.meta.Namespace, r.meta.Name, rule)
	switch {
	case len(refs) > 1:
		pool.Policy = string(config.Weighted)
	case len(backends) == 1 && backends[0].weight > 0:
		title = fmt.Sprintf("%s:%d", backends[0].service, backends[0].port.Port)
	}
	if protocol == config.TLS {
		title = "tls/" + title
	} else {
		pool.ClientAddress = t.host.ClientAddress
	}
	title = short(title)
	if _, made := t.result.Pools[title]; made {
		return title
	}
	if len(t.result.Pools) == maxPools {
		r.refuse(fmt.Sprintf("rules[%d]: the router has %d pools, one for each backend or rule, and all are in use by older routes", rule, maxPools))
		return ""
	}
	pool.Discover = Discover{File: filepath.Join(t.host.Folder, strings.NewReplacer("/", "_", ":", "_").Replace(title)+".yaml")}
	t.result.Pools[title] = pool
	t.result.Surrogates[title] = t.surrogates(title, backends)
	return title
}

// maxTitle leaves room for an address behind it in the name of a surrogate, which has at most 128 bytes.
const maxTitle = 80

func short(title string) string {
	if len(title) <= maxTitle {
		return title
	}
	return fmt.Sprintf("%s-%x", title[:maxTitle-9], sha256.Sum256([]byte(title)))[:maxTitle]
}

// resolve finds the Service of a reference.
func (t *translation) resolve(r *route, protocol config.Protocol, ref *gateway.BackendRef) (b backend, reason gateway.RouteConditionReason, why string) {
	if group, kind := deref(ref.Group, ""), deref(ref.Kind, "Service"); group != "" || kind != "Service" {
		return b, gateway.RouteReasonInvalidKind, fmt.Sprintf("kind %s is not supported: use Service", kind)
	}
	b.service = types.NamespacedName{Namespace: string(deref(ref.Namespace, gateway.Namespace(r.meta.Namespace))), Name: string(ref.Name)}
	if b.service.Namespace != r.meta.Namespace && !t.granted(r, b.service) {
		return b, gateway.RouteReasonRefNotPermitted, fmt.Sprintf("no ReferenceGrant of namespace %s has Services for %ss of namespace %s", b.service.Namespace, r.kind, r.meta.Namespace)
	}
	s := t.services[b.service]
	switch {
	case s == nil:
		return b, gateway.RouteReasonBackendNotFound, fmt.Sprintf("there is no Service %s", b.service)
	case s.Spec.Type == corev1.ServiceTypeExternalName:
		return b, gateway.RouteReasonBackendNotFound, fmt.Sprintf("Service %s is of type ExternalName, which has no endpoints", b.service)
	case ref.Port == nil:
		return b, gateway.RouteReasonBackendNotFound, "port is missing"
	}
	for i := range s.Spec.Ports {
		p := &s.Spec.Ports[i]
		if p.Port == int32(*ref.Port) && cmp.Or(p.Protocol, corev1.ProtocolTCP) == corev1.ProtocolTCP {
			b.port = p
		}
	}
	if b.port == nil {
		return b, gateway.RouteReasonBackendNotFound, fmt.Sprintf("Service %s has no port %d of TCP", b.service, *ref.Port)
	}
	if is := deref(b.port.AppProtocol, ""); protocol == config.HTTP && is == "kubernetes.io/h2c" {
		return b, gateway.RouteReasonUnsupportedProtocol, fmt.Sprintf("appProtocol %s of Service %s is not supported: backends get HTTP/1.1", is, b.service)
	}
	b.weight = int(deref(ref.Weight, 1))
	return b, "", ""
}

// granted reports whether a ReferenceGrant lets a route refer to a Service of another namespace.
func (t *translation) granted(r *route, service types.NamespacedName) bool {
	for i := range t.objects.Grants {
		g := &t.objects.Grants[i]
		from := slices.ContainsFunc(g.Spec.From, func(f gateway.ReferenceGrantFrom) bool {
			return f.Group == gateway.GroupName && f.Kind == r.kind && string(f.Namespace) == r.meta.Namespace
		})
		to := slices.ContainsFunc(g.Spec.To, func(o gateway.ReferenceGrantTo) bool {
			return o.Group == "" && o.Kind == "Service" && (o.Name == nil || string(*o.Name) == service.Name)
		})
		if g.Namespace == service.Namespace && from && to {
			return true
		}
	}
	return false
}

// surrogates are the ready endpoints of backends. Each backend has its share of the weight, however many endpoints it has.
func (t *translation) surrogates(pool string, backends []backend) []Surrogate {
	shares := make([]float64, len(backends))
	found := make([][]netip.AddrPort, len(backends))
	largest, least := 0.0, 0.0
	for i, b := range backends {
		found[i] = t.endpoints(b)
		if len(found[i]) == 0 || b.weight == 0 {
			continue
		}
		shares[i] = float64(b.weight) / float64(len(found[i]))
		largest = max(largest, shares[i])
		if least == 0 || shares[i] < least {
			least = shares[i]
		}
	}
	out := []Surrogate{}
	for i := range backends {
		for _, a := range found[i] {
			s := Surrogate{Name: pool + "/" + endpointName(a), Address: a.String(), Weight: scale(shares[i], least, largest)}
			if at := slices.IndexFunc(out, func(o Surrogate) bool { return o.Name == s.Name }); at >= 0 { // two Services select the same pod
				out[at].Weight = min(maxWeight, out[at].Weight+s.Weight)
				continue
			}
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b Surrogate) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// scale turns a share into a weight from 1 to 256; of equal shares it is 1.
func scale(share, least, largest float64) int {
	switch {
	case share == 0:
		return 0
	case least == largest:
		return 1
	}
	return max(1, int(share/largest*maxWeight+0.5))
}

func endpointName(a netip.AddrPort) string {
	if a.Addr().Is4() {
		return a.String()
	}
	return fmt.Sprintf("%s.%d", a.Addr(), a.Port()) // as a bracket may not stand in a name of a list
}

// validPort is the port of an EndpointSlice, which any controller may write; 0: it is none.
func validPort(n int32) uint16 {
	if n < 1 || n > math.MaxUint16 {
		return 0
	}
	return uint16(n)
}

// endpoints are the ready ones of a Service's port, of the families that the Gateways have where there are any.
func (t *translation) endpoints(b backend) []netip.AddrPort {
	var all, alike []netip.AddrPort
	for _, s := range t.slices[b.service] {
		if s.AddressType == discoveryv1.AddressTypeFQDN {
			continue
		}
		port := uint16(0)
		for _, p := range s.Ports {
			if deref(p.Name, "") == b.port.Name && p.Port != nil && deref(p.Protocol, corev1.ProtocolTCP) == corev1.ProtocolTCP {
				port = validPort(*p.Port)
			}
		}
		for _, e := range s.Endpoints {
			if port == 0 || !deref(e.Conditions.Ready, true) || len(e.Addresses) == 0 {
				continue
			}
			ip, err := netip.ParseAddr(e.Addresses[0]) // the others, which nobody sets, mean the same
			if err != nil {
				continue
			}
			a := netip.AddrPortFrom(ip.Unmap(), port)
			if slices.Contains(all, a) {
				continue
			}
			all = append(all, a)
			if t.hasFamily(a.Addr()) {
				alike = append(alike, a)
			}
		}
	}
	if len(alike) > 0 {
		return alike
	}
	return all // the router proxies them
}

func (t *translation) hasFamily(a netip.Addr) bool {
	return slices.ContainsFunc(t.ordered, func(g *gatewayState) bool {
		return slices.ContainsFunc(t.here(g), func(of netip.Addr) bool { return of.Is4() == a.Is4() })
	})
}
