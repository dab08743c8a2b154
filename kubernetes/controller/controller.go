// Package controller keeps a node's request router at what the objects of the Gateway API say, and one of all nodes writes their statuses.
package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	gateway "sigs.k8s.io/gateway-api/apis/v1"

	"baton/api"
	"baton/kubernetes/translate"
)

// RouterLabel marks the pods of the router's DaemonSet.
const (
	RouterLabel = "app.kubernetes.io/name"
	RouterName  = "baton-router"
)

// lookAgain is how often the host's addresses are looked at: nobody reports their changes here.
const lookAgain = 10 * time.Second

// Reconciler does everything at once: what one object means depends on others, and listeners share the router's one file.
type Reconciler struct {
	Client    client.Client
	Router    *Router
	Host      func() (translate.Host, error) // this node
	Namespace string                         // of the DaemonSet; "": this is the only node
	Elected   <-chan struct{}                // closed when this one is to write statuses
	Log       *slog.Logger

	elsewhere []netip.Addr // that were reported
}

// SetupWithManager has every change of an object that matters lead to one reconciliation.
func (r *Reconciler) SetupWithManager(m ctrl.Manager) error {
	all := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: "all"}}}
	})
	everywhere := false // each node has a router
	b := ctrl.NewControllerManagedBy(m).Named("gateway").WithOptions(controller.Options{NeedLeaderElection: &everywhere})
	for _, o := range r.watched() {
		b = b.Watches(o, all)
	}
	return b.Complete(r)
}

func (r *Reconciler) watched() []client.Object {
	objects := []client.Object{
		&gateway.GatewayClass{}, &gateway.Gateway{}, &gateway.HTTPRoute{}, &gateway.TLSRoute{}, &gateway.ReferenceGrant{},
		&corev1.Namespace{}, &corev1.Service{}, &discoveryv1.EndpointSlice{},
	}
	if r.Namespace != "" {
		objects = append(objects, &corev1.Pod{})
	}
	return objects
}

// Reconcile translates all objects, has the router serve them, and writes what has become of them.
func (r *Reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	objects, err := r.list(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	host, err := r.Host()
	if err != nil {
		return reconcile.Result{}, err
	}
	if host.Nodes, err = r.nodes(ctx, host); err != nil {
		return reconcile.Result{}, err
	}
	host.Folder = r.Router.Lists()
	result := translate.Translate(objects, host)
	r.reportElsewhere(result)
	failed := r.Router.Apply(ctx, result)
	if failed != nil {
		r.Log.Error("the router does not serve the objects as they are", "err", failed)
	}
	if r.elected() {
		if err := r.writeStatuses(ctx, objects, result, failed); err != nil {
			return reconcile.Result{}, err
		}
	}
	if failed != nil && !errors.Is(failed, api.ErrConflict) { // it may start at any moment
		return reconcile.Result{RequeueAfter: time.Second}, nil
	}
	return reconcile.Result{RequeueAfter: lookAgain}, nil
}

func (r *Reconciler) elected() bool {
	select {
	case <-r.Elected:
		return true
	default:
		return false
	}
}

func (r *Reconciler) reportElsewhere(result *translate.Result) {
	if !slices.Equal(r.elsewhere, result.Elsewhere) && len(result.Elsewhere) > 0 {
		r.Log.Info("these addresses of Gateways are on no interface of this node, which does not serve them", "addresses", result.Elsewhere)
	}
	r.elsewhere = result.Elsewhere
}

// list reads all objects from the cache.
func (r *Reconciler) list(ctx context.Context) (*translate.Objects, error) {
	var (
		classes    gateway.GatewayClassList
		gateways   gateway.GatewayList
		http       gateway.HTTPRouteList
		tls        gateway.TLSRouteList
		grants     gateway.ReferenceGrantList
		namespaces corev1.NamespaceList
		services   corev1.ServiceList
		endpoints  discoveryv1.EndpointSliceList
	)
	for _, l := range []client.ObjectList{&classes, &gateways, &http, &tls, &grants, &namespaces, &services, &endpoints} {
		if err := r.Client.List(ctx, l); err != nil {
			return nil, fmt.Errorf("list objects: %w", err)
		}
	}
	return &translate.Objects{
		Classes: classes.Items, Gateways: gateways.Items, HTTPRoutes: http.Items, TLSRoutes: tls.Items, Grants: grants.Items,
		Namespaces: namespaces.Items, Services: services.Items, Slices: endpoints.Items,
	}, nil
}

// nodes are the addresses of the nodes whose router is ready.
func (r *Reconciler) nodes(ctx context.Context, host translate.Host) ([]netip.Addr, error) {
	if r.Namespace == "" {
		return host.Addresses, nil
	}
	var pods corev1.PodList
	if err := r.Client.List(ctx, &pods, client.InNamespace(r.Namespace), client.MatchingLabels{RouterLabel: RouterName}); err != nil {
		return nil, fmt.Errorf("list the routers' pods: %w", err)
	}
	var out []netip.Addr
	for _, p := range pods.Items {
		ready := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionStatus(metav1.ConditionTrue)
		})
		if !ready {
			continue
		}
		for _, ip := range p.Status.HostIPs {
			if a, err := netip.ParseAddr(ip.IP); err == nil && !slices.Contains(out, a) {
				out = append(out, a)
			}
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	const most = 16 // of status.addresses, by the API
	return out[:min(len(out), most)], nil
}
