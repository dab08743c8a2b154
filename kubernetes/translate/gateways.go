package translate

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	gateway "sigs.k8s.io/gateway-api/apis/v1"

	"baton/router/config"
)

// gatewayState is a Gateway of this controller.
type gatewayState struct {
	object    *gateway.Gateway
	addresses []netip.Addr // that it is served at, on this host or another
	node      bool         // these are the nodes' own
	listeners []*listener
	refused   *metav1.Condition // why the whole Gateway is not accepted
}

// listener is a listener of a Gateway.
type listener struct {
	gateway  *gatewayState
	spec     *gateway.Listener
	hostname string // lower case; "": all
	protocol config.Protocol
	kinds    []gateway.RouteGroupKind // of routes, that it may have and this controller knows

	refused    *metav1.Condition // Accepted: why it is not
	unresolved string            // ResolvedRefs: why they are not
	conflict   gateway.ListenerConditionReason
	with       string // whom it conflicts with
	attached   int32
	entries    []entry
}

// serves reports whether the router is to serve it.
func (l *listener) serves() bool {
	return l.gateway.refused == nil && l.refused == nil && l.conflict == "" && l.unresolved == ""
}

func (l *listener) String() string {
	return fmt.Sprintf("listener %s of Gateway %s", l.spec.Name, name(&l.gateway.object.ObjectMeta))
}

func (t *translation) takeGateways(classes map[string]bool) {
	for _, o := range oldest(t.objects.Gateways, func(g *gateway.Gateway) *metav1.ObjectMeta { return &g.ObjectMeta }) {
		if !classes[string(o.Spec.GatewayClassName)] || o.DeletionTimestamp != nil {
			continue
		}
		g := &gatewayState{object: o}
		t.gateways[name(&o.ObjectMeta)] = g
		t.ordered = append(t.ordered, g)
		t.addressesOf(g)
		if o.Spec.TLS != nil && g.refused == nil {
			g.refuse(gateway.GatewayReasonInvalid, "spec.tls: client certificates and TLS to backends are not supported: the router does not end TLS")
		}
		for i := range o.Spec.Listeners {
			g.listeners = append(g.listeners, newListener(g, &o.Spec.Listeners[i]))
		}
	}
}

func (g *gatewayState) refuse(reason gateway.GatewayConditionReason, message string) {
	c := condition(gateway.GatewayConditionAccepted, false, reason, message)
	g.refused = &c
}

// addressesOf finds where a Gateway is served: at its addresses, or at each node's own.
func (t *translation) addressesOf(g *gatewayState) {
	for _, a := range g.object.Spec.Addresses {
		if deref(a.Type, gateway.IPAddressType) != gateway.IPAddressType {
			g.refuse(gateway.GatewayReasonUnsupportedAddress, fmt.Sprintf("spec.addresses: type %s is not supported: use IPAddress", *a.Type))
			return
		}
		if a.Value == "" { // the controller chooses
			continue
		}
		ip, err := netip.ParseAddr(a.Value)
		if err != nil || ip.Zone() != "" || ip.IsUnspecified() || ip.IsMulticast() || ip.IsLoopback() {
			g.refuse(gateway.GatewayReasonUnsupportedAddress, fmt.Sprintf("spec.addresses: %q is no address that clients can reach", a.Value))
			return
		}
		if ip = ip.Unmap(); !slices.Contains(g.addresses, ip) {
			g.addresses = append(g.addresses, ip)
		}
		if !slices.Contains(t.host.Local, ip) && !slices.Contains(t.result.Elsewhere, ip) {
			t.result.Elsewhere = append(t.result.Elsewhere, ip)
		}
	}
	if len(g.addresses) == 0 {
		g.addresses, g.node = t.host.Addresses, true
	}
}

// here are the addresses of a Gateway that this host serves.
func (t *translation) here(g *gatewayState) []netip.Addr {
	if g.node {
		return g.addresses
	}
	var out []netip.Addr
	for _, a := range g.addresses {
		if slices.Contains(t.host.Local, a) {
			out = append(out, a)
		}
	}
	return out
}

func newListener(g *gatewayState, spec *gateway.Listener) *listener {
	l := &listener{gateway: g, spec: spec, hostname: strings.ToLower(string(deref(spec.Hostname, "")))}
	refuse := func(reason gateway.ListenerConditionReason, message string) {
		c := condition(gateway.ListenerConditionAccepted, false, reason, message)
		l.refused = &c
	}
	kind := gateway.Kind("")
	switch spec.Protocol {
	case gateway.HTTPProtocolType:
		l.protocol, kind = config.HTTP, "HTTPRoute"
	case gateway.TLSProtocolType:
		l.protocol, kind = config.TLS, "TLSRoute"
		if spec.TLS == nil || deref(spec.TLS.Mode, gateway.TLSModeTerminate) != gateway.TLSModePassthrough {
			refuse(gateway.ListenerReasonUnsupportedValue, "tls.mode Terminate is not supported: certificates and keys stay at the backends, use Passthrough")
		}
	default:
		refuse(gateway.ListenerReasonUnsupportedProtocol, fmt.Sprintf("protocol %s is not supported: use HTTP, or TLS with tls.mode Passthrough", spec.Protocol))
	}
	l.takeKinds(kind)
	return l
}

// takeKinds sets the kinds of routes that the listener may have.
func (l *listener) takeKinds(known gateway.Kind) {
	l.kinds = []gateway.RouteGroupKind{} // the API server wants a list
	group := gateway.Group(gateway.GroupName)
	if l.spec.AllowedRoutes == nil || len(l.spec.AllowedRoutes.Kinds) == 0 {
		if known != "" {
			l.kinds = append(l.kinds, gateway.RouteGroupKind{Group: &group, Kind: known})
		}
		return
	}
	for _, k := range l.spec.AllowedRoutes.Kinds {
		if deref(k.Group, group) == group && k.Kind == known {
			l.kinds = append(l.kinds, gateway.RouteGroupKind{Group: &group, Kind: known})
		} else if l.unresolved == "" {
			l.unresolved = fmt.Sprintf("allowedRoutes.kinds: %s is not supported on protocol %s", k.Kind, l.spec.Protocol)
		}
	}
}

// findConflicts marks listeners that cannot have their port. Of one Gateway, none of those in conflict is served; of several, the oldest
// Gateway's is.
func (t *translation) findConflicts() {
	var before []*listener
	for _, g := range t.ordered {
		for i, l := range g.listeners {
			for j, other := range g.listeners {
				if i != j {
					l.compare(other, other.spec.Port == l.spec.Port)
				}
			}
			for _, other := range before {
				l.compare(other, other.spec.Port == l.spec.Port && slices.ContainsFunc(g.addresses, func(a netip.Addr) bool { return slices.Contains(other.gateway.addresses, a) }))
			}
		}
		for _, l := range g.listeners {
			if l.serves() {
				before = append(before, l)
			}
		}
	}
}

func (l *listener) compare(other *listener, shared bool) {
	switch {
	case !shared || l.refused != nil || other.refused != nil || other.gateway.refused != nil || l.conflict != "":
	case l.protocol != other.protocol:
		l.conflict, l.with = gateway.ListenerReasonProtocolConflict, other.String()
	case l.hostname == other.hostname:
		l.conflict, l.with = gateway.ListenerReasonHostnameConflict, other.String()
	}
}

// allows reports whether routes of a kind and namespace may be attached.
func (t *translation) allows(l *listener, kind gateway.Kind, namespace string) bool {
	if !slices.ContainsFunc(l.kinds, func(k gateway.RouteGroupKind) bool { return k.Kind == kind }) {
		return false
	}
	from, of := gateway.NamespacesFromSame, (*metav1.LabelSelector)(nil)
	if a := l.spec.AllowedRoutes; a != nil && a.Namespaces != nil {
		from, of = deref(a.Namespaces.From, from), a.Namespaces.Selector
	}
	switch from {
	case gateway.NamespacesFromAll:
		return true
	case gateway.NamespacesFromSame:
		return namespace == l.gateway.object.Namespace
	case gateway.NamespacesFromSelector:
		selector, err := metav1.LabelSelectorAsSelector(of)
		return err == nil && selector.Matches(labels.Set(t.labels[namespace]))
	}
	return false
}

func (t *translation) gatewayStatus(g *gatewayState) gateway.GatewayStatus {
	generation := g.object.Generation
	status := gateway.GatewayStatus{Listeners: []gateway.ListenerStatus{}}
	served := 0
	for _, l := range g.listeners {
		if l.serves() {
			served++
		}
		status.Listeners = append(status.Listeners, gateway.ListenerStatus{
			Name: l.spec.Name, SupportedKinds: l.kinds, AttachedRoutes: l.attached, Conditions: observed(generation, l.conditions()...),
		})
	}
	at := g.addresses
	if g.node {
		at = t.host.Nodes
	}
	ip := gateway.IPAddressType
	for _, a := range at {
		status.Addresses = append(status.Addresses, gateway.GatewayStatusAddress{Type: &ip, Value: a.String()})
	}
	accepted := condition(gateway.GatewayConditionAccepted, true, gateway.GatewayReasonAccepted, "")
	programmed := condition(gateway.GatewayConditionProgrammed, true, gateway.GatewayReasonProgrammed, "")
	switch {
	case g.refused != nil:
		accepted, status.Addresses = *g.refused, nil
		programmed = condition(gateway.GatewayConditionProgrammed, false, gateway.GatewayReasonInvalid, g.refused.Message)
	case served < len(g.listeners):
		message := fmt.Sprintf("%d of %d listeners cannot be served: their conditions say why", len(g.listeners)-served, len(g.listeners))
		accepted = condition(gateway.GatewayConditionAccepted, served > 0, gateway.GatewayReasonListenersNotValid, message)
		if served == 0 {
			programmed = condition(gateway.GatewayConditionProgrammed, false, gateway.GatewayReasonInvalid, message)
		}
	}
	if programmed.Status == metav1.ConditionTrue && len(at) == 0 {
		programmed = condition(gateway.GatewayConditionProgrammed, false, gateway.GatewayReasonAddressNotAssigned, "no node with a router is ready")
	}
	status.Conditions = observed(generation, accepted, programmed)
	return status
}

func (l *listener) conditions() []metav1.Condition {
	accepted := condition(gateway.ListenerConditionAccepted, true, gateway.ListenerReasonAccepted, "")
	conflicted := condition(gateway.ListenerConditionConflicted, false, gateway.ListenerReasonNoConflicts, "")
	resolved := condition(gateway.ListenerConditionResolvedRefs, true, gateway.ListenerReasonResolvedRefs, "")
	programmed := condition(gateway.ListenerConditionProgrammed, true, gateway.ListenerReasonProgrammed, "")
	if l.unresolved != "" {
		resolved = condition(gateway.ListenerConditionResolvedRefs, false, gateway.ListenerReasonInvalidRouteKinds, l.unresolved)
	}
	if l.conflict != "" {
		message := fmt.Sprintf("port %d is that of %s", l.spec.Port, l.with)
		conflicted = condition(gateway.ListenerConditionConflicted, true, l.conflict, message)
		accepted = condition(gateway.ListenerConditionAccepted, false, l.conflict, message)
	}
	if l.refused != nil {
		accepted = *l.refused
	}
	if !l.serves() {
		programmed = condition(gateway.ListenerConditionProgrammed, false, gateway.ListenerReasonInvalid, "the other conditions say why")
	}
	return []metav1.Condition{accepted, conflicted, resolved, programmed}
}
