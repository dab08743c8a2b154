// Command baton-kubernetes has the request router of its node serve what objects of the Gateway API say.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metrics "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	gateway "sigs.k8s.io/gateway-api/apis/v1"

	"baton/kubernetes/controller"
	"baton/kubernetes/translate"
)

var version = "devel" // set by the linker

// exitUsage is the status for a mistake of the caller.
const exitUsage = 2

type options struct {
	router        controller.Router
	namespace     string
	addresses     []string
	interfaces    []string
	clientAddress string
	prepare       bool
	version       bool
}

func main() {
	err := run(os.Args[1:])
	switch {
	case errors.Is(err, pflag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "baton-kubernetes:", err)
		var usage usageError
		if errors.As(err, &usage) {
			os.Exit(exitUsage)
		}
		os.Exit(1)
	}
}

// usageError is a mistake of the caller.
type usageError struct{ error }

func parse(args []string) (*options, error) {
	o := &options{}
	f := pflag.NewFlagSet("baton-kubernetes", pflag.ContinueOnError)
	f.SortFlags = false
	f.StringVar(&o.router.Folder, "folder", "/var/lib/baton-kubernetes", "where to write router.yaml and the surrogates; the router runs with -c FOLDER/router.yaml")
	f.StringVar(&o.router.Control, "control", "/run/baton/router.sock", "the router's control socket")
	f.StringVar(&o.router.Metrics, "router-metrics", "", "host:port on which the router has its metrics (default none)")
	f.StringVar(&o.router.State, "router-state", "", "the router's state (default the router's own)")
	f.StringSliceVar(&o.addresses, "node-addresses", list(os.Getenv("NODE_ADDRESSES")), "this node's addresses, for Gateways without spec.addresses (default $NODE_ADDRESSES)")
	f.StringSliceVar(&o.interfaces, "interfaces", nil, "interfaces towards clients (default those that have the node's addresses)")
	f.StringVar(&o.namespace, "namespace", os.Getenv("POD_NAMESPACE"), "namespace of the DaemonSet, one of whose pods writes statuses; without it this node is the only one (default $POD_NAMESPACE)")
	f.StringVar(&o.clientAddress, "client-address", "", "field of HTTP requests that tells backends the client's address, such as x-forwarded-for (default none)")
	f.BoolVar(&o.prepare, "prepare", false, "write a configuration that serves nothing if there is none, and exit: the router needs one to start")
	f.BoolVar(&o.version, "version", false, "print the version and exit")
	f.Usage = func() {
		fmt.Fprintf(os.Stderr, "Has this node's request router serve GatewayClasses of controller %s.\n\nUsage:\n  baton-kubernetes [flags]\n\nFlags:\n%s", translate.Controller, f.FlagUsages())
	}
	if err := f.Parse(args); err != nil {
		return nil, usageError{err}
	}
	if f.NArg() > 0 {
		return nil, usageError{fmt.Errorf("%q is no argument of baton-kubernetes: it has flags alone, see --help", f.Arg(0))}
	}
	if !filepath.IsAbs(o.router.Folder) {
		return nil, usageError{fmt.Errorf("--folder: %q is not absolute: the router may run in another folder", o.router.Folder)}
	}
	return o, nil
}

func list(s string) []string {
	return slices.DeleteFunc(strings.Split(s, ","), func(s string) bool { return s == "" })
}

func run(args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	if o.version {
		fmt.Println("baton-kubernetes", version)
		return nil
	}
	if err := o.router.Prepare(); err != nil || o.prepare {
		return err
	}
	own, err := o.nodeAddresses()
	if err != nil {
		return usageError{err}
	}
	if _, err := o.host(own); err != nil {
		return usageError{err}
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	ctrl.SetLogger(logr.FromSlogHandler(log.Handler()))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	m, err := o.manager()
	if err != nil {
		return err
	}
	r := &controller.Reconciler{
		Client: m.GetClient(), Router: &o.router, Host: func() (translate.Host, error) { return o.host(own) },
		Namespace: o.namespace, Elected: m.Elected(), Log: log,
	}
	if err := r.SetupWithManager(m); err != nil {
		return fmt.Errorf("set up the controller: %w", err)
	}
	return m.Start(ctx)
}

// manager connects to the API server: as a pod, or by $KUBECONFIG.
func (o *options) manager() (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, discoveryv1.AddToScheme, gateway.Install} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	rest, err := ctrl.GetConfig()
	if err != nil {
		return nil, fmt.Errorf("no API server: this is neither a pod with a service account nor is KUBECONFIG set: %w", err)
	}
	stored := cache.Options{ByObject: map[client.Object]cache.ByObject{}}
	if o.namespace != "" {
		stored.ByObject[&corev1.Pod{}] = cache.ByObject{
			Namespaces: map[string]cache.Config{o.namespace: {}}, Label: labels.SelectorFromSet(labels.Set{controller.RouterLabel: controller.RouterName}),
		}
	}
	m, err := ctrl.NewManager(rest, ctrl.Options{
		Scheme: scheme, Cache: stored, Metrics: metrics.Options{BindAddress: "0"},
		LeaderElection: o.namespace != "", LeaderElectionID: "baton-kubernetes", LeaderElectionNamespace: o.namespace, LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	return m, nil
}

func (o *options) nodeAddresses() ([]netip.Addr, error) {
	var out []netip.Addr
	for _, s := range o.addresses {
		a, err := netip.ParseAddr(s)
		if err != nil {
			return nil, fmt.Errorf("--node-addresses: %q is not an IP address", s)
		}
		out = append(out, a.Unmap())
	}
	return out, nil
}

// host looks at this host's interfaces.
func (o *options) host(own []netip.Addr) (translate.Host, error) {
	h := translate.Host{Addresses: own, Interfaces: o.interfaces, ClientAddress: o.clientAddress}
	all, err := net.Interfaces()
	if err != nil {
		return h, fmt.Errorf("list interfaces: %w", err)
	}
	for _, i := range all {
		addresses, err := i.Addrs()
		if err != nil {
			continue // it is gone
		}
		for _, a := range addresses {
			p, err := netip.ParsePrefix(a.String())
			if err != nil {
				continue
			}
			ip := p.Addr().Unmap()
			h.Local = append(h.Local, ip)
			if len(o.interfaces) == 0 && slices.Contains(own, ip) && !slices.Contains(h.Interfaces, i.Name) {
				h.Interfaces = append(h.Interfaces, i.Name)
			}
		}
	}
	slices.Sort(h.Interfaces)
	if len(h.Interfaces) == 0 {
		return h, fmt.Errorf("no interface towards clients is known: %s; name it with --interfaces",
			cmp.Or(strings.Join(o.addresses, ", "), "no --node-addresses")+" is on none")
	}
	return h, nil
}
