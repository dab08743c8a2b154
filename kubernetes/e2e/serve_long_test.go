package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gateway "sigs.k8s.io/gateway-api/apis/v1"

	"baton/api"
	"baton/lab"
	"baton/lab/peers"
)

const node = "10.1.0.1"

// world is a client, a node with a router, and servers behind it.
type world struct {
	*cluster
	client *lab.Host
	router *lab.Process
	files  string
	socket string
}

// newWorld starts everything; pods are on 10.2.N.2.
func newWorld(t *testing.T, pods int) *world {
	t.Helper()
	l := lab.New(t)
	h := l.Host("node")
	h.Forward()
	w := &world{client: l.Host("client"), files: filepath.Join(l.Dir(), "files"), socket: filepath.Join(l.Dir(), "router.sock")}
	front := l.Link(lab.End{Host: w.client, Addrs: []string{"10.1.0.2/24"}}, lab.End{Host: h, Addrs: []string{node + "/24"}}, lab.LinkOptions{}).B
	for i := 1; i <= pods; i++ {
		pod := l.Host(fmt.Sprintf("pod%d", i))
		l.Link(lab.End{Host: pod, Addrs: []string{fmt.Sprintf("10.2.%d.2/24", i)}}, lab.End{Host: h, Addrs: []string{fmt.Sprintf("10.2.%d.1/24", i)}}, lab.LinkOptions{})
		pod.Route("default", fmt.Sprintf("10.2.%d.1", i))
		peers.Nginx(pod, peers.NginxOptions{Workers: 1})
	}
	w.cluster = newCluster(t, l, h)
	w.applyFiles(t, crds(t))
	for _, f := range []string{"namespace", "rbac", "gatewayclass"} {
		w.applyFiles(t, "../deploy/"+f+".yaml")
	}
	controller := build(t, "..", "./cmd/baton-kubernetes", "baton-kubernetes")
	args := []string{
		"--folder", w.files, "--control", w.socket, "--router-state", filepath.Join(l.BPFFS(), "router"), "--node-addresses", node,
		"--interfaces", front.Name, "--namespace", "baton-system",
	}
	if _, err := h.Exec(t.Context(), controller, append(args, "--prepare")...); err != nil {
		t.Fatal(err)
	}
	var err error
	if w.router, err = h.Start(lab.Program{Path: build(t, "../..", "./cmd/baton", "baton"), Args: []string{"router", "run", "-c", filepath.Join(w.files, "router.yaml")}}); err != nil {
		t.Fatal(err)
	}
	running, err := h.Start(lab.Program{Path: controller, Args: args, Env: []string{"KUBECONFIG=" + w.kubeconfig}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			file, _ := os.ReadFile(filepath.Join(w.files, "router.yaml"))
			t.Logf("controller:\n%s\nrouter:\n%s\nrouter.yaml:\n%s", running.Log(), w.router.Log(), file)
		}
	})
	return w
}

// ask returns the status and the surrogate of an answer.
func (w *world) ask(host, path string) (int, string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	c, err := w.client.Dial(ctx, "tcp", node+":80")
	if err != nil {
		return 0, "", err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", path, host)
	a, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0, "", err
	}
	defer a.Body.Close()
	_, err = io.Copy(io.Discard, a.Body)
	return a.StatusCode, a.Header.Get(peers.Header), err
}

// answers waits until a request has an answer of a server, "pod1", or of a status, "404".
func (w *world) answers(t *testing.T, host, path, want string) {
	t.Helper()
	lab.Eventually(t, within, func() error {
		status, server, err := w.ask(host, path)
		if got := fmt.Sprint(status); err == nil && got != want && server != want {
			err = fmt.Errorf("%s%s has %s of %q, want %s", host, path, got, server, want)
		}
		return err
	})
}

// eventually waits for the condition of a route's first parent.
func (w *world) eventually(t *testing.T, name, condition string, want metav1.ConditionStatus, reason string) {
	t.Helper()
	lab.Eventually(t, within, func() error {
		var r gateway.HTTPRoute
		if err := w.Get(t.Context(), types.NamespacedName{Namespace: "web", Name: name}, &r); err != nil {
			return err
		}
		if len(r.Status.Parents) == 0 {
			return fmt.Errorf("route %s has no status", name)
		}
		c := meta.FindStatusCondition(r.Status.Parents[0].Conditions, condition)
		if c == nil || c.Status != want || c.Reason != reason || c.ObservedGeneration != r.Generation {
			return fmt.Errorf("%s of route %s is %+v, want %s %s", condition, name, c, want, reason)
		}
		return nil
	})
}

func slice(name, service string, pods ...int) string {
	var endpoints []string
	for _, p := range pods {
		endpoints = append(endpoints, fmt.Sprintf(`{addresses: ["10.2.%d.2"]}`, p))
	}
	return fmt.Sprintf("\n---\n{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: %s, namespace: web, labels: {kubernetes.io/service-name: %s}}, addressType: IPv4, ports: [{name: http, port: 80}], endpoints: [%s]}",
		name, service, strings.Join(endpoints, ", "))
}

func service(name string) string {
	return "\n---\n{apiVersion: v1, kind: Service, metadata: {name: " + name + ", namespace: web}, spec: {selector: {app: " + name + "}, ports: [{name: http, port: 80}]}}"
}

func route(name, rules string) string {
	return "\n---\n{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: " + name + ", namespace: web}, spec: {parentRefs: [{name: front}], rules: " + rules + "}}"
}

// readyPod is a router's pod, which a kubelet would report.
const readyPod = `
{apiVersion: v1, kind: Pod, metadata: {name: baton-router-1, namespace: baton-system, labels: {app.kubernetes.io/name: baton-router}}, spec: {containers: [{name: router, image: baton}]},
 status: {phase: Running, hostIP: 10.1.0.1, hostIPs: [{ip: 10.1.0.1}], conditions: [{type: Ready, status: "True"}]}}`

// TestServe: a Gateway and its routes are served by a real router, endpoints change without a reload, statuses follow, and what cannot be
// served does not harm what is.
func TestServe(t *testing.T) {
	w := newWorld(t, 3)
	w.apply(t, `{apiVersion: v1, kind: Namespace, metadata: {name: web}}`+"\n---"+readyPod+service("blue")+slice("blue-1", "blue", 1)+service("green")+slice("green-1", "green", 3)+`
---
{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {name: front, namespace: web}, spec: {gatewayClassName: baton, listeners: [{name: http, port: 80, protocol: HTTP}]}}`+
		route("first", "[{backendRefs: [{name: blue, port: 80}]}]"))
	w.answers(t, "any.example", "/128", "pod1")
	w.eventually(t, "first", "Accepted", "True", "Accepted")
	w.eventually(t, "first", "ResolvedRefs", "True", "ResolvedRefs")
	w.gatewayServes(t, 1)
	w.splices(t)

	reloads := strings.Count(w.router.Log(), "msg=reloaded")
	w.apply(t, slice("blue-1", "blue", 2))
	w.answers(t, "any.example", "/128", "pod2")
	if now := strings.Count(w.router.Log(), "msg=reloaded"); now != reloads {
		t.Errorf("%d reloads for a change of endpoints", now-reloads)
	}

	w.apply(t, route("second", "[{matches: [{path: {value: /16k}}], backendRefs: [{name: green, port: 80}]}]")+
		route("third", "[{filters: [{type: RequestRedirect, requestRedirect: {scheme: https}}]}]")+route("fourth", "[{matches: [{path: {value: /gone}}], backendRefs: [{name: red, port: 80}]}]"))
	w.answers(t, "any.example", "/16k", "pod3")
	w.answers(t, "any.example", "/128", "pod2")
	w.answers(t, "any.example", "/gone", "503")
	w.eventually(t, "third", "Accepted", "False", "UnsupportedValue")
	w.eventually(t, "fourth", "ResolvedRefs", "False", "BackendNotFound")
	w.gatewayServes(t, 3)

	for _, name := range []string{"first", "second", "third", "fourth"} {
		if err := w.Delete(t.Context(), &gateway.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	w.answers(t, "any.example", "/128", "404")
	w.gatewayServes(t, 0)
}

// gatewayServes waits until the Gateway is programmed, at the node, with so many routes.
func (w *world) gatewayServes(t *testing.T, routes int32) {
	t.Helper()
	lab.Eventually(t, within, func() error {
		var g gateway.Gateway
		if err := w.Get(t.Context(), types.NamespacedName{Namespace: "web", Name: "front"}, &g); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(g.Status.Conditions, "Programmed") || len(g.Status.Addresses) != 1 || g.Status.Addresses[0].Value != node ||
			len(g.Status.Listeners) != 1 || g.Status.Listeners[0].AttachedRoutes != routes {
			return fmt.Errorf("status is %+v", g.Status)
		}
		return nil
	})
}

// splices fails the test if the router has proxied what it could have handed off.
func (w *world) splices(t *testing.T) {
	t.Helper()
	c := api.NewClient(w.socket)
	defer c.Close()
	lab.Eventually(t, within, func() error {
		if _, _, err := w.ask("any.example", "/128"); err != nil {
			return err
		}
		s, err := c.Router(t.Context())
		if err == nil && s.Packets["handoff"] == 0 {
			err = fmt.Errorf("no request was handed off: %v", s.Packets)
		}
		return err
	})
}
