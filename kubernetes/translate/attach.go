package translate

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gateway "sigs.k8s.io/gateway-api/apis/v1"
)

// routeNoReadyListeners is not among the API's reasons: the listeners that the route names are not served themselves.
const routeNoReadyListeners gateway.RouteConditionReason = "NoReadyListeners"

// route is what routes of both kinds have in common.
type route struct {
	meta      *metav1.ObjectMeta
	kind      gateway.Kind
	hostnames []gateway.Hostname
	parents   []gateway.ParentReference

	unsupported string            // what of it the router cannot do; "": nothing
	resolved    *metav1.Condition // what of its references is missing; nil: nothing
	entries     []entry           // for any host
}

// attach attaches a route to its parents, and returns its statuses.
func (t *translation) attach(r *route) []gateway.RouteParentStatus {
	var out []gateway.RouteParentStatus
	attached := map[*listener]bool{}
	for _, p := range r.parents {
		if deref(p.Group, gateway.GroupName) != gateway.GroupName || deref(p.Kind, "Gateway") != "Gateway" {
			continue
		}
		g := t.gateways[types.NamespacedName{Namespace: string(deref(p.Namespace, gateway.Namespace(r.meta.Namespace))), Name: string(p.Name)}]
		if g == nil {
			continue
		}
		accepted := t.attachTo(r, g, p, attached)
		resolved := condition(gateway.RouteConditionResolvedRefs, true, gateway.RouteReasonResolvedRefs, "")
		if r.resolved != nil {
			resolved = *r.resolved
		}
		out = append(out, gateway.RouteParentStatus{ParentRef: p, ControllerName: Controller, Conditions: observed(r.meta.Generation, accepted, resolved)})
	}
	return out
}

func refusal(reason gateway.RouteConditionReason, format string, args ...any) metav1.Condition {
	return condition(gateway.RouteConditionAccepted, false, reason, fmt.Sprintf(format, args...))
}

// attachTo attaches a route to the listeners that a parent reference names.
func (t *translation) attachTo(r *route, g *gatewayState, p gateway.ParentReference, attached map[*listener]bool) metav1.Condition {
	named := slices.DeleteFunc(slices.Clone(g.listeners), func(l *listener) bool {
		return p.SectionName != nil && *p.SectionName != l.spec.Name || p.Port != nil && *p.Port != l.spec.Port
	})
	if len(named) == 0 {
		return refusal(gateway.RouteReasonNoMatchingParent, "the Gateway has no listener of that sectionName and port")
	}
	allowed := slices.DeleteFunc(named, func(l *listener) bool { return !t.allows(l, r.kind, r.meta.Namespace) })
	if len(allowed) == 0 {
		return refusal(gateway.RouteReasonNotAllowedByListeners, "allowedRoutes of the listeners do not have %s of namespace %s", r.kind, r.meta.Namespace)
	}
	type host struct {
		of    *listener
		names []string
	}
	var hosts []host
	for _, l := range allowed {
		if names := intersect(l.hostname, r.hostnames); len(names) > 0 {
			hosts = append(hosts, host{l, names})
		}
	}
	switch {
	case len(hosts) == 0:
		return refusal(gateway.RouteReasonNoMatchingListenerHostname, "no hostname of the route is one of a listener")
	case r.unsupported != "":
		return refusal(gateway.RouteReasonUnsupportedValue, "%s", r.unsupported)
	}
	ready := false
	for _, h := range hosts {
		ready = ready || h.of.serves()
		if attached[h.of] { // by another parent reference
			continue
		}
		attached[h.of] = true
		h.of.attached++
		for _, name := range h.names {
			for _, e := range r.entries {
				e.host = name
				h.of.entries = append(h.of.entries, e)
			}
		}
	}
	if !ready {
		return refusal(routeNoReadyListeners, "no listener that the route may have is served: the Gateway's status says why")
	}
	return condition(gateway.RouteConditionAccepted, true, gateway.RouteReasonAccepted, "")
}

// intersect returns the hostnames that a listener and a route have in common, "" for all.
func intersect(listener string, route []gateway.Hostname) []string {
	if len(route) == 0 {
		return []string{listener}
	}
	var out []string
	for _, h := range route {
		name := strings.ToLower(string(h))
		switch {
		case listener == "" || within(name, listener):
		case within(listener, name):
			name = listener
		default:
			continue
		}
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// within reports whether all hosts of a name, which may begin with "*.", are hosts of another.
func within(name, other string) bool {
	if name == other {
		return true
	}
	rest, wild := strings.CutPrefix(other, "*")
	return wild && strings.HasSuffix(name, rest) && len(name) > len(rest)
}
