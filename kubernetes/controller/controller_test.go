package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgo "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	gateway "sigs.k8s.io/gateway-api/apis/v1"

	"baton/api"
	"baton/kubernetes/translate"
	"baton/router/config"
)

// fixture is a reconciler with the client of a test, and a router that only counts its reloads.
type fixture struct {
	*Reconciler
	reloads atomic.Int32
	refusal atomic.Pointer[string] // what the router answers a reload; nil: it takes it
}

func newFixture(t *testing.T, objects ...client.Object) *fixture {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clientgo.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if err := gateway.Install(scheme); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	f := &fixture{}
	elected := make(chan struct{})
	close(elected)
	f.Reconciler = &Reconciler{
		Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
			WithStatusSubresource(&gateway.GatewayClass{}, &gateway.Gateway{}, &gateway.HTTPRoute{}, &gateway.TLSRoute{}).Build(),
		Router: &Router{Folder: filepath.Join(dir, "files"), Control: filepath.Join(dir, "s")},
		Host: func() (translate.Host, error) {
			return translate.Host{Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.1")}, Interfaces: []string{"eth0"}}, nil
		},
		Elected: elected, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	if err := f.Router.Prepare(); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", f.Router.Control)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if why := f.refusal.Load(); why != nil {
			w.WriteHeader(http.StatusConflict)
			fmt.Fprintf(w, `{"error": %q}`, *why)
			return
		}
		f.reloads.Add(1)
		fmt.Fprint(w, "{}")
	})}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	return f
}

func (f *fixture) reconcile(t *testing.T) {
	t.Helper()
	if _, err := f.Reconcile(t.Context(), reconcile.Request{}); err != nil {
		t.Fatal(err)
	}
}

// written is the router's configuration, which must be valid.
func (f *fixture) written(t *testing.T) string {
	t.Helper()
	if _, err := config.Load(f.Router.ConfigFile()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(f.Router.ConfigFile())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// programmed is the Gateway's condition.
func (f *fixture) programmed(t *testing.T) *metav1.Condition {
	t.Helper()
	var g gateway.Gateway
	if err := f.Client.Get(t.Context(), client.ObjectKey{Namespace: "web", Name: "front"}, &g); err != nil {
		t.Fatal(err)
	}
	c := meta.FindStatusCondition(g.Status.Conditions, "Programmed")
	if c == nil {
		t.Fatal("the Gateway has no condition Programmed")
	}
	return c
}

func cluster() []client.Object {
	port := gateway.PortNumber(80)
	number := int32(8080)
	return []client.Object{
		&gateway.GatewayClass{ObjectMeta: metav1.ObjectMeta{Name: "baton"}, Spec: gateway.GatewayClassSpec{ControllerName: translate.Controller}},
		&gateway.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "front"}, Spec: gateway.GatewaySpec{
			GatewayClassName: "baton", Listeners: []gateway.Listener{{Name: "http", Port: 80, Protocol: gateway.HTTPProtocolType}},
		}},
		&gateway.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "all"}, Spec: gateway.HTTPRouteSpec{
			CommonRouteSpec: gateway.CommonRouteSpec{ParentRefs: []gateway.ParentReference{{Name: "front"}}},
			Rules:           []gateway.HTTPRouteRule{{BackendRefs: []gateway.HTTPBackendRef{{BackendRef: gateway.BackendRef{BackendObjectReference: gateway.BackendObjectReference{Name: "blue", Port: &port}}}}}},
		}},
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "blue"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}},
		&discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: "web", Name: "blue-1", Labels: map[string]string{discoveryv1.LabelServiceName: "blue"}},
			AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Port: &number}}, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.2.0.1"}}},
		},
	}
}

// TestReconcile: files follow the objects, and the router reloads only where its configuration changes.
func TestReconcile(t *testing.T) {
	f := newFixture(t, cluster()...)
	f.reconcile(t)
	if got := f.written(t); !strings.Contains(got, "192.0.2.1:80") || !strings.Contains(got, "web/blue:80") {
		t.Errorf("configuration is\n%s", got)
	}
	list := filepath.Join(f.Router.Lists(), "web_blue_80.yaml")
	if text, err := os.ReadFile(list); err != nil || !strings.Contains(string(text), "10.2.0.1:8080") {
		t.Errorf("surrogates are %v %s", err, text)
	}
	if c := f.programmed(t); c.Status != metav1.ConditionTrue {
		t.Errorf("Programmed is %+v", c)
	}

	var slice discoveryv1.EndpointSlice
	if err := f.Client.Get(t.Context(), client.ObjectKey{Namespace: "web", Name: "blue-1"}, &slice); err != nil {
		t.Fatal(err)
	}
	slice.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{"10.2.0.2"}}}
	if err := f.Client.Update(t.Context(), &slice); err != nil {
		t.Fatal(err)
	}
	f.reconcile(t)
	if text, err := os.ReadFile(list); err != nil || !strings.Contains(string(text), "10.2.0.2:8080") || strings.Contains(string(text), "10.2.0.1") {
		t.Errorf("surrogates are %v %s", err, text)
	}
	if n := f.reloads.Load(); n != 1 {
		t.Errorf("%d reloads, want 1: endpoints change without", n)
	}

	if err := f.Client.Delete(t.Context(), &gateway.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "all"}}); err != nil {
		t.Fatal(err)
	}
	f.reconcile(t)
	if _, err := os.Stat(list); !os.IsNotExist(err) {
		t.Errorf("the list of a pool that is gone is left: %v", err)
	}
	if strings.Contains(f.written(t), "blue") {
		t.Errorf("configuration is\n%s", f.written(t))
	}
}

// TestRefused: what the router refuses is neither left in its file nor called programmed.
func TestRefused(t *testing.T) {
	f := newFixture(t, cluster()...)
	before := f.written(t)
	why := "router.yaml:1:1: too much"
	f.refusal.Store(&why)
	f.reconcile(t)
	if got := f.written(t); got != before {
		t.Errorf("the refused configuration is left:\n%s", got)
	}
	if c := f.programmed(t); c.Status != metav1.ConditionFalse || c.Reason != "Invalid" || !strings.Contains(c.Message, why) {
		t.Errorf("Programmed is %+v", c)
	}
	f.refusal.Store(nil)
	f.reconcile(t)
	if c := f.programmed(t); c.Status != metav1.ConditionTrue {
		t.Errorf("Programmed is %+v", c)
	}
}

// TestNeverWritten: a router that does not run does not find a configuration with which it cannot start.
func TestNeverWritten(t *testing.T) {
	f := newFixture(t)
	before := f.written(t)
	err := f.Router.Apply(t.Context(), &translate.Result{VIPs: []translate.VIP{{Address: "192.0.2.1:80", Interfaces: []string{"eth0"}, Routes: []translate.Route{{Pool: "missing"}}}}})
	if !errors.Is(err, api.ErrConflict) {
		t.Errorf("the error is %v, want one of a refused configuration", err)
	}
	if got := f.written(t); got != before || f.reloads.Load() != 0 {
		t.Errorf("%d reloads, and the file has\n%s", f.reloads.Load(), got)
	}
}

// TestStatusIsKept: what others have written, and times of conditions that have not changed.
func TestStatusIsKept(t *testing.T) {
	objects := cluster()
	route := objects[2].(*gateway.HTTPRoute)
	route.Status.Parents = []gateway.RouteParentStatus{{ParentRef: gateway.ParentReference{Name: "theirs"}, ControllerName: "example.net/other", Conditions: []metav1.Condition{}}}
	f := newFixture(t, objects...)
	f.reconcile(t)
	get := func() (r gateway.HTTPRoute) {
		if err := f.Client.Get(context.Background(), client.ObjectKeyFromObject(route), &r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	first := get()
	if len(first.Status.Parents) != 2 || first.Status.Parents[0].ControllerName != "example.net/other" {
		t.Fatalf("parents are %+v", first.Status.Parents)
	}
	f.reconcile(t)
	if second := get(); second.ResourceVersion != first.ResourceVersion {
		t.Errorf("a status that is the same was written again")
	}
	first.Spec.ParentRefs = []gateway.ParentReference{{Name: "theirs"}}
	if err := f.Client.Update(t.Context(), &first); err != nil {
		t.Fatal(err)
	}
	f.reconcile(t)
	if last := get(); len(last.Status.Parents) != 1 || last.Status.Parents[0].ControllerName != "example.net/other" {
		t.Errorf("of a route that has left, parents are %+v", last.Status.Parents)
	}
}

// TestNotElected: another pod writes statuses, and this node's router is served all the same.
func TestNotElected(t *testing.T) {
	f := newFixture(t, cluster()...)
	f.Elected = make(chan struct{})
	f.reconcile(t)
	var g gateway.Gateway
	if err := f.Client.Get(t.Context(), client.ObjectKey{Namespace: "web", Name: "front"}, &g); err != nil {
		t.Fatal(err)
	}
	if len(g.Status.Conditions) > 0 || !strings.Contains(f.written(t), "192.0.2.1:80") {
		t.Errorf("status is %+v, configuration\n%s", g.Status, f.written(t))
	}
}

// TestPrepare: the configuration of an earlier run stays.
func TestPrepare(t *testing.T) {
	r := &Router{Folder: t.TempDir(), Control: "/run/baton/router.sock"}
	if err := r.Prepare(); err != nil {
		t.Fatal(err)
	}
	if _, err := config.Load(r.ConfigFile()); err != nil {
		t.Errorf("a router cannot start with it: %v", err)
	}
	if err := os.WriteFile(r.ConfigFile(), []byte("earlier"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.Prepare(); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(r.ConfigFile()); err != nil || string(text) != "earlier" {
		t.Errorf("the file has %q, %v", text, err)
	}
}
