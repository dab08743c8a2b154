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
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gateway "sigs.k8s.io/gateway-api/apis/v1"
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
		into := func(object any, meta *metav1.ObjectMeta) {
			t.Helper()
			if err := yaml.UnmarshalStrict([]byte(document), object); err != nil {
				t.Fatalf("%v in\n%s", err, document)
			}
			if made = made.Add(time.Second); meta.CreationTimestamp.IsZero() {
				meta.CreationTimestamp = metav1.NewTime(made)
			}
		}
		switch is.Kind {
		case "GatewayClass":
			var x gateway.GatewayClass
			into(&x, &x.ObjectMeta)
			o.Classes = append(o.Classes, x)
		case "Gateway":
			var x gateway.Gateway
			into(&x, &x.ObjectMeta)
			o.Gateways = append(o.Gateways, x)
		case "HTTPRoute":
			var x gateway.HTTPRoute
			into(&x, &x.ObjectMeta)
			o.HTTPRoutes = append(o.HTTPRoutes, x)
		case "TLSRoute":
			var x gateway.TLSRoute
			into(&x, &x.ObjectMeta)
			o.TLSRoutes = append(o.TLSRoutes, x)
		case "ReferenceGrant":
			var x gateway.ReferenceGrant
			into(&x, &x.ObjectMeta)
			o.Grants = append(o.Grants, x)
		case "Namespace":
			var x corev1.Namespace
			into(&x, &x.ObjectMeta)
			x.Labels = maps.Clone(x.Labels)
			metav1.SetMetaDataLabel(&x.ObjectMeta, corev1.LabelMetadataName, x.Name) // as the API server does
			o.Namespaces = append(o.Namespaces, x)
		case "Service":
			var x corev1.Service
			into(&x, &x.ObjectMeta)
			o.Services = append(o.Services, x)
		case "EndpointSlice":
			var x discoveryv1.EndpointSlice
			into(&x, &x.ObjectMeta)
			o.Slices = append(o.Slices, x)
		case "", "Deployment", "Pod", "Secret", "ConfigMap", "GRPCRoute", "ListenerSet", "TCPRoute", "UDPRoute", "BackendTLSPolicy":
		default:
			t.Fatalf("kind %q is unknown to the test", is.Kind)
		}
	}
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
