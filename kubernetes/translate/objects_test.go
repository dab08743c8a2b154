package translate

import (
	"maps"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// base is a cluster with a class, a Gateway for everything, and two Services with endpoints.
const base = `
{kind: GatewayClass, metadata: {name: baton, generation: 3}, spec: {controllerName: baton.example/gateway}}
---
{kind: Namespace, metadata: {name: web, labels: {team: web}}}
---
{kind: Namespace, metadata: {name: other}}
---
{kind: Service, metadata: {name: blue, namespace: web}, spec: {ports: [{name: http, port: 80}, {name: tls, port: 443}]}}
---
{kind: EndpointSlice, metadata: {name: blue-1, namespace: web, labels: {kubernetes.io/service-name: blue}}, addressType: IPv4, ports: [{name: http, port: 8080}, {name: tls, port: 8443}],
 endpoints: [{addresses: [10.2.0.1]}, {addresses: [10.2.0.2], conditions: {ready: true}}, {addresses: [10.2.0.3], conditions: {ready: false}}]}
---
{kind: Service, metadata: {name: green, namespace: web}, spec: {ports: [{port: 80}]}}
---
{kind: EndpointSlice, metadata: {name: green-1, namespace: web, labels: {kubernetes.io/service-name: green}}, addressType: IPv4, ports: [{name: "", port: 80}],
 endpoints: [{addresses: [10.2.1.1]}]}
---
{kind: Service, metadata: {name: far, namespace: other}, spec: {ports: [{port: 80}]}}
`

const oneGateway = `
{kind: Gateway, metadata: {name: front, namespace: web, generation: 7}, spec: {gatewayClassName: baton, listeners: [{name: http, port: 80, protocol: HTTP}]}}
`

var host = Host{
	Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.1")}, Local: []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("198.51.100.9")},
	Nodes: []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")}, Interfaces: []string{"eth0"}, Folder: "/pools",
}

// read adds the objects of YAML documents. Each is a second younger than the one before, unless it has an age.
func (o *Objects) read(t *testing.T, text string) {
	t.Helper()
	made := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, document := range strings.Split(text, "\n---") {
		var is metav1.PartialObjectMetadata
		if err := yaml.Unmarshal([]byte(document), &is); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		made = made.Add(time.Second)
		switch is.Kind {
		case "GatewayClass":
			add(t, &o.Classes, document, made)
		case "Gateway":
			add(t, &o.Gateways, document, made)
		case "HTTPRoute":
			add(t, &o.HTTPRoutes, document, made)
		case "TLSRoute":
			add(t, &o.TLSRoutes, document, made)
		case "ReferenceGrant":
			add(t, &o.Grants, document, made)
		case "Namespace":
			x := add(t, &o.Namespaces, document, made)
			x.Labels = maps.Clone(x.Labels)
			metav1.SetMetaDataLabel(&x.ObjectMeta, corev1.LabelMetadataName, x.Name) // as the API server does
		case "Service":
			add(t, &o.Services, document, made)
		case "EndpointSlice":
			add(t, &o.Slices, document, made)
		case "", "Deployment", "Pod", "Secret", "ConfigMap", "GRPCRoute", "ListenerSet", "TCPRoute", "UDPRoute", "BackendTLSPolicy":
		default:
			t.Fatalf("kind %q is unknown to the test", is.Kind)
		}
	}
}

// add appends the object of a YAML document, made at this time unless it says another.
func add[T any, object interface {
	*T
	metav1.Object
}](t *testing.T, to *[]T, document string, made time.Time) object {
	t.Helper()
	var x object = new(T)
	if err := yaml.UnmarshalStrict([]byte(document), x); err != nil {
		t.Fatalf("%v in\n%s", err, document)
	}
	if at := x.GetCreationTimestamp(); at.IsZero() {
		x.SetCreationTimestamp(metav1.NewTime(made))
	}
	*to = append(*to, *x)
	return &(*to)[len(*to)-1]
}

func objects(t *testing.T, texts ...string) *Objects {
	t.Helper()
	o := &Objects{}
	o.read(t, strings.Join(texts, "\n---\n"))
	return o
}

// conformance is the folder of the conformance suite of the Gateway API.
func conformance(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", "sigs.k8s.io/gateway-api/conformance").Output()
	if err != nil {
		t.Fatalf("go mod download: %v\n%s", err, out)
	}
	var module struct{ Dir string }
	if err := yaml.Unmarshal(out, &module); err != nil || module.Dir == "" {
		t.Fatalf("go mod download: %v\n%s", err, out)
	}
	return filepath.Clean(module.Dir)
}

// says is the status and reason of a condition, "True Accepted".
func says(conditions []metav1.Condition, kind string) string {
	for _, c := range conditions {
		if c.Type == kind {
			return string(c.Status) + " " + c.Reason
		}
	}
	return "none"
}
