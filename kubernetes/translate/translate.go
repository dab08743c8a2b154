// Package translate turns objects of the Gateway API into the request router's configuration, its surrogates, and the statuses of the
// objects. It is a pure function: the same objects give the same result on each node but for what Host says of the node.
//
// What the router cannot do is refused by a condition of the object that asks for it, never left out silently: Features lists both.
package translate

import (
	"cmp"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gateway "sigs.k8s.io/gateway-api/apis/v1"
)

// Controller is the name by which GatewayClasses choose this controller.
const Controller gateway.GatewayController = "baton.example/gateway"

// Objects are those of the cluster that matter.
type Objects struct {
	Classes    []gateway.GatewayClass
	Gateways   []gateway.Gateway
	HTTPRoutes []gateway.HTTPRoute
	TLSRoutes  []gateway.TLSRoute
	Grants     []gateway.ReferenceGrant
	Namespaces []corev1.Namespace
	Services   []corev1.Service
	Slices     []discoveryv1.EndpointSlice
}

// Host is the node that the router runs on.
type Host struct {
	Addresses  []netip.Addr // of the node: Gateways without spec.addresses are served there
	Local      []netip.Addr // all addresses of its interfaces: of spec.addresses, those are served here
	Nodes      []netip.Addr // addresses of all nodes that have a router, for status.addresses
	Interfaces []string     // towards clients

	ClientAddress string // client_address of pools for HTTP; "" for none
	Folder        string // of the lists of surrogates
}

// Result is what the objects mean.
type Result struct {
	VIPs       []VIP
	Pools      map[string]Pool
	Surrogates map[string][]Surrogate // by pool

	Classes    map[string]gateway.GatewayClassStatus // of this controller's classes
	Gateways   map[types.NamespacedName]gateway.GatewayStatus
	HTTPRoutes map[types.NamespacedName][]gateway.RouteParentStatus // of parents of this controller
	TLSRoutes  map[types.NamespacedName][]gateway.RouteParentStatus

	Elsewhere []netip.Addr // addresses of Gateways that this host does not have
}

// translation is the state of one call.
type translation struct {
	host     Host
	objects  *Objects
	gateways map[types.NamespacedName]*gatewayState
	ordered  []*gatewayState // oldest first
	services map[types.NamespacedName]*corev1.Service
	labels   map[string]map[string]string // of namespaces
	slices   map[types.NamespacedName][]*discoveryv1.EndpointSlice

	rewrites map[Rewrite]bool
	result   *Result
}

// Translate says what the router of a host is to do, and what the statuses of the objects are.
func Translate(o *Objects, h Host) *Result {
	t := &translation{
		host: h, objects: o,
		gateways: map[types.NamespacedName]*gatewayState{},
		services: map[types.NamespacedName]*corev1.Service{},
		labels:   map[string]map[string]string{},
		slices:   map[types.NamespacedName][]*discoveryv1.EndpointSlice{},
		rewrites: map[Rewrite]bool{},
		result: &Result{
			Pools: map[string]Pool{}, Surrogates: map[string][]Surrogate{},
			Classes: map[string]gateway.GatewayClassStatus{}, Gateways: map[types.NamespacedName]gateway.GatewayStatus{},
			HTTPRoutes: map[types.NamespacedName][]gateway.RouteParentStatus{}, TLSRoutes: map[types.NamespacedName][]gateway.RouteParentStatus{},
		},
	}
	t.index()
	t.takeGateways(t.takeClasses())
	t.findConflicts()
	for _, r := range oldest(o.HTTPRoutes, func(r *gateway.HTTPRoute) *metav1.ObjectMeta { return &r.ObjectMeta }) {
		t.httpRoute(r)
	}
	for _, r := range oldest(o.TLSRoutes, func(r *gateway.TLSRoute) *metav1.ObjectMeta { return &r.ObjectMeta }) {
		t.tlsRoute(r)
	}
	for _, g := range t.ordered {
		t.result.Gateways[name(&g.object.ObjectMeta)] = t.gatewayStatus(g)
	}
	t.assemble()
	return t.result
}

func (t *translation) index() {
	for i := range t.objects.Services {
		s := &t.objects.Services[i]
		t.services[name(&s.ObjectMeta)] = s
	}
	for i := range t.objects.Namespaces {
		n := &t.objects.Namespaces[i]
		t.labels[n.Name] = n.Labels
	}
	for i := range t.objects.Slices {
		s := &t.objects.Slices[i]
		if of := s.Labels[discoveryv1.LabelServiceName]; of != "" {
			key := types.NamespacedName{Namespace: s.Namespace, Name: of}
			t.slices[key] = append(t.slices[key], s)
		}
	}
}

// takeClasses sets the statuses of this controller's classes, and returns the names of those that it accepts.
func (t *translation) takeClasses() map[string]bool {
	accepted := map[string]bool{}
	for i := range t.objects.Classes {
		c := &t.objects.Classes[i]
		if c.Spec.ControllerName != Controller {
			continue
		}
		is := condition(gateway.GatewayClassConditionStatusAccepted, true, gateway.GatewayClassReasonAccepted, "served by Baton")
		if c.Spec.ParametersRef != nil {
			is = condition(gateway.GatewayClassConditionStatusAccepted, false, gateway.GatewayClassReasonInvalidParameters,
				"parametersRef is not supported: remove it; options are flags of baton-kubernetes")
		} else {
			accepted[c.Name] = true
		}
		t.result.Classes[c.Name] = gateway.GatewayClassStatus{Conditions: observed(c.Generation, is)}
	}
	return accepted
}

func name(m *metav1.ObjectMeta) types.NamespacedName {
	return types.NamespacedName{Namespace: m.Namespace, Name: m.Name}
}

// oldest orders objects as the Gateway API settles conflicts: by age, then by name.
func oldest[T any](objects []T, meta func(*T) *metav1.ObjectMeta) []*T {
	out := make([]*T, len(objects))
	for i := range objects {
		out[i] = &objects[i]
	}
	slices.SortStableFunc(out, func(a, b *T) int { return older(meta(a), meta(b)) })
	return out
}

func older(a, b *metav1.ObjectMeta) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// condition makes a condition of one of the API's types. observed completes it.
func condition[T, R ~string](of T, holds bool, reason R, message string) metav1.Condition {
	c := metav1.Condition{Type: string(of), Status: metav1.ConditionFalse, Reason: string(reason), Message: message}
	if holds {
		c.Status = metav1.ConditionTrue
	}
	return c
}

func observed(generation int64, conditions ...metav1.Condition) []metav1.Condition {
	for i := range conditions {
		conditions[i].ObservedGeneration = generation
		if len(conditions[i].Message) > maxMessage {
			conditions[i].Message = conditions[i].Message[:maxMessage]
		}
	}
	return conditions
}

const maxMessage = 1024 // the API server takes 32768

func deref[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}
