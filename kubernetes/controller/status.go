package controller

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gateway "sigs.k8s.io/gateway-api/apis/v1"

	"baton/api"
	"baton/kubernetes/translate"
)

// writeStatuses writes the statuses that differ. failed is why this node's router does not serve the result.
func (r *Reconciler) writeStatuses(ctx context.Context, o *translate.Objects, result *translate.Result, failed error) error {
	var errs []error
	write := func(object client.Object, differs bool) {
		if !differs {
			return
		}
		err := r.Client.Status().Update(ctx, object)
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("write the status of %s %s/%s: %w", reflect.TypeOf(object).Elem().Name(), object.GetNamespace(), object.GetName(), err))
		}
	}
	for i := range o.Classes {
		c := o.Classes[i].DeepCopy()
		if status, ours := result.Classes[c.Name]; ours {
			merge(&c.Status.Conditions, status.Conditions)
			write(c, !equality.Semantic.DeepEqual(c.Status, o.Classes[i].Status))
		}
	}
	for i := range o.Gateways {
		g := o.Gateways[i].DeepCopy()
		if status, ours := result.Gateways[key(g)]; ours {
			unserved(&status, g.Generation, failed)
			mergeGateway(&g.Status, status)
			write(g, !equality.Semantic.DeepEqual(g.Status, o.Gateways[i].Status))
		}
	}
	for i := range o.HTTPRoutes {
		h := o.HTTPRoutes[i].DeepCopy()
		mergeParents(&h.Status.Parents, result.HTTPRoutes[key(h)])
		write(h, !equality.Semantic.DeepEqual(h.Status, o.HTTPRoutes[i].Status))
	}
	for i := range o.TLSRoutes {
		h := o.TLSRoutes[i].DeepCopy()
		mergeParents(&h.Status.Parents, result.TLSRoutes[key(h)])
		write(h, !equality.Semantic.DeepEqual(h.Status, o.TLSRoutes[i].Status))
	}
	return errors.Join(errs...)
}

func key(o client.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// unserved says in a Gateway's status that the router does not have its configuration.
func unserved(s *gateway.GatewayStatus, generation int64, failed error) {
	if failed == nil {
		return
	}
	reason := gateway.GatewayReasonPending
	if errors.Is(failed, api.ErrConflict) {
		reason = gateway.GatewayReasonInvalid
	}
	not := func(conditions []metav1.Condition, kind string) {
		if c := meta.FindStatusCondition(conditions, kind); c != nil && c.Status == metav1.ConditionTrue {
			c.Status, c.Reason, c.Message, c.ObservedGeneration = metav1.ConditionFalse, string(reason), failed.Error(), generation
		}
	}
	not(s.Conditions, string(gateway.GatewayConditionProgrammed))
	for i := range s.Listeners {
		not(s.Listeners[i].Conditions, string(gateway.ListenerConditionProgrammed))
	}
}

// merge sets conditions, and keeps the times of those that stay as they are.
func merge(into *[]metav1.Condition, from []metav1.Condition) {
	for _, c := range from {
		meta.SetStatusCondition(into, c)
	}
}

func mergeGateway(into *gateway.GatewayStatus, from gateway.GatewayStatus) {
	merge(&into.Conditions, from.Conditions)
	into.Addresses = from.Addresses
	var listeners []gateway.ListenerStatus
	for _, l := range from.Listeners {
		conditions := l.Conditions
		l.Conditions = nil
		if i := slices.IndexFunc(into.Listeners, func(old gateway.ListenerStatus) bool { return old.Name == l.Name }); i >= 0 {
			l.Conditions = into.Listeners[i].Conditions
		}
		merge(&l.Conditions, conditions)
		listeners = append(listeners, l)
	}
	into.Listeners = listeners
}

// mergeParents replaces what this controller has said of a route, and keeps what others have.
func mergeParents(into *[]gateway.RouteParentStatus, from []gateway.RouteParentStatus) {
	var out []gateway.RouteParentStatus
	old := *into
	for _, p := range old {
		if p.ControllerName != translate.Controller {
			out = append(out, p)
		}
	}
	for _, p := range from {
		conditions := p.Conditions
		p.Conditions = nil
		for i := range old {
			if old[i].ControllerName == translate.Controller && equality.Semantic.DeepEqual(old[i].ParentRef, p.ParentRef) {
				p.Conditions = old[i].Conditions
			}
		}
		merge(&p.Conditions, conditions)
		out = append(out, p)
	}
	if out == nil {
		out = []gateway.RouteParentStatus{} // the API server wants a list
	}
	if len(out) > 0 || len(old) > 0 {
		*into = out
	}
}
