package deploy

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	gateway "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"baton/kubernetes/controller"
	"baton/kubernetes/translate"
)

// read decodes the objects of a file, and refuses keys that their kinds do not have.
func read(t *testing.T, file string) (out []runtime.Object) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{appsv1.AddToScheme, corev1.AddToScheme, rbacv1.AddToScheme, gateway.Install} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for documents := utilyaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(text))); ; {
		document := make([]byte, len(text))
		n, err := documents.Read(document)
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		object, _, err := decoder.Decode(document[:n], nil, nil)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		out = append(out, object)
	}
}

// resources are the files that a kustomization names.
func resources(t *testing.T, folder string) (out []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, "kustomization.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var k struct {
		APIVersion string   `json:"apiVersion"`
		Kind       string   `json:"kind"`
		Resources  []string `json:"resources"`
		Images     []struct {
			Name    string `json:"name"`
			NewName string `json:"newName"`
			NewTag  string `json:"newTag"`
		} `json:"images"`
	}
	if err := yaml.UnmarshalStrict(text, &k); err != nil {
		t.Fatal(err)
	}
	for _, r := range k.Resources {
		out = append(out, filepath.Join(folder, r))
	}
	return out
}

// TestManifests: all are valid, and say of each other and of the program what those say.
func TestManifests(t *testing.T) {
	var sets []*appsv1.DaemonSet
	var class *gateway.GatewayClass
	kinds := map[string]int{}
	for _, file := range append(resources(t, "."), resources(t, "forwarder")...) {
		for _, o := range read(t, file) {
			kinds[o.GetObjectKind().GroupVersionKind().Kind]++
			switch o := o.(type) {
			case *appsv1.DaemonSet:
				sets = append(sets, o)
			case *gateway.GatewayClass:
				class = o
			case *rbacv1.ClusterRole:
				for _, r := range o.Rules {
					if slices.Contains(r.Verbs, "*") || slices.Contains(r.Resources, "*") || slices.Contains(r.Resources, "secrets") {
						t.Errorf("ClusterRole %s has more than the least: %v", o.Name, r)
					}
				}
			}
		}
	}
	if len(sets) != 2 || class == nil || kinds["ClusterRole"] != 1 || kinds["Role"] != 1 {
		t.Fatalf("%d DaemonSets, class %v, kinds %v", len(sets), class, kinds)
	}
	if class.Spec.ControllerName != translate.Controller {
		t.Errorf("the class is of %s, and the controller is %s", class.Spec.ControllerName, translate.Controller)
	}
	if sets[0].Spec.Template.Labels[controller.RouterLabel] != controller.RouterName {
		t.Errorf("the router's pods have labels %v", sets[0].Spec.Template.Labels)
	}
	for _, s := range sets {
		pod := s.Spec.Template.Spec
		for _, c := range append(pod.InitContainers, pod.Containers...) {
			if c.SecurityContext == nil || c.SecurityContext.Capabilities == nil || !slices.Contains(c.SecurityContext.Capabilities.Drop, "ALL") {
				t.Errorf("container %s of %s keeps its runtime's capabilities", c.Name, s.Name)
			}
			for _, m := range c.VolumeMounts {
				if !slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name }) {
					t.Errorf("container %s of %s mounts %s, which is no volume", c.Name, s.Name, m.Name)
				}
			}
		}
	}
}

// TestCapabilities: the router and the forwarder have what their systemd units give them.
func TestCapabilities(t *testing.T) {
	for unit, file := range map[string]string{"baton-router": "router.yaml", "baton-forwarder": "forwarder/forwarder.yaml"} {
		text, err := os.ReadFile("../../packaging/" + unit + ".service")
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(text), "CapabilityBoundingSet=")
		line, _, _ := strings.Cut(rest, "\n")
		want := strings.Fields(strings.ReplaceAll(line, "CAP_", ""))
		slices.Sort(want)
		for _, o := range read(t, file) {
			set, is := o.(*appsv1.DaemonSet)
			if !is {
				continue
			}
			var got []string
			for _, c := range set.Spec.Template.Spec.Containers[0].SecurityContext.Capabilities.Add {
				got = append(got, string(c))
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("%s adds %v, and %s has %v", file, got, unit, want)
			}
		}
	}
}
