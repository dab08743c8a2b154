package e2e

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgo "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	gateway "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"baton/lab"
	"baton/lab/peers"
)

// within bounds waits: the machine is busy.
const within = 60 * time.Second

// Tokens of the users that the tests have.
const (
	adminToken  = "admin-of-the-test"
	routerToken = "router-of-the-test"
)

// cluster is an API server with etcd on a lab host. Nothing else of Kubernetes runs: pods and endpoints are what the test writes.
type cluster struct {
	client.Client
	kubeconfig string // of the controller, whose user has what deploy/ gives it
}

// build compiles a program of a module of this repository, without C if it is to be stripped.
func build(t *testing.T, module, pkg, name string, flags ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	args := append([]string{"build", "-C", module, "-o", file}, flags...)
	cmd := exec.CommandContext(t.Context(), "go", append(args, pkg)...)
	if len(flags) > 0 {
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", name, err, out)
	}
	return file
}

func newCluster(t *testing.T, l *lab.Lab, h *lab.Host) *cluster {
	t.Helper()
	dir := t.TempDir()
	log.SetLogger(logr.FromSlogHandler(slog.DiscardHandler))
	program := build(t, "../apiserver", ".", "kube-apiserver", "-trimpath", "-ldflags=-s -w")
	etcd := peers.Etcd(l, peers.EtcdOptions{}, peers.EtcdMember{Host: h})
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	private := write("sa.key", string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})))
	tokens := write("tokens.csv", adminToken+",admin,1,system:masters\n"+routerToken+",system:serviceaccount:baton-system:baton-router,2,\"system:serviceaccounts,system:authenticated\"\n")
	server, err := h.Start(lab.Program{Path: program, Name: "kube-apiserver", Args: []string{
		"--etcd-servers", strings.Join(etcd.Endpoints(), ","), "--cert-dir", dir, "--bind-address", "127.0.0.1", "--advertise-address", node, "--secure-port", "6443",
		"--authorization-mode", "RBAC", "--token-auth-file", tokens, "--service-cluster-ip-range", "10.96.0.0/16",
		"--service-account-issuer", "https://kubernetes.default.svc", "--service-account-key-file", private, "--service-account-signing-key-file", private,
		"--disable-admission-plugins", "ServiceAccount", "--endpoint-reconciler-type", "none",
	}})
	if err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgo.AddToScheme(scheme), gateway.Install(scheme)); err != nil {
		t.Fatal(err)
	}
	config := &rest.Config{Host: "https://127.0.0.1:6443", BearerToken: adminToken, Dial: h.Dial, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, QPS: -1}
	c := &cluster{kubeconfig: write("kubeconfig", fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: lab, cluster: {server: "https://127.0.0.1:6443", insecure-skip-tls-verify: true}}]
users: [{name: router, user: {token: %s}}]
contexts: [{name: lab, context: {cluster: lab, user: router}}]
current-context: lab
`, routerToken))}
	err = lab.Poll(within, func() (err error) {
		select {
		case <-server.Done():
			t.Fatalf("kube-apiserver has ended:\n%s", server.Log())
		default:
		}
		if c.Client, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
			return err
		}
		var namespaces unstructured.UnstructuredList
		namespaces.SetAPIVersion("v1")
		namespaces.SetKind("NamespaceList")
		if err = c.List(t.Context(), &namespaces); err == nil && len(namespaces.Items) == 0 {
			err = errors.New("there is no namespace yet")
		}
		return err
	})
	if err != nil {
		t.Fatalf("kube-apiserver: %v\n%s", err, server.Log())
	}
	return c
}

// apply creates the objects of a text, or updates those that there are, and writes the status that the text has.
func (c *cluster) apply(t *testing.T, text string) {
	t.Helper()
	for _, document := range strings.Split(text, "\n---") {
		var o unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(document), &o.Object); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if o.GetKind() == "" || o.GetKind() == "Kustomization" {
			continue
		}
		status, hasStatus := o.Object["status"]
		if err := c.applyOne(t.Context(), &o); err != nil {
			t.Fatalf("apply %s %s: %v", o.GetKind(), o.GetName(), err)
		}
		if hasStatus && o.GetKind() == "Pod" {
			o.Object["status"] = status
			if err := c.Status().Update(t.Context(), &o); err != nil {
				t.Fatalf("status of %s %s: %v", o.GetKind(), o.GetName(), err)
			}
		}
	}
}

func (c *cluster) applyOne(ctx context.Context, o *unstructured.Unstructured) error {
	wanted := o.DeepCopy()
	return lab.Poll(within, func() error { // a CRD takes a moment
		var is unstructured.Unstructured
		is.SetGroupVersionKind(wanted.GroupVersionKind())
		err := c.Get(ctx, client.ObjectKeyFromObject(wanted), &is)
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		o.Object = wanted.DeepCopy().Object
		if err != nil {
			return c.Create(ctx, o)
		}
		o.SetResourceVersion(is.GetResourceVersion())
		return c.Update(ctx, o)
	})
}

// applyFiles applies YAML files.
func (c *cluster) applyFiles(t *testing.T, pattern string) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no files %s, %v", pattern, err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		c.apply(t, string(text))
	}
}

// crds are the files of the standard channel.
func crds(t *testing.T) string {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/gateway-api").Output()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(strings.TrimSpace(string(dir)), "config/crd/standard/*.yaml")
}
